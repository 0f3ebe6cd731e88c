"""The server: network thread, store thread, and all that they decide."""
