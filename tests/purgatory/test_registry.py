"""The purgatories of a process that are alive."""

import gc

from purgatory import Purgatory
from purgatory.registry import live_purgatories
from purgatory.testing import ManualPurgatory


def names():
    """The names of those that the registry has."""
    return {purgatory.name for purgatory in live_purgatories()}


def test_from_its_making_to_its_close():
    """A purgatory is known at once, and not after `close`."""
    with ManualPurgatory("registered"):
        assert "registered" in names()
    assert "registered" not in names()


def test_it_is_not_kept_alive():
    """One that the program drops is forgotten."""
    purgatory = Purgatory("dropped")
    assert "dropped" in names()
    del purgatory
    gc.collect()
    assert "dropped" not in names()


def test_equal_purgatories_are_two():
    """A subclass may define `__eq__` as it likes."""

    class Equal(ManualPurgatory):
        def __eq__(self, other):
            return isinstance(other, Equal)

        def __hash__(self):
            return 1

    with Equal("one"), Equal("two"):
        assert {"one", "two"} <= names()
