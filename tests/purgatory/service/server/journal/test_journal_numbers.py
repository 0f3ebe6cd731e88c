"""JournalNumbers: rows that the journal has are deleted a few at a time, with pauses."""

from purgatory.service.server.journal.journal_numbers import JournalNumbers
from purgatory.service.server.records.retention import (
    DELETED_PER_TRANSACTION,
    DELETED_SHARE,
    DELETION_PAUSE_MS,
)
from purgatory.service.store.rows import JournalPosition


def test_nothing_is_deleted_that_the_journal_does_not_have():
    """Nor twice."""
    numbers = JournalNumbers(JournalPosition(0, 0, 7, 9), (3, 9, 0))
    assert numbers.next_deletion_ms() is None
    numbers.confirm(JournalPosition(0, 0, 5, 9))
    assert numbers.next_deletion_ms() == 0
    assert numbers.select_deletable(1000) == (5, 9, 0)
    numbers.note_deleted((5, 9, 0))
    assert numbers.next_deletion_ms() is None


def test_many_are_deleted_in_parts():
    """Each in a transaction; what is not committed is selected again."""
    last = 2 * DELETED_PER_TRANSACTION + 1
    numbers = JournalNumbers(JournalPosition(0, 0, last, 1), (0, 0, 0))
    numbers.confirm(JournalPosition(0, 0, last, 1))
    assert numbers.select_deletable(1000) == (DELETED_PER_TRANSACTION, 1, 0)
    assert numbers.next_deletion_ms() == 1000 + DELETION_PAUSE_MS
    assert numbers.select_deletable(1020) == (DELETED_PER_TRANSACTION, 1, 0)
    deleted = []
    while numbers.next_deletion_ms() is not None:
        deleted.append(numbers.select_deletable(1020))
        numbers.note_deleted(deleted[-1])
    ends = DELETED_PER_TRANSACTION, 2 * DELETED_PER_TRANSACTION, last
    assert deleted == [(end, 1, 0) for end in ends]


def test_very_many_are_deleted_in_larger_parts():
    """Or they would become more and more, where events come more quickly."""
    last = 2 * DELETED_SHARE * DELETED_PER_TRANSACTION
    numbers = JournalNumbers(JournalPosition(0, 0, last, 0), (0, 0, 0))
    numbers.confirm(JournalPosition(0, 0, last, 0))
    assert numbers.select_deletable(0) == (2 * DELETED_PER_TRANSACTION, 0, 0)


def test_each_table_has_numbers_of_its_own():
    """A table of which the journal has more than was deleted is enough."""
    numbers = JournalNumbers(JournalPosition(0, 0, 1, 2, 3), (1, 2, 0))
    assert (numbers.next_event(), numbers.next_extension(), numbers.next_job()) == (2, 3, 4)
    numbers.confirm(JournalPosition(0, 0, 1, 2, 3))
    assert numbers.select_deletable(0) == (1, 2, 3)
    numbers.follow(JournalPosition(0, 0, 0, 0, 9))
    assert numbers.next_job() == 10
