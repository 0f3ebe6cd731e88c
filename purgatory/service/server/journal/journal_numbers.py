"""JournalNumbers: numbers the events and extensions that the journal is to get, and deletes them.

The store keeps their rows until the journal has them. Used by the store thread alone.
"""

from purgatory.service.server.records.retention import DeletionPace, most_deleted
from purgatory.service.store.rows import JournalPosition


class JournalNumbers:
    """The numbers given, and up to which the journal has the rows. `is_used`: there is a journal.

    A rolled back transaction does not give its numbers back: it leaves a gap.
    """

    __slots__ = (
        "_confirmed",
        "_deleted",
        "_events",
        "_extensions",
        "_pace",
        "has_deletable",
        "is_used",
    )

    def __init__(self, last: JournalPosition, deleted: tuple[int, int]) -> None:
        self.is_used: bool = False
        self._events = last.events
        self._extensions = last.extensions
        self._deleted = deleted
        self._confirmed = deleted
        #: Whether the journal has rows that are not deleted.
        self.has_deletable: bool = False
        self._pace = DeletionPace()

    def follow(self, position: JournalPosition) -> None:
        """Give only numbers above `position` from now on."""
        self._events = max(self._events, position.events)
        self._extensions = max(self._extensions, position.extensions)

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
        self._compare()

    def _compare(self) -> None:
        (events, extensions), (events_gone, extensions_gone) = self._confirmed, self._deleted
        self.has_deletable = events > events_gone or extensions > extensions_gone

    def next_deletion_ms(self) -> int | None:
        """Return when rows are to be deleted; None if only the journal can change that.

        A time in the past means at once.
        """
        return self._pace.paused_until_ms if self.has_deletable else None

    def select_deletable(self, now_ms: int) -> tuple[int, int]:
        """Return up to which numbers rows are to be deleted now."""
        self._pace.begin(now_ms)
        events, extensions = map(_next_of, self._confirmed, self._deleted)
        return events, extensions

    def note_deleted(self, deleted: tuple[int, int]) -> None:
        """Note that what `select_deletable` returned is committed."""
        self._deleted = deleted
        self._compare()


def _next_of(confirmed: int, deleted: int) -> int:
    """Return up to which number the rows of a table are deleted next."""
    left = confirmed - deleted
    return deleted + max(0, min(left, most_deleted(left)))
