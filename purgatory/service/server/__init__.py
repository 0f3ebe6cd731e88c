"""The server: network thread, store thread, and everything they decide."""
