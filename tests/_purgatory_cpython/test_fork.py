"""A forked child disowns what its parent had, before any other code of it runs."""

import gc
import os

import pytest

from _purgatory_cpython import fork
from _purgatory_cpython.fork import FORK_COUNTER, register

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


class Thing:
    """An object that notes the fork."""

    def __init__(self):
        self.number = FORK_COUNTER.value
        self.counts = []

    def after_fork(self):
        self.counts.append(FORK_COUNTER.value - self.number)


def in_child(check):
    """Return whether `check()` holds in a forked child."""
    child = os.fork()
    if not child:
        os._exit(0 if check() else 1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_a_child_disowns_once():
    """`after_fork` is called once, and sees the new count; the parent is left alone."""
    thing = Thing()
    register(thing)
    assert in_child(lambda: thing.counts == [1])
    assert (thing.counts, FORK_COUNTER.value) == ([], thing.number)


def test_a_grandchild_disowns_nothing_of_its_grandparent():
    """The child has done so, and counts on for the grandchild."""
    thing = Thing()
    register(thing)
    assert in_child(
        lambda: in_child(lambda: (thing.counts, FORK_COUNTER.value) == ([1], thing.number + 2))
    )


def test_what_is_registered_is_not_kept_alive():
    """An object that the program drops is not called."""
    thing = Thing()
    register(thing)
    assert thing in fork._registered
    before = len(list(fork._registered))
    del thing
    gc.collect()
    assert len(list(fork._registered)) < before
