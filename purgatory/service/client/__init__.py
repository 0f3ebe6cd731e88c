"""The client's side of the service."""
