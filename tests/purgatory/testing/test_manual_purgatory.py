"""ManualPurgatory: time by hand."""

import pytest

from purgatory import OperationExpired
from purgatory.testing import ManualPurgatory


@pytest.fixture
def purgatory():
    """A purgatory whose time is moved by hand."""
    with ManualPurgatory() as made:
        yield made


def test_what_is_due_expires(purgatory):
    """To the millisecond, and each at its time."""
    seen = []
    for seconds in (3, 1, 3600):
        future = purgatory.defer(seconds, timeout=seconds)
        future.add_done_callback(lambda _: seen.append(purgatory.clock()))
    purgatory.advance(2.999)
    assert seen == [1000]
    purgatory.advance(0.001)
    assert seen == [1000, 3000]
    purgatory.advance(7200)
    assert seen == [1000, 3000, 3_600_000]


def test_what_is_completed(purgatory):
    """At once, in the caller's thread; what is posted, within the next advance."""
    one, two = purgatory.defer("a", timeout=1), purgatory.defer("b", timeout=1)
    assert purgatory.complete("a", 1) == 1
    assert one.result(0) == 1
    purgatory.complete_later("b", 2)
    assert not two.done()
    purgatory.advance(0)
    assert two.result(0) == 2


def test_an_expired_future_raises(purgatory):
    """As with a real clock."""
    future = purgatory.defer("a", timeout=5)
    purgatory.advance(5)
    with pytest.raises(OperationExpired):
        future.result(0)


def test_time_does_not_go_back(purgatory):
    """A negative time is refused."""
    with pytest.raises(ValueError, match="-1"):
        purgatory.advance(-1)


def test_a_callback_may_move_the_time_on(purgatory):
    """As code under test does that waits by `advance`, too; the outer call then is over."""
    one, two = purgatory.defer("a", timeout=30), purgatory.defer("b", timeout=32)
    one.add_done_callback(lambda _: purgatory.advance(5))
    purgatory.advance(31)
    assert (purgatory.clock(), two.done()) == (35_000, True)


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_a_bad_duration_is_named(purgatory, seconds):
    """By the name of the argument."""
    with pytest.raises(ValueError, match="seconds is"):
        purgatory.advance(seconds)
