"""The durable store of the service, on SQLite."""
