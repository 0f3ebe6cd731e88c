"""The journal of a server."""
