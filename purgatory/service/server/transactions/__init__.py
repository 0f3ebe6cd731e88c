"""A transaction of a server: its changes, its size, and the events of keys in it."""
