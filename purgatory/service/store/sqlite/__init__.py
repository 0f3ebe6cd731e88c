"""The store in a file of the machine, on SQLite: the default."""
