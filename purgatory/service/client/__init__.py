"""The client's side of the service: `Client`, `AsyncClient`, and what they are made of."""
