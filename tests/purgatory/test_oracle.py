"""The oracle itself, by examples that are easy to verify by hand."""

import pytest
from hypothesis import given

from purgatory.trace import COMPLETED, EXPIRED, FAILED, Extension, KeyEvent, Operation
from tests.testing.oracle import full_traces, resolve, traces


def _end(operation, *events):
    (outcome,) = resolve([operation], [KeyEvent(*event) for event in events])
    return outcome.outcome, outcome.at_ms, outcome.by_key


def _end_of(operation, events, extensions):
    """Return how it ended, when, by which key, and its deadline at the end."""
    (outcome,) = resolve([operation], events, [Extension("op", *row) for row in extensions])
    return outcome.outcome, outcome.at_ms, outcome.by_key, outcome.deadline_ms


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


@pytest.mark.parametrize(
    ("at_ms", "deadline_ms"), [(99, 150), (100, 130), (120, 150), (150, 180), (151, 150)]
)
def test_an_extension_counts_from_its_time_if_the_operation_has_not_ended(at_ms, deadline_ms):
    """The instants of the submission and of the deadline count, too; it may shorten."""
    assert _end_of(_op("a"), [], [(at_ms, 30)]) == (EXPIRED, deadline_ms, None, deadline_ms)


def test_a_chain_of_extensions_breaks_where_one_comes_too_late():
    """Whatever comes after the end changes nothing."""
    assert _end_of(_op("a"), [], [(150, 10), (160, 10), (170, 10)])[1] == 180
    assert _end_of(_op("a"), [], [(150, 10), (161, 10), (162, 100)])[1] == 160
    assert _end_of(_op("a"), [], [(110, 5), (116, 100)])[1] == 115


def test_of_several_extensions_of_one_instant_the_last_row_wins():
    """Also if it is the shorter one."""
    assert _end_of(_op("a"), [], [(110, 90), (110, 20)])[1] == 130


def test_extensions_come_before_the_events_of_their_instant_and_not_after_the_end():
    """The deadline of an outcome is the one in force at the end."""
    completed = [KeyEvent("a", 150)]
    assert _end_of(_op("a"), completed, [(150, 10)]) == (COMPLETED, 150, "a", 160)
    assert _end_of(_op("a"), completed, [(151, 10)]) == (COMPLETED, 150, "a", 150)
    assert _end_of(_op("a"), [KeyEvent("a", 160)], [(150, 9)]) == (EXPIRED, 159, None, 159)
    assert _end_of(_op("a"), [KeyEvent("a", 111)], [(111, 0)]) == (COMPLETED, 111, "a", 111)


def test_a_held_event_counts_at_the_submission_until_its_hold_is_over():
    """Both ends included."""
    for hold_ms, expected in ((9, (EXPIRED, 150, None)), (10, (COMPLETED, 100, "a"))):
        assert _end(_op("a"), ("a", 90, hold_ms)) == expected
    held = [KeyEvent("a", 90, 10)]
    assert _end_of(_op("a"), held, [(100, 7)]) == (COMPLETED, 100, "a", 107)


def test_a_held_event_is_replaced_by_a_later_completion_and_not_by_a_failure():
    """Also by one that is not held; at the submission's own instant both count."""
    assert _end(_op("a"), ("a", 80, 50), ("a", 90)) == (EXPIRED, 150, None)
    assert _end(_op("a"), ("a", 80, 50), ("a", 90, 0, True)) == (COMPLETED, 100, "a")
    assert _end(_op("a"), ("a", 80, 50), ("a", 100)) == (COMPLETED, 100, "a")
    assert _end(_op("a"), ("a", 80, 50), ("a", 100, 0, True)) == (COMPLETED, 100, "a")


def test_of_several_events_of_a_key_at_one_instant_the_longest_hold_counts():
    """In whatever order they are, with a failure beside them, too."""
    assert _end(_op("a"), ("a", 90, 50), ("a", 90)) == (COMPLETED, 100, "a")
    assert _end(_op("a"), ("a", 90), ("a", 90, 0, True), ("a", 90, 50)) == (COMPLETED, 100, "a")


def test_held_keys_count_in_the_order_in_which_their_events_came():
    """Before the events of the instant."""
    assert _end(_op("ab"), ("a", 90, 50), ("b", 80, 50)) == (COMPLETED, 100, "b")
    assert _end(_op("ab"), ("b", 90, 50), ("a", 90, 50)) == (COMPLETED, 100, "b")
    assert _end(_op("ab"), ("b", 90), ("a", 90, 50), ("b", 90, 50)) == (COMPLETED, 100, "a")
    assert _end(_op("ab", need=2), ("b", 100), ("a", 80, 50)) == (COMPLETED, 100, "b")


def test_a_failure_ends_the_operation_whatever_its_need():
    """Unless its key has counted before; a failure is never held."""
    assert _end(_op("ab", need=2), ("a", 110), ("b", 120, 0, True)) == (FAILED, 120, None)
    assert _end(_op("ab", need=2), ("a", 110), ("a", 120, 0, True), ("b", 130)) == (
        COMPLETED,
        130,
        "b",
    )
    assert _end(_op("a"), ("a", 150, 0, True)) == (FAILED, 150, None)
    assert _end(_op("a"), ("a", 151, 0, True)) == (EXPIRED, 150, None)
    assert _end(_op("a"), ("a", 90, 50, True)) == (EXPIRED, 150, None)


def test_of_a_failure_and_a_completion_at_one_instant_the_earlier_row_counts():
    """As of any two events of one instant."""
    assert _end(_op("a"), ("a", 110), ("a", 110, 0, True)) == (COMPLETED, 110, "a")
    assert _end(_op("a"), ("a", 110, 0, True), ("a", 110)) == (FAILED, 110, None)
    assert _end(_op("ab"), ("b", 110, 0, True), ("a", 110)) == (FAILED, 110, None)


@given(full_traces())
def test_extensions_and_failures_that_reach_no_operation_change_nothing(trace):
    """Those of unknown operations and keys, and those before all submissions."""
    unknown = [Extension("none of them", at, 5) for at in range(5)]
    failures = [KeyEvent("no key", at, 0, True) for at in range(5)]
    more = resolve(trace.operations, [*trace.events, *failures], [*trace.extensions, *unknown])
    assert more == resolve(*trace)
