"""The client's side of the service: `Client`, `AsyncClient` and their parts."""
