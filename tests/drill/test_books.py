"""The books of the drill find each kind of broken promise."""

import pytest

from purgatory.service.protocol import How
from tests.drill.books import Books, Held, Operation, Seen
from tests.drill.job_entry import End, Given, JobEntry, Moment


@pytest.fixture
def books():
    """Books with one operation that was acknowledged and has expired on time."""
    books = Books()
    entry = Operation("op", called_at=10.0, timeout=2.0, acked_at=10.1)
    books.operations["op"] = entry
    books.outcome("op", Seen(1, "expired", 12_000), 12.0)
    return books


def kinds(books):
    """Check; return the kinds of what was broken."""
    return [violation.kind for violation in books.check()]


def test_balanced_books(books):
    """An outcome that comes twice is one outcome."""
    books.outcome("op", Seen(1, "expired", 12_000), 12.5)
    books.held += [Held("name", 1, 0.0, 1.0), Held("name", 2, 1.0, 2.0), Held("x", 3, 0.0, 9.0)]
    assert kinds(books) == []


def test_what_was_acknowledged_and_never_ended_is_lost():
    """What was not acknowledged is not."""
    books = Books()
    books.operations["a"] = Operation("a", 0.0, 1.0, acked_at=0.1)
    books.operations["b"] = Operation("b", 0.0, 1.0)
    books.jobs["c"] = JobEntry("c", acked_at=0.1, state="JobUnknown")
    assert kinds(books) == ["lost", "lost"]


def test_two_outcomes(books):
    """Another number, or another outcome."""
    books.outcome("op", Seen(2, "expired", 12_000), 12.0)
    assert kinds(books) == ["twice"]


def test_expired_early(books):
    """Before its timeout, counted from the call; an extension in doubt permits anything."""
    books.operations["op"].timeout = 2.01
    assert kinds(books) == ["early"]
    books.violations.clear()
    books.operations["op"].extended_at = 11.0
    assert kinds(books) == []


def test_an_extension_that_was_acknowledged_counts(books):
    """From its call."""
    entry = books.operations["op"]
    entry.extended, entry.extended_at, entry.extended_by = True, 11.0, 5.0
    assert kinds(books) == ["early"]


@pytest.mark.parametrize(
    ("changes", "seen", "result"),
    [
        ({"event": 5, "event_count": 1}, "expired", None),
        ({"event": 5, "event_count": 1}, "completed", 6),
        ({"event": 5, "event_count": 0}, "completed", 5),
        ({"cancelled": True}, "completed", 5),
    ],
)
def test_an_answer_that_the_outcome_contradicts(changes, seen, result):
    """An event that has counted, one that has not, a cancellation."""
    books = Books()
    entry = books.operations["op"] = Operation("op", 0.0, 1.0, acked_at=0.1)
    for name, value in changes.items():
        setattr(entry, name, value)
    books.outcome("op", Seen(1, seen, 5), 5.0, result)
    assert kinds(books) == ["contradicted"]


def test_leases_that_overlap():
    """And tokens that fall."""
    books = Books()
    books.held += [Held("name", 2, 0.5, 2.0), Held("name", 3, 1.9, 3.0), Held("name", 3, 4.0, 5.0)]
    assert kinds(books) == ["overlap", "token"]


def test_what_is_broken_of_a_job_is_told_with_its_history():
    """The faults that happened meanwhile are part of that."""
    books = Books()
    books.moments = [Moment(3.0, "the drill begins"), Moment(5.5, "kill_active begins")]
    books.jobs["job"] = JobEntry("job", given=[Given(7, "w", "tcp://a", 4.0)], state="done")
    books.jobs["job"].ends.append(End(7, "w", How.DONE, 6.0, False, "tcp://b", 7.0))
    books.check()
    (violation,) = books.violations
    assert violation.kind == "contradicted"
    assert [line.split() for line in violation.text.splitlines()[1:]] == [
        line.split()
        for line in (
            "0.000 the drill begins",
            "1.000 w: leased by tcp://a, token 7",
            "2.500 kill_active begins",
            "3.000 w: done, token 7, told",
            "4.000 w: done, token 7, refused by tcp://b",
        )
    ]


def test_the_first_answer_to_what_was_asked_later():
    """An answer to an earlier question does not count."""
    books = Books()
    books.acks += [(1.0, 5.0), (2.0, 6.0), (3.0, 5.5)]
    assert books.first_ack_after(1.5) == 5.5
    assert books.first_ack_after(4.0) is None


def test_the_longest_time_without_an_answer():
    """From a moment on; what came before does not count."""
    books = Books()
    books.acks += [(0.0, 1.0), (0.0, 9.0), (0.0, 9.5), (0.0, 12.0)]
    assert books.longest_gap_after(8.0) == 2.5
