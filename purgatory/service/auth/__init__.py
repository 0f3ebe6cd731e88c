"""Keys and authentication of the service."""
