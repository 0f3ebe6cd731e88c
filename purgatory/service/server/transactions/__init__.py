"""A transaction of a server: changes, size, and the events of keys."""
