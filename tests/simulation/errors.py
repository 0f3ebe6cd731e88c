"""What the simulation raises."""


class Violation(AssertionError):
    """A promise that was broken; the message says which, and what was seen."""
