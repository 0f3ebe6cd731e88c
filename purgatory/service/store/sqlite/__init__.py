"""The store in a file of this machine, on SQLite: the default."""
