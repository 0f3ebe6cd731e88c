"""The references of results to the value that many outcomes share, and rows of the queue."""

import pytest
from msgspec import Raw

from purgatory.service.encoding import encode, unpack
from purgatory.service.errors import Malformed
from purgatory.service.store.rows import (
    _MOST_SHIFTS,
    QUEUED_EVENT,
    QUEUED_EXTENSION,
    JobState,
    JournalPosition,
    MovedTimes,
    Options,
    StoredOperation,
    reference_to,
    spread_of,
    with_deadlines,
)
from purgatory.trace.tables import Extension, KeyEvent


@pytest.mark.parametrize("number", [1, 255, 256, (1 << 63) - 1])
def test_a_reference_has_a_number(number):
    """It is found again."""
    assert spread_of(bytes(reference_to(number))) == number


@pytest.mark.parametrize("value", [None, 0, b"\xc1", "x", [1], {"a": b"\xc1"}])
def test_a_value_is_no_reference(value):
    """Nor is a reference a value that a client could send."""
    assert spread_of(encode(value)) == spread_of(None) == spread_of(b"") == 0
    with pytest.raises(Malformed):
        unpack(Raw(bytes(reference_to(1))))


def test_what_is_queued_is_a_row_of_a_trace():
    """A number, then the columns of the table."""
    assert 1 + len(KeyEvent._fields) == QUEUED_EVENT
    assert 1 + len(Extension._fields) == QUEUED_EXTENSION


def test_deadlines_that_were_moved():
    """An extended operation has its last deadline, any other its first."""
    first, second = (
        StoredOperation(number, "c", f"op-{number}", "", 0, 1000, 1, ("k",), None)
        for number in (1, 2)
    )
    found = with_deadlines([first, second], {2: 5000})
    assert found == [first, second._replace(deadline_ms=5000)]


def test_options_that_were_not_given():
    """Rows of submissions without them are decoded with these."""
    assert Options(5) == Options(5, (), 0, None)


def test_positions_and_moves_that_were_not_noted():
    """Nothing is queued, and nothing was moved."""
    assert JournalPosition(7, 9) == (7, 9, 0, 0, 0)
    assert MovedTimes() == (0, 0, 0, ())


@pytest.mark.parametrize("moves", [1, _MOST_SHIFTS, _MOST_SHIFTS + 1, _MOST_SHIFTS + 2])
def test_the_latest_moves_of_times(moves):
    """At most so many and one, with the last rows before each."""
    moved = MovedTimes()
    for number in range(moves):
        moved = moved.again(JournalPosition(0, number, 10 + number), 1000, 7 + number)
    assert moved[:3] == (9 + moves, moves - 1, 6 + moves)
    first = max(0, moves - _MOST_SHIFTS - 1)
    assert moved.shifts == tuple((number, 1000) for number in range(first, moves))


def test_states_on_disk():
    """Their numbers stand in databases of all versions."""
    names = ["WAITING", "DONE", "DEAD", "CANCELLING", "CANCELLED", "DROPPED"]
    assert [(state.name, state.value) for state in JobState] == list(
        zip(names, range(6), strict=True)
    )
