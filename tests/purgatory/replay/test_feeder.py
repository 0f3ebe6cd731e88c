"""The feeder: operations, extensions and holds as the trace has them, whatever the window."""

from purgatory.replay.engine import Replay
from purgatory.trace import Extension, KeyEvent
from tests.testing.replays import operation, replayed


def test_timeouts_beyond_all_bounds():
    """The longest timeout that a trace can hold is still a timeout."""
    never = operation("never", 0, 2**63 - 1)
    (outcome,) = replayed([never], [])
    assert (outcome.outcome, outcome.at_ms) == ("expired", 2**63 - 1)


def test_operations_of_one_id_are_extended_together():
    """An id need not be distinct; what has ended stays as it was."""
    rows = [operation(), operation(), operation("o", 5, 20), operation(keys=("l",))]
    rows.sort(key=lambda row: row.submitted_ms)
    outcomes = []
    with Replay(on_outcome=outcomes.append) as replay:
        replay.run(rows, [KeyEvent("l", 3)], extensions=[Extension("o", 10, 2)])
        assert not replay._feeder._waiting
    assert sorted((row.at_ms, row.deadline_ms) for row in outcomes) == [(3, 10), *[(12, 12)] * 3]


def test_holds_and_extensions_beyond_all_bounds():
    """The longest that a trace can hold."""
    rows = [operation("held", 2**50, 5), operation("extended", 2**50, 5, ("x",))]
    extensions = [Extension("extended", 2**50, 2**63 - 1 - 2**50)]
    held, extended = replayed(rows, [KeyEvent("k", 0, 2**63 - 1)], extensions)
    assert (held.outcome, held.at_ms) == ("completed", 2**50)
    assert (extended.outcome, extended.at_ms) == ("expired", 2**63 - 1)


def test_the_wheel_sees_only_what_waits_for_longer_than_a_window():
    """To put each operation on it and take it off again was a quarter of a replay."""
    rows = [operation(f"o{n}", n, 5, (f"k{n}",)) for n in range(10_000)]
    events = [KeyEvent(f"k{n}", n + n % 7) for n in range(10_000)]
    events.sort(key=lambda event: event.at_ms)
    with Replay() as replay:
        replay.run(rows, events)
        timer = replay._clock.timer.stats()
        purgatory = replay._purgatory.stats()
    assert purgatory.completed + purgatory.expired == 10_000
    assert purgatory.expired > 1_000
    assert 0 < timer.cancelled + timer.fired < 200
