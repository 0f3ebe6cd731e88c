"""The transactions of a server."""
