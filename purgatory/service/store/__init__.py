"""The durable store of the service: its contract, and the implementations."""
