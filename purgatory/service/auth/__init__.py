"""Keys and authentication: which clients may connect to a server."""
