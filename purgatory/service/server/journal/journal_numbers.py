"""JournalNumbers: numbers the events and extensions that the journal is to get, and deletes them.

The store keeps their rows until the journal has them. Used by the store thread alone.
"""

from purgatory.service.store.journal_tables import JournalPosition

# How many rows of each table one transaction deletes at most: it should not keep requests waiting.
MAX_DELETED_PER_TRANSACTION = 5000


class JournalNumbers:
    """The numbers given, and up to which the journal has the rows. `is_used`: there is a journal.

    A rolled back transaction does not give its numbers back: it leaves a gap.
    """

    __slots__ = ("_confirmed", "_deleted", "_events", "_extensions", "is_used")

    def __init__(self, last: JournalPosition, deleted: tuple[int, int]) -> None:
        self.is_used: bool = False
        self._events = last.events
        self._extensions = last.extensions
        self._deleted = deleted
        self._confirmed = deleted

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

    def select_deletable(self) -> tuple[int, int]:
        """Return up to which numbers rows are to be deleted now."""
        (events, extensions), (events_gone, extensions_gone) = self._confirmed, self._deleted
        most = MAX_DELETED_PER_TRANSACTION
        return (
            max(events_gone, min(events, events_gone + most)),
            max(extensions_gone, min(extensions, extensions_gone + most)),
        )

    def note_deleted(self, deleted: tuple[int, int]) -> None:
        """Note that what `select_deletable` returned is committed."""
        self._deleted = deleted
