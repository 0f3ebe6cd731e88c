"""The durable store: its contract, and the implementations."""
