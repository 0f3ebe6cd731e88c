"""TableStore: what both stores do alike; RememberedTable: their remembered ids.

Used by the thread with the store.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, NamedTuple, Protocol

from purgatory.service.portions import in_portions
from purgatory.service.store.changes import Changes, RememberedChanges
from purgatory.service.store.contract import COUNT, LAST_PLACE, SHIFT, RememberedRows, Store
from purgatory.service.store.rows import (
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
    attempts_by_seq,
    checked,
    pack_jobs,
    spread_of,
    unpack_jobs,
    with_deadlines,
)
from purgatory.trace.tables import Extension, KeyEvent

_CHUNK: Final = 500
# Rows of a page of remembered ids, and of their shards, which are larger.
_ENTRIES: Final = 4000
_SHARDS: Final = 128


class TableShape(NamedTuple):
    """A table whose rows replace those of the same key, the first `keys` columns.

    `times`: the columns that move when times are shifted, in the rows of the SQL `moved`. `kept`: a
    row of an existing key is an error.
    """

    columns: tuple[str, ...]
    keys: int = 1
    times: tuple[str, ...] = ()
    moved: str = ""
    kept: bool = False


#: Tables by name; `Changes` has the rows to write by these names.
SHAPES: Final = {
    "deadlines": TableShape(("number", "deadline_ms"), 1, ("deadline_ms",)),
    "jobs": TableShape(
        # at_ms 0: ready at once
        (*StoredJob._fields, "error"),
        1,
        ("at_ms",),
        "WHERE at_ms > 0",
    ),
    "attempts": TableShape(StoredAttempt._fields, 2),
    "results": TableShape(("seq", "result")),
    "held": TableShape(("key", *StoredEvent._fields), 1, ("at_ms", "until_ms")),
    "spreads": TableShape(StoredSpread._fields, 1, ("at_ms",)),
    # Times of the calendar are by the wall clock, and stay.
    "repeats": TableShape(
        StoredRepeat._fields, 2, ("next_ms",), "WHERE every_ms > 0 AND next_ms > 0"
    ),
    "replies": TableShape(("session", "seq", "at_ms", "reply"), 2, ("at_ms",)),
    "named_leases": TableShape(("name", "holder", "token", "until_ms"), 1, ("until_ms",)),
    "limits": TableShape(StoredLimit._fields),
}
#: The tables of the journal's queue. A row of jobs has all of a transaction, numbered as the last.
QUEUES: Final = {
    "queued_events": TableShape(("number", *KeyEvent._fields), kept=True),
    "queued_extensions": TableShape(("number", *Extension._fields), kept=True),
    "queued_jobs": TableShape(("number", "first", "jobs"), kept=True),
}
#: All tables with a row for each thing.
TABLES: Final = {
    **SHAPES,
    **QUEUES,
    "progress": TableShape(("number", "key", "value"), 2, kept=True),
    "remembered": TableShape(RememberedRow._fields, kept=True),
    "remembered_shards": TableShape(("shard", "last_place", "entries")),
}
#: Tables with times to shift. Of deadlines only rows of pending operations are shifted.
SHIFTED: Final = [name for name, shape in SHAPES.items() if shape.times and name != "deadlines"]


# The tables whose rows changes have in a list of the table's name.
_LISTED: Final = (*SHAPES, "queued_events", "queued_extensions")
# The tables from which changes delete by one key, and their lists of keys.
_DELETED: Final = [(name, f"delete_{name}") for name in ("held", "named_leases", "limits")]


def rows_of(changes: Changes) -> list[tuple[str, list[Any]]]:
    """Return the tables of SHAPES and QUEUES that changes write to, and flat lists of rows."""
    found = [(name, rows) for name in _LISTED if (rows := getattr(changes, name))]
    if jobs := changes.queued_jobs:
        found.append(("queued_jobs", [jobs[-1].number, jobs[0].number, pack_jobs(jobs)]))
    return found


def deleted_of(changes: Changes) -> list[tuple[str, list[Any]]]:
    """Return the tables from which changes delete by one key, and the keys."""
    found = [(name, keys) for name, listed in _DELETED if (keys := getattr(changes, listed))]
    if changes.remembered is not None and changes.remembered.deleted:
        found.append(("remembered", [place for _, place in changes.remembered.deleted]))
    return found


class OperationTable(Protocol):
    """The table of operations."""

    def oldest_submission_ms(self) -> int | None:
        """See `Store.oldest_submission_ms`."""

    def all(self, after: int) -> Iterator[StoredOperation]:
        """See `Store.submissions`."""

    def some(self, beyond: int, batches: int, *, newest: bool) -> list[StoredOperation]:
        """See `Store.some_operations`."""

    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        """See `Store.by_numbers`."""


class TableStore(Store):
    """A store with tables, read by name. All methods raise StoreError."""

    _operations: OperationTable
    remembered: "RememberedTable"

    @abstractmethod
    def _reading(self) -> AbstractContextManager[None]:
        """Raise StoreError for failed reads in the block."""

    @abstractmethod
    def _read(self, table: str, rest: str = "", columns: Sequence[str] = ()) -> list[Any]:
        """Return rows; `rest`: the statement's end. `columns`: all by default."""

    @abstractmethod
    def _read_keys(self, table: str, keys: Sequence[Any], columns: Sequence[str] = ()) -> list[Any]:
        """Return the rows of some keys, of the first column."""

    @abstractmethod
    def _read_outcomes(self, seqs: Sequence[int]) -> list[StoredOutcome]:
        """Return outcomes as written, in order of `seq`."""

    def _rows_of(self, changes: Changes) -> list[tuple[str, list[Any]]]:
        """Return the tables that changes write to, and flat lists of rows; see `rows_of`."""
        found = rows_of(changes)
        if changes.remembered is not None:
            found += self.remembered.rows_of(changes.remembered)
        return found

    # Operations and outcomes.

    def oldest_submission_ms(self) -> int | None:
        with self._reading():
            return self._operations.oldest_submission_ms()

    def submissions(self, after: int = 0) -> Iterator[StoredOperation]:
        with self._reading():
            yield from self._operations.all(after)

    def operations(self) -> Iterator[StoredOperation]:
        with self._reading():
            for chunk in in_portions(self.submissions(), _CHUNK):
                yield from self._with_deadlines(chunk)

    def _with_deadlines(self, operations: list[StoredOperation]) -> list[StoredOperation]:
        numbers = [operation.number for operation in operations]
        return with_deadlines(operations, dict(self._read_keys("deadlines", numbers)))

    def some_operations(
        self, beyond: int, batches: int, *, newest: bool = False
    ) -> list[StoredOperation]:
        with self._reading():
            return self._with_deadlines(self._operations.some(beyond, batches, newest=newest))

    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        with self._reading():
            found = self._operations.by_numbers(numbers)
            return {row.number: row for row in self._with_deadlines(list(found.values()))}

    def outcomes_by_seqs(self, seqs: Sequence[int]) -> list[tuple[StoredOutcome, StoredOperation]]:
        with self._reading():
            outcomes = checked(self._with_spread_values(self._read_outcomes(seqs)))
            operations = self.by_numbers([outcome.number for outcome in outcomes])
            return [(outcome, operations[outcome.number]) for outcome in outcomes]

    def _with_spread_values(self, outcomes: list[StoredOutcome]) -> list[StoredOutcome]:
        numbers = {number for one in outcomes if (number := spread_of(one.result))}
        if not numbers:
            return outcomes
        values = dict(self._read_keys("spreads", list(numbers), ("number", "value")))
        return [
            one._replace(result=values[number]) if (number := spread_of(one.result)) else one
            for one in outcomes
        ]

    # Other tables.

    def held_events(self) -> list[tuple[str, StoredEvent]]:
        with self._reading():
            return [(key, StoredEvent(*values)) for key, *values in checked(self._read("held"))]

    def spreads(self) -> list[StoredSpread]:
        with self._reading():
            return [StoredSpread(*row) for row in checked(self._read("spreads", "ORDER BY number"))]

    def jobs(self) -> list[StoredJob]:
        with self._reading():
            return [StoredJob(*row) for row in self._read("jobs", columns=StoredJob._fields)]

    def job_rows(self, seqs: Sequence[int]) -> dict[int, tuple[int, int, int, str]]:
        with self._reading():
            return {seq: tuple(row) for seq, *row in self._read_keys("jobs", seqs)}

    def results(self, seqs: Sequence[int]) -> dict[int, bytes]:
        with self._reading():
            return dict(checked(self._read_keys("results", seqs)))

    def attempts(self, seqs: Sequence[int]) -> dict[int, list[StoredAttempt]]:
        with self._reading():
            return attempts_by_seq(self._read_keys("attempts", seqs))

    def repeats(self) -> list[StoredRepeat]:
        with self._reading():
            return [StoredRepeat(*row) for row in self._read("repeats", "ORDER BY client, name")]

    def limits(self) -> list[StoredLimit]:
        with self._reading():
            return [StoredLimit(*row) for row in self._read("limits")]

    def named_leases(self) -> list[tuple[str, str, int, int]]:
        with self._reading():
            return self._read("named_leases")

    def replies(self) -> list[tuple[str, int, int, bytes]]:
        with self._reading():
            return checked(self._read("replies", "ORDER BY at_ms, seq"))

    # The journal's queue.

    def queued_events(self, after: int) -> list[tuple[int, str, int, int, int]]:
        return self._queued("queued_events", after)

    def queued_extensions(self, after: int) -> list[tuple[int, str, int, int]]:
        return self._queued("queued_extensions", after)

    def queued_jobs(self, after: int) -> list[QueuedJob]:
        rows = self._queued("queued_jobs", after)
        with self._reading():
            return [job for *_, packed in rows for job in unpack_jobs(packed) if job.number > after]

    def _queued(self, table: str, after: int) -> list[Any]:
        with self._reading():
            return self._read(table, f"WHERE number > {after:d} ORDER BY number")

    def last_event_ms(self, after: int) -> int | None:
        last = f"WHERE number > {after:d} ORDER BY number DESC LIMIT 1"
        with self._reading():
            found = self._read("queued_events", last, ("at_ms",))
            return found[0][0] if found else None

    def deleted_queued(self) -> QueueNumbers:
        last = self.last_numbers()
        with self._reading():
            return (
                self._deleted("queued_events", "number", last.events),
                self._deleted("queued_extensions", "number", last.extensions),
                self._deleted("queued_jobs", "first", last.jobs),
            )

    def _deleted(self, table: str, column: str, last: int) -> int:
        found = self._read(table, "ORDER BY number LIMIT 1", (column,))
        return found[0][0] - 1 if found else last


class RememberedTable(RememberedRows):
    """The remembered ids of a store. Times are stored without the shift, for rows are many."""

    def __init__(self, store: TableStore) -> None:
        self._store = store
        self.read_shift()

    def read_shift(self) -> None:
        """Read the shift, at the start and after a commit of `shifted`."""
        self._shift_ms: int = self._store.metadata().get(SHIFT, 0)

    def shifted(self, by_ms: int) -> dict[str, Any]:
        """Return the metadata that moves the times of all rows."""
        return {SHIFT: self._shift_ms + by_ms} if self.counts()[0] else {}

    def rows_of(self, changes: RememberedChanges) -> Iterator[tuple[str, list[Any]]]:
        """Yield the tables that changes write to, and flat lists of rows."""
        if changes.rows:
            values: list[Any] = []
            for place, until_ms, hashed, seq, status in changes.rows:
                values += (place, until_ms - self._shift_ms, hashed, seq, bytearray(status))
            yield "remembered", values
        if changes.shards:
            yield "remembered_shards", [value for row in changes.shards for value in row]

    def metadata_of(self, changes: RememberedChanges) -> dict[str, Any]:
        """Return the metadata that changes write."""
        if not (changes.rows or changes.deleted):
            return {}
        return {COUNT: changes.count, LAST_PLACE: changes.last_place}

    def read(self, places: Sequence[int]) -> list[RememberedRow]:
        with self._store._reading():
            rows = sorted(self._store._read_keys("remembered", places), reverse=True)
        found = map(RememberedRow._make, rows)
        return [row._replace(until_ms=row.until_ms + self._shift_ms) for row in found]

    def due(self, now_ms: int, limit: int) -> list[tuple[int, int]]:
        before = now_ms - self._shift_ms
        rest = f"WHERE until_ms <= {before:d} ORDER BY until_ms LIMIT {limit:d}"
        with self._store._reading():
            return self._store._read("remembered", rest, ("hash", "place"))

    def counts(self) -> tuple[int, int]:
        metadata = self._store.metadata()
        return metadata.get(COUNT, 0), metadata.get(LAST_PLACE, 0)

    def shards(self) -> Iterator[tuple[int, int, bytes]]:
        return self._pages("remembered_shards", "shard", -1, _SHARDS)

    def entries(self, after: int) -> Iterator[tuple[int, int]]:
        for place, hashed in self._pages("remembered", "place", after, _ENTRIES, "hash"):
            yield hashed, place

    def _pages(
        self, table: str, key: str, after: int, limit: int, *columns: str
    ) -> Iterator[tuple[Any, ...]]:
        """Yield rows of keys above `after`, in order: all columns, or the key and `columns`."""
        names = (key, *columns) if columns else ()
        while True:
            rest = f"WHERE {key} > {after:d} ORDER BY {key} LIMIT {limit:d}"
            with self._store._reading():
                rows = self._store._read(table, rest, names)
            yield from rows
            if len(rows) < limit:
                return
            after = rows[-1][0]
