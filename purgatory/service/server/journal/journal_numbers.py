"""JournalNumbers: numbers the events and extensions that the journal is to get, and deletes them.

The store keeps their rows until the journal has them. Used by the store thread alone.
"""

from purgatory.service.store.journal_tables import JournalPosition

# One transaction deletes so many rows of each table: it should not keep requests waiting. Or that
# share of those that are too many, so that they do not become more and more. And so many
# milliseconds are between two.
DELETED_PER_TRANSACTION = 500
DELETED_SHARE = 64
DELETION_PAUSE_MS = 20


class JournalNumbers:
    """The numbers given, and up to which the journal has the rows. `is_used`: there is a journal.

    A rolled back transaction does not give its numbers back: it leaves a gap.
    """

    __slots__ = ("_confirmed", "_deleted", "_events", "_extensions", "_paused_until_ms", "is_used")

    def __init__(self, last: JournalPosition, deleted: tuple[int, int]) -> None:
        self.is_used: bool = False
        self._events = last.events
        self._extensions = last.extensions
        self._deleted = deleted
        self._confirmed = deleted
        self._paused_until_ms = 0

    def next_event(self) -> int:
        """Return the number of a new event."""
        self._events += 1
        return self._events

    def next_extension(self) -> int:
        """Return the number of a new extension."""
        self._extensions += 1
        return self._extensions

    def confirm(self, position: JournalPosition) -> None:
        """Note that the journal has all rows up to `position`."""
        self._confirmed = (position.events, position.extensions)

    @property
    def has_deletable(self) -> bool:
        """Whether the journal has rows that are not deleted."""
        (events, extensions), (events_gone, extensions_gone) = self._confirmed, self._deleted
        return events > events_gone or extensions > extensions_gone

    def next_deletion_ms(self) -> int | None:
        """Return when rows are to be deleted; None if only the journal can change that.

        A time in the past means at once.
        """
        return self._paused_until_ms if self.has_deletable else None

    def select_deletable(self, now_ms: int) -> tuple[int, int]:
        """Return up to which numbers rows are to be deleted now."""
        self._paused_until_ms = now_ms + DELETION_PAUSE_MS
        events, extensions = map(_next_of, self._confirmed, self._deleted)
        return events, extensions

    def note_deleted(self, deleted: tuple[int, int]) -> None:
        """Note that what `select_deletable` returned is committed."""
        self._deleted = deleted


def _next_of(confirmed: int, deleted: int) -> int:
    """Return up to which number the rows of a table are deleted next."""
    left = confirmed - deleted
    return deleted + max(0, min(left, max(DELETED_PER_TRANSACTION, left // DELETED_SHARE)))
