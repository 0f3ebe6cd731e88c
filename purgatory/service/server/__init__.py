"""The server: network thread, store thread, and their decisions."""
