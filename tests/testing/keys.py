"""Key: a watch key that runs code of the test when it is compared."""


class Key:
    """A key with a hash and an equality that the test controls."""

    def __init__(self, value, on_compare=None):
        self.value = value
        self.on_compare = on_compare

    def __hash__(self):
        return 1

    def __eq__(self, other):
        for key in (self, other):
            if isinstance(key, Key) and key.on_compare is not None:
                key.on_compare()
        return isinstance(other, Key) and self.value == other.value
