"""A short look of the cycle collector."""

import gc
import weakref

import pytest

from _purgatory_cpython.collector import collect_young


class Node:
    """An object of a reference cycle."""

    def __init__(self):
        self.me = self


@pytest.mark.parametrize("is_enabled", [True, False])
def test_it_frees_young_cycles(is_enabled):
    """Not while the collector is disabled."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        gc.collect()
        gone = weakref.ref(Node())
        if is_enabled:
            gc.enable()
        collect_young()
        assert (gone() is None) == is_enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()
