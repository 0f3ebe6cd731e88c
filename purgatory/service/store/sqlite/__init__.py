"""The store in a file, on SQLite: the default."""
