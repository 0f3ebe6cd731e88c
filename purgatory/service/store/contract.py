"""Store: what the server needs of a store, and what each method promises.

The server knows this contract alone. `SqliteStore` keeps a file of the machine, `PostgresStore` a
database that several servers share. One thread at a time uses a store: the starting thread of a
server, then the store thread, or the network thread while it has the store. Only `lost`,
`is_closing`, `stop`, `trouble` and `stored_bytes` are for any thread.

**Errors.** Each writing method keeps everything or nothing, and says which:

* It returns: all is durable, and where the store has a synchronous standby, there as well.
* `StoreError`, not `fatal`: nothing was kept. The error may pass, so the server goes on.
* `StoreError`, `fatal`: the effect is unknown. The server ends without further answers.
* `StoreFenced`: nothing was kept, since another server has taken the store over. The server answers
  nothing more, and stands by.

Numbers come from the server, never from the store. They increase and are never given twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

from purgatory.errors import StoreError, StoreFenced
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import (
    JournalPosition,
    QueuedJob,
    QueueNumbers,
    RememberedRow,
    StoredAttempt,
    StoredEvent,
    StoredJob,
    StoredLimit,
    StoredOperation,
    StoredOutcome,
    StoredRepeat,
    StoredSpread,
)

__all__ = [
    "COUNT",
    "DAMAGE",
    "DATABASE_ID",
    "LAST_PLACE",
    "PLACE",
    "SERVER_KEYS",
    "SHIFT",
    "SKIPPED",
    "UNFINISHED_COPY",
    "RememberedRows",
    "Store",
    "StoreError",
    "StoreFenced",
]

#: Key of the metadata that identifies the database.
DATABASE_ID: Final = "source"
#: Key of the metadata for the active server's keys, as a text.
SERVER_KEYS: Final = "server_keys"
#: Key of the metadata for the tables, see `Store.place`.
PLACE: Final = "place"
#: Key of the metadata while another store is being copied to this one; 0: copied.
UNFINISHED_COPY: Final = "unfinished_copy"
#: Keys of the metadata of `RememberedRows`; SHIFT: by how much times were moved.
COUNT: Final = "remembered_count"
LAST_PLACE: Final = "remembered_place"
SHIFT: Final = "remembered_shift"
#: A restored server skips so many numbers of outcomes: four months of 100,000 a second.
SKIPPED: Final = 1 << 40
#: The error for values that no server writes.
DAMAGE: Final = "the database is damaged, restore a backup"


class RememberedRows(ABC):
    """The rows of ended, remembered operations and jobs, by place. Raise StoreError."""

    @abstractmethod
    def read(self, places: Sequence[int]) -> list[RememberedRow]:
        """Return the existing rows of some places, the latest first."""

    @abstractmethod
    def due(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        """Return hash and place of at most `limit` rows whose time is over."""

    @abstractmethod
    def counts(self) -> tuple[int, int]:
        """Return the number of rows, and the last place ever given."""

    @abstractmethod
    def shards(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield number, last place and entries of each stored shard."""

    @abstractmethod
    def entries(self, after: int) -> Iterator[tuple[int, int]]:
        """Yield hash and place of the rows of later places, in order."""


class Store(ABC):
    """An open store. See the module for threads and errors; reads raise StoreError, too."""

    #: Once set, by any thread, each commit raises it: writes would be lost.
    lost: StoreError | None
    #: Set before the store closes its files.
    is_closing: bool
    remembered: RememberedRows
    #: Service time minus the time since boot; None: the machine has the clock.
    clock_offset_ns: int | None = None

    # Writing.

    @abstractmethod
    def commit(self, changes: Changes) -> None:
        """Write all changes or none, atomically and durably."""

    @abstractmethod
    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Write metadata, key -> text or whole number, in a separate commit."""

    @abstractmethod
    def skip_outcome_numbers(self, count: int) -> None:
        """Leave out the next numbers of outcomes, in a separate commit."""

    @abstractmethod
    def check_room(self, size: int) -> None:
        """Write `size` bytes and delete them, in commits of their own.

        This finds a full disk that has room for something smaller.
        """

    def shift_times(self, by_ms: int, metadata: dict[str, Any]) -> None:
        """Move times that still matter, and write metadata, in one commit.

        Ended operations and queued journal rows keep their times. Not for a store with a clock, see
        `clock_offset_ns`.
        """
        raise NotImplementedError

    # The start.

    @abstractmethod
    def metadata(self) -> dict[str, Any]:
        """Read the metadata: key -> value."""

    def place(self) -> int:
        """Return a number that the restore of a dump changes; 0: a restore skips numbers."""
        return 0

    @abstractmethod
    def last_numbers(self) -> JournalPosition:
        """Return the last numbers given, also of deleted rows."""

    @abstractmethod
    def oldest_submission_ms(self) -> int | None:
        """Return a time before all stored submissions; None: no submission."""

    @abstractmethod
    def submissions(self, after: int = 0) -> Iterator[StoredOperation]:
        """Yield operations numbered above `after`, in order, with their first deadlines."""

    @abstractmethod
    def operations(self) -> Iterator[StoredOperation]:
        """Yield all operations, ended ones too, in order."""

    @abstractmethod
    def outcomes_without_results(self, after: int = 0) -> Iterator[StoredOutcome]:
        """Yield outcomes above `after`, in order, without keys and results."""

    @abstractmethod
    def outcomes(self) -> Iterator[StoredOutcome]:
        """Yield all outcomes as written, in order: a result may refer to a spread."""

    @abstractmethod
    def progress(self) -> Iterator[tuple[int, str, bytes]]:
        """Yield number, key and value of completed keys of pending operations."""

    @abstractmethod
    def sizes(self, table: Literal["progress", "held", "replies"]) -> Iterator[tuple[str, int]]:
        """Yield key or session, and bytes, of each value in a table."""

    @abstractmethod
    def held_events(self) -> list[tuple[str, StoredEvent]]:
        """Return the keys for which an event is held, and the events."""

    @abstractmethod
    def spreads(self) -> list[StoredSpread]:
        """Return the events for many operations, in order."""

    @abstractmethod
    def jobs(self) -> list[StoredJob]:
        """Return all due jobs with more data than their due time."""

    @abstractmethod
    def repeats(self) -> list[StoredRepeat]:
        """Return all repeats, by client and name."""

    @abstractmethod
    def limits(self) -> list[StoredLimit]:
        """Return the limits of kinds."""

    @abstractmethod
    def named_leases(self) -> list[tuple[str, str, int, int]]:
        """Return name, holder, token and end of each named lease."""

    @abstractmethod
    def replies(self) -> list[tuple[str, int, int, bytes]]:
        """Return session, number, time and frame of replies, in order of each session."""

    # Answers.

    @abstractmethod
    def outcomes_by_seqs(self, seqs: Sequence[int]) -> list[tuple[StoredOutcome, StoredOperation]]:
        """Return outcomes with operations, in order of `seq`; at most 500."""

    @abstractmethod
    def some_operations(
        self, beyond: int, batches: int, *, newest: bool = False
    ) -> list[StoredOperation]:
        """Return the next `batches` of operations above the number `beyond`, in order.

        `newest`: below that number, the newest first. Deleted rows may be among them. None: the
        last page.
        """

    @abstractmethod
    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        """Return number -> operation, for existing `numbers`."""

    @abstractmethod
    def results(self, seqs: Sequence[int]) -> dict[int, bytes]:
        """Return the results of done jobs, by `seq`."""

    @abstractmethod
    def job_rows(self, seqs: Sequence[int]) -> dict[int, tuple[int, int, int, str]]:
        """Return state, attempts, `at_ms` and error of due jobs, by `seq`."""

    @abstractmethod
    def attempts(self, seqs: Sequence[int]) -> dict[int, list[StoredAttempt]]:
        """Return the kept attempts of jobs, by `seq`, in order."""

    # The journal's queue.

    @abstractmethod
    def queued_events(self, after: int) -> list[tuple[int, str, int, int, int]]:
        """Return the journal's events above `after`, in order."""

    @abstractmethod
    def last_event_ms(self, after: int) -> int | None:
        """Return the time of the last event above `after`; None: no event."""

    @abstractmethod
    def queued_extensions(self, after: int) -> list[tuple[int, str, int, int]]:
        """Return the journal's extensions above `after`, in order."""

    @abstractmethod
    def queued_jobs(self, after: int) -> list[QueuedJob]:
        """Return the journal's ends of jobs above `after`, in order."""

    @abstractmethod
    def deleted_queued(self) -> QueueNumbers:
        """Return the last deleted numbers of the journal's events, extensions and jobs."""

    # The life of the store.

    @abstractmethod
    def trouble(self) -> str:
        """Say why later writes would be lost; empty: they are safe. Any one thread.

        The first call notes the present state.
        """

    def waits_for(self) -> str:
        """Say what database the store waits for, and why; empty: none. Any thread; never waits."""
        return ""

    @abstractmethod
    def stored_bytes(self) -> int:
        """Return the bytes of the database, as far as known. Never waits."""

    @abstractmethod
    def stop(self) -> None:
        """Stop waiting for an unreachable database: a commit then raises."""

    @abstractmethod
    def close(self) -> None:
        """Close the store; errors lose no commit. Idempotent."""
