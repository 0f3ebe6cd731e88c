"""JournalNumbers: numbers the journal's queued rows, and deletes them. Store thread alone."""

from purgatory.service.server.records.retention import DELETION_PAUSE_MS, most_deleted
from purgatory.service.store.rows import JournalPosition, QueueNumbers


class JournalNumbers:
    """The last numbers given to events, extensions and ends of jobs, and confirmed ones.

    `is_used`: a journal exists. A rolled back transaction leaves a gap.
    """

    def __init__(self, last: JournalPosition, deleted: QueueNumbers) -> None:
        self.is_used: bool = False
        self._events = last.events
        self._extensions = last.extensions
        self._jobs = last.jobs
        self._deleted = deleted
        self._confirmed = deleted
        #: Whether the journal has rows that the store has.
        self.has_deletable: bool = False
        self._paused_until_ms = 0

    def follow(self, position: JournalPosition) -> None:
        """Give only numbers above `position`."""
        self._events = max(self._events, position.events)
        self._extensions = max(self._extensions, position.extensions)
        self._jobs = max(self._jobs, position.jobs)

    def next_event(self) -> int:
        """Return the number of a new event."""
        self._events += 1
        return self._events

    def next_extension(self) -> int:
        """Return the number of a new extension."""
        self._extensions += 1
        return self._extensions

    def next_job(self) -> int:
        """Return the number of a new end of a job."""
        self._jobs += 1
        return self._jobs

    def confirm(self, position: JournalPosition) -> None:
        """Note that the journal has the rows up to `position`."""
        self._confirmed = (position.events, position.extensions, position.jobs)
        self._compare()

    def _compare(self) -> None:
        pairs = zip(self._confirmed, self._deleted, strict=True)
        self.has_deletable = any(confirmed > deleted for confirmed, deleted in pairs)

    def next_deletion_ms(self) -> int | None:
        """Return when rows are to be deleted, perhaps in the past, if any."""
        return self._paused_until_ms if self.has_deletable else None

    def select_deletable(self, now_ms: int) -> QueueNumbers:
        """Return up to which numbers to delete rows now."""
        self._paused_until_ms = now_ms + DELETION_PAUSE_MS
        events, extensions, jobs = map(_next_of, self._confirmed, self._deleted)
        return events, extensions, jobs

    def note_deleted(self, deleted: QueueNumbers) -> None:
        """Note that the result of `select_deletable` is committed."""
        self._deleted = deleted
        self._compare()


def _next_of(confirmed: int, deleted: int) -> int:
    left = confirmed - deleted
    return deleted + max(0, min(left, most_deleted(left)))
