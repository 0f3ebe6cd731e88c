"""Descriptors: readable or not, and the thread that sleeps on one."""

import pytest

from purgatory.testing.world.descriptors import Descriptors


@pytest.fixture
def descriptors():
    """Those of a process."""
    return Descriptors()


def test_signalled_and_cleared(descriptors):
    """A descriptor is readable from a signal until it is cleared; others are not."""
    one, other = descriptors.new(), descriptors.new()
    descriptors.signal(one)
    assert (descriptors.is_readable(one), descriptors.is_readable(other)) == (True, False)
    descriptors.clear(one)
    assert not descriptors.is_readable(one)


def test_who_watches_is_woken(descriptors):
    """At once if the descriptor is readable, at each signal, and not after `unwatch`."""
    woken = []
    descriptor = descriptors.new()
    descriptors.signal(descriptor)
    descriptors.watch(descriptor, lambda: woken.append(1))
    descriptors.signal(descriptor)
    assert len(woken) == 2
    descriptors.unwatch(descriptor)
    descriptors.unwatch(descriptor)
    descriptors.signal(descriptor)
    assert len(woken) == 2
