"""A map of Spark's state store, in memory."""


class MemoryStore(dict):
    """A map of the state store, in memory; it counts what is written."""

    def __init__(self):
        super().__init__()
        self.writes = 0

    def put(self, number, value):
        """Write a value."""
        self[number] = value
        self.writes += 1

    def remove(self, number):
        """Remove a value."""
        self.pop(number, None)
