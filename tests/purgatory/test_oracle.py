"""The oracle itself, by examples that are easy to verify by hand."""

import pytest
from hypothesis import given

from purgatory.trace import COMPLETED, EXPIRED, KeyEvent, Operation
from tests.testing.oracle import resolve, traces


def _end(operation, *events):
    (outcome,) = resolve([operation], [KeyEvent(*event) for event in events])
    return outcome.outcome, outcome.at_ms, outcome.by_key


def _op(keys, need=1, submitted_ms=100, timeout_ms=50):
    return Operation("op", "kind", submitted_ms, timeout_ms, tuple(keys), need)


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        (99, (EXPIRED, 150, None)),
        (100, (COMPLETED, 100, "a")),
        (120, (COMPLETED, 120, "a")),
        (150, (COMPLETED, 150, "a")),
        (151, (EXPIRED, 150, None)),
    ],
)
def test_both_ends_of_the_window_count(at_ms, expected):
    """Events at the submission and at the deadline count, others outside do not."""
    assert _end(_op("a"), ("a", at_ms)) == expected


def test_without_an_event_it_expires_at_its_deadline():
    """Without an event of its keys an operation expires at submission plus timeout."""
    assert _end(_op("a")) == (EXPIRED, 150, None)
    assert _end(_op("a"), ("b", 110)) == (EXPIRED, 150, None)


def test_a_timeout_of_zero_is_completed_by_an_event_of_its_instant_only():
    """Submissions come before events, and events before expirations."""
    operation = _op("a", timeout_ms=0)
    assert _end(operation, ("a", 100)) == (COMPLETED, 100, "a")
    assert _end(operation, ("a", 101)) == (EXPIRED, 100, None)
    assert _end(operation, ("a", 99)) == (EXPIRED, 100, None)


def test_the_first_event_of_any_key_completes_when_one_is_needed():
    """need=1: the earliest event decides, whichever key it has."""
    assert _end(_op("ab"), ("b", 110), ("a", 120)) == (COMPLETED, 110, "b")


def test_need_n_waits_for_the_nth_distinct_key():
    """Repeated events of one key count once; the n-th distinct key completes."""
    operation = _op("abc", need=2)
    assert _end(operation, ("a", 110), ("a", 111), ("c", 130), ("b", 140)) == (
        COMPLETED,
        130,
        "c",
    )
    assert _end(operation, ("a", 110), ("a", 111)) == (EXPIRED, 150, None)


def test_an_early_event_of_a_key_does_not_hide_its_later_one():
    """Of a key the first event in the window counts."""
    assert _end(_op("ab", need=2), ("a", 50), ("b", 110), ("a", 120)) == (COMPLETED, 120, "a")


def test_keys_named_twice_count_once():
    """The keys of an operation are a set."""
    assert _end(_op("aab", need=2), ("a", 110), ("a", 110)) == (EXPIRED, 150, None)
    assert _end(_op("aab", need=2), ("a", 110), ("b", 110)) == (COMPLETED, 110, "b")


def test_events_of_one_instant_count_in_the_order_of_the_file():
    """Of two keys at the same time the earlier row wins, whatever their names."""
    assert _end(_op("ab"), ("b", 110), ("a", 110)) == (COMPLETED, 110, "b")
    assert _end(_op("ab"), ("a", 110), ("b", 110)) == (COMPLETED, 110, "a")
    assert _end(_op("ab", need=2), ("b", 110), ("a", 110)) == (COMPLETED, 110, "a")


def test_one_event_completes_every_operation_that_waits_and_a_key_can_be_used_again():
    """Each operation has its own window, also for keys that are shared or reused."""
    operations = [
        Operation("first", "", 0, 10, ("k",)),
        Operation("twin", "", 5, 10, ("k",)),
        Operation("again", "", 20, 10, ("k",)),
        Operation("never", "", 40, 10, ("k",)),
    ]
    outcomes = resolve(operations, [KeyEvent("k", 7), KeyEvent("k", 25)])
    assert [(o.op_id, o.outcome, o.at_ms) for o in outcomes] == [
        ("first", COMPLETED, 7),
        ("twin", COMPLETED, 7),
        ("again", COMPLETED, 25),
        ("never", EXPIRED, 50),
    ]


def test_an_outcome_tells_the_whole_story():
    """Times, wait and kind are those of the operation; virtual time is never late."""
    (outcome,) = resolve([_op("a")], [KeyEvent("a", 130)])
    assert outcome._asdict() == {
        "op_id": "op",
        "kind": "kind",
        "outcome": COMPLETED,
        "at_ms": 130,
        "by_key": "a",
        "submitted_ms": 100,
        "deadline_ms": 150,
        "waited_ms": 30,
        "lateness_ms": 0,
    }


@given(traces(start_ms=1_000))
def test_traces_are_in_time_order_and_valid(trace):
    """The strategy keeps what its docstring promises."""
    operations, events = trace
    assert operations == sorted(operations, key=lambda operation: operation.submitted_ms)
    assert events == sorted(events, key=lambda event: event.at_ms)
    assert len({operation.op_id for operation in operations}) == len(operations)
    for operation in operations:
        assert 1 <= operation.need <= len(set(operation.keys))
        assert operation.submitted_ms >= 1_000
        assert operation.timeout_ms >= 0


@given(traces())
def test_more_time_never_turns_a_completion_into_an_expiry(trace):
    """A longer timeout does not change a completion."""
    operations, events = trace
    longer = [operation._replace(timeout_ms=operation.timeout_ms + 7) for operation in operations]
    for short, long in zip(resolve(operations, events), resolve(longer, events), strict=True):
        if short.outcome == COMPLETED:
            assert (long.outcome, long.at_ms, long.by_key) == (
                COMPLETED,
                short.at_ms,
                short.by_key,
            )
