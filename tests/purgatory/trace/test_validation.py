"""Rules: the values that a row may hold."""

import pickle

import pytest

from purgatory.trace import Extension, KeyEvent, Operation, Outcome, TraceError
from purgatory.trace.errors import BadValue
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES
from purgatory.trace.validation import FARTHEST_MS, INT64_MAX, INT64_MIN

OPERATION = {
    "op_id": "op",
    "kind": "kind",
    "submitted_ms": 100,
    "timeout_ms": 50,
    "keys": ("a", "b"),
    "need": 2,
}
OUTCOME = {
    "op_id": "op",
    "kind": "kind",
    "outcome": "completed",
    "at_ms": 120,
    "by_key": "a",
    "submitted_ms": 100,
    "deadline_ms": 150,
    "waited_ms": 20,
    "lateness_ms": 0,
}


def checked_operation(**values):
    return OPERATIONS.make(*map(values.get, OPERATIONS.names))


def checked_event(key, at_ms, hold_ms=None, failed=None):
    return EVENTS.make(key, at_ms, hold_ms, failed)


def checked_extension(*values):
    return EXTENSIONS.make(*values)


def checked_outcome(**values):
    return OUTCOMES.make(*map(values.get, OUTCOMES.names))


def test_a_good_operation_is_made_as_given():
    """All values are kept; a list of keys becomes a tuple."""
    assert checked_operation(**OPERATION) == Operation("op", "kind", 100, 50, ("a", "b"), 2)
    assert checked_operation(**OPERATION | {"keys": ["a", "b"]}).keys == ("a", "b")
    assert checked_operation(**OPERATION).deadline_ms == 150


def test_kind_and_need_have_defaults():
    """Null in a file means: no kind, one key."""
    row = checked_operation(**OPERATION | {"kind": None, "need": None})
    assert (row.kind, row.need) == ("", 1)
    assert checked_outcome(**OUTCOME | {"kind": None}).kind == ""


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("op_id", ""),
        ("op_id", None),
        ("op_id", 7),
        ("op_id", "\udcff"),
        ("kind", 7),
        ("kind", "\udcff"),
        ("submitted_ms", None),
        ("submitted_ms", "100"),
        ("submitted_ms", 100.0),
        ("submitted_ms", True),
        ("submitted_ms", INT64_MAX + 1),
        ("submitted_ms", INT64_MIN - 1),
        ("timeout_ms", -1),
        ("timeout_ms", None),
        ("timeout_ms", 1.5),
        ("timeout_ms", INT64_MAX + 1),
        ("timeout_ms", INT64_MAX - 99),  # the deadline is beyond 64 bits
        ("keys", ()),
        ("keys", None),
        ("keys", "ab"),
        ("keys", ("a", "")),
        ("keys", ("a", None)),
        ("keys", ("a", 7)),
        ("keys", ("a", "\udcff")),
        ("need", 0),
        ("need", 3),
        ("need", True),
        ("need", 1.0),
        ("need", "1"),
    ],
)
def test_a_bad_operation_is_refused_by_column(column, value):
    """The error names the column and the value, and says what was expected."""
    with pytest.raises(BadValue) as caught:
        checked_operation(**OPERATION | {column: value})
    assert (caught.value.column, caught.value.value) == (column, value)
    assert f"column {column}" in str(caught.value)
    assert "expected" in str(caught.value)


def test_need_counts_distinct_keys():
    """A key named twice is one key."""
    with pytest.raises(BadValue, match="from 1 to 1"):
        checked_operation(**OPERATION | {"keys": ("a", "a")})


@pytest.mark.parametrize("at_ms", [-FARTHEST_MS, FARTHEST_MS])
def test_a_row_s_time_is_one_that_a_replay_counts(at_ms):
    """Up to 2**60 ms from 1970, in each table that a replay reads; an outcome may be later."""
    further = at_ms + (1 if at_ms > 0 else -1)
    assert checked_operation(**OPERATION | {"submitted_ms": at_ms}).submitted_ms == at_ms
    assert checked_event("k", at_ms).at_ms == checked_extension("op", at_ms, 0).at_ms == at_ms
    assert checked_outcome(**OUTCOME | {"at_ms": INT64_MAX}).at_ms == INT64_MAX
    expected = r"expected a time within 2\*\*60 ms of 1970"
    with pytest.raises(BadValue, match=f"column submitted_ms: {further}, {expected}"):
        checked_operation(**OPERATION | {"submitted_ms": further})
    with pytest.raises(BadValue, match=f"column at_ms: {further}, {expected}"):
        checked_event("k", further)
    with pytest.raises(BadValue, match=f"column at_ms: {further}, {expected}"):
        checked_extension("op", further, 0)


def test_a_deadline_may_be_at_the_end_of_64_bits():
    """The last one that a column holds."""
    assert checked_operation(**OPERATION | {"timeout_ms": INT64_MAX - 100}).deadline_ms == INT64_MAX


def test_events_are_checked():
    """A key and a time."""
    assert checked_event("k", 5) == KeyEvent("k", 5)
    for key, at_ms, column in (("", 5, "key"), (None, 5, "key"), ("\ud800", 5, "key")):
        with pytest.raises(BadValue) as caught:
            checked_event(key, at_ms)
        assert caught.value.column == column
    for at_ms in (None, "5", 5.0, False, 2**63):
        with pytest.raises(BadValue, match="column at_ms"):
            checked_event("k", at_ms)


def test_holds_and_failures_have_defaults():
    """Null in a file means: not held, not failed."""
    assert checked_event("k", 5, None, None) == KeyEvent("k", 5, 0, False)
    assert checked_event("k", 5, 7, True) == KeyEvent("k", 5, 7, True)
    assert checked_event("k", 5, INT64_MAX - 5).hold_ms == INT64_MAX - 5
    for hold_ms in (-1, "1", 1.0, False, INT64_MAX - 4):
        with pytest.raises(BadValue, match="column hold_ms"):
            checked_event("k", 5, hold_ms)
    for failed in (0, 1, "true"):
        with pytest.raises(BadValue, match=r"column failed: .* expected true or false"):
            checked_event("k", 5, 0, failed)


def test_extensions_are_checked():
    """An operation, a time and a timeout that counts from it."""
    assert checked_extension("op", 5, 7) == Extension("op", 5, 7)
    assert checked_extension("op", 5, 7).deadline_ms == 12
    bad = [("", 5, 7, "op_id"), ("op", None, 7, "at_ms"), ("op", 5, -1, "timeout_ms")]
    for op_id, at_ms, timeout_ms, column in [*bad, ("op", 5, INT64_MAX, "timeout_ms")]:
        with pytest.raises(BadValue, match=f"column {column}"):
            checked_extension(op_id, at_ms, timeout_ms)


@pytest.mark.parametrize(
    ("change", "column"),
    [
        ({"op_id": ""}, "op_id"),
        ({"kind": 1}, "kind"),
        ({"outcome": "done"}, "outcome"),
        ({"outcome": None}, "outcome"),
        ({"by_key": ""}, "by_key"),
        ({"by_key": 1}, "by_key"),
        ({"outcome": "expired"}, "by_key"),
        ({"at_ms": None}, "at_ms"),
        ({"submitted_ms": 1.0}, "submitted_ms"),
        ({"deadline_ms": "x"}, "deadline_ms"),
        ({"waited_ms": 2**63}, "waited_ms"),
        ({"lateness_ms": True}, "lateness_ms"),
    ],
)
def test_a_bad_outcome_is_refused_by_column(change, column):
    """As for operations; only a completed one may name a key."""
    with pytest.raises(BadValue) as caught:
        checked_outcome(**OUTCOME | change)
    assert caught.value.column == column


def test_a_good_outcome_is_made_as_given():
    """Completed by a key, completed without one, expired."""
    assert checked_outcome(**OUTCOME) == Outcome(**OUTCOME)
    assert checked_outcome(**OUTCOME | {"by_key": None}).by_key is None
    assert checked_outcome(**OUTCOME | {"by_key": None, "outcome": "expired"}).outcome == "expired"


def test_a_long_value_is_shortened_and_the_error_survives_pickling():
    """Messages stay readable, and errors can be sent to another process."""
    error = BadValue("keys", "x" * 1000, "less")
    assert len(str(error)) < 120
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert isinstance(again, TraceError)
