"""The journal of a simulated server: its directory, what writes to it, and what must be in it."""
