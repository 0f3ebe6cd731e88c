"""The durable store of the service: its contract, and the stores that keep it."""
