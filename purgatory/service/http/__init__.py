"""A server's HTTP: the live page, metrics and health."""
