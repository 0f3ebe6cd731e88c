"""Operations of a replay: their outcomes, to the millisecond and in order."""

from purgatory.replay.engine import Replay
from purgatory.trace import KeyEvent
from tests.testing.replays import operation, replayed


def test_outcomes_come_in_order_of_time():
    """`on_outcome` is called in the order of time."""
    rows = [operation(f"o{place}", 0, 1000 - place, ("k",)) for place in range(100)]
    outcomes = []
    with Replay(on_outcome=outcomes.append) as replay:
        replay.run(rows, [])
    times = [outcome.at_ms for outcome in outcomes]
    assert times == sorted(times)
    assert len(times) == 100


def test_a_millisecond_counts_in_a_timeout_that_a_float_cannot_hold():
    """2**53 + 1 ms is not 2**53 ms."""
    rows = [operation("long", 0, 2**53 + 1)]
    (outcome,) = replayed(rows, [KeyEvent("k", 2**53 + 1)])
    assert outcome.outcome == "completed"


def test_failures_are_counted():
    """By kind, as completions are."""
    rows = [operation("a"), operation("b", keys=("l",))]
    with Replay() as replay:
        total = replay.run(rows, [KeyEvent("k", 4, 0, True), KeyEvent("l", 5)])
    assert (total.completed, total.failed, total.expired, total.pending) == (1, 1, 0, 0)
