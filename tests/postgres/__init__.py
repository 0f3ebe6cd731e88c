"""A real PostgreSQL for tests: clusters that start, crash and pause, and links that fail."""
