"""Store: operations and their outcomes in an SQLite database, a group of changes at a time.

Committed means on disk: WAL with ``synchronous=FULL``. Used by one thread, a server's store thread.

Rows are only ever appended, in order of their numbers, and deleted in bulk when nobody needs them
any more: a group of changes touches few pages, however many operations wait. An operation has
ended when there is an outcome with its number. Numbers grow and are never given twice.

Operations are written many to a row (see ``batches``), other rows many to a statement: each
statement lets go of the interpreter, and while another thread computes it comes back after
milliseconds only.
"""

import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from purgatory.errors import StoreError
from purgatory.service.store import operation_batches as batches
from purgatory.service.store.operation_batches import (
    OperationBatch,
    OperationBatches,
    StoredOperation,
)
from purgatory.service.store.wal_preallocation import WalPreallocator

SCHEMA_VERSION: Final = 2
#: The fact that names a database, and no other.
DATABASE_ID: Final = "source"
# The fact that says which number was the last one given to an operation, if that is no more.
_LAST: Final = "last"

_SCHEMA: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE progress ( -- of operations that need several keys
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL, -- MessagePack
    PRIMARY KEY (number, key)
) WITHOUT ROWID;
CREATE TABLE outcomes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER NOT NULL, -- of the operation
    outcome TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    lateness_ms INTEGER NOT NULL,
    by_key TEXT,
    result BLOB -- MessagePack
);
"""

# Pages of 4 KiB in the log before they are moved to the database.
_CHECKPOINT_PAGES: Final = 10_000
_PAGE_BYTES: Final = 4096
_BUSY_MS: Final = 1000
_ROWS_PER_STATEMENT: Final = 512
_CHUNK: Final = 500

# After these nothing that this process knows of the disk can be relied on.
_FATAL: Final = (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class JournalPosition(NamedTuple):
    """Up to which numbers, these included, operations and outcomes are meant."""

    operations: int
    outcomes: int


class OperationRow(NamedTuple):
    """An operation as it goes to the journal; times are Unix milliseconds."""

    number: int
    op_id: str
    kind: str
    submitted_ms: int
    timeout_ms: int
    keys: tuple[str, ...]
    need: int


class OutcomeRow(NamedTuple):
    """An outcome as it goes to the journal; times are Unix milliseconds.

    An expired operation ended at its deadline; ``lateness_ms``: when that was noticed, minus it.
    """

    seq: int
    op_id: str
    kind: str
    outcome: str
    at_ms: int
    by_key: str | None
    submitted_ms: int
    deadline_ms: int
    waited_ms: int
    lateness_ms: int


class StoredOutcome(NamedTuple):
    """A row of outcomes."""

    seq: int
    number: int
    outcome: str
    at_ms: int
    lateness_ms: int
    by_key: str | None
    result: bytes | None


@dataclass(slots=True)
class Changes:
    """What one commit writes: rows as flat lists of their values, one after the other.

    Blobs had better be bytearrays, and what is null an empty text: for bytes and None, Python's
    sqlite3 looks for an adapter each time, which takes longer than the rest of the row.
    """

    operations: list[OperationBatch] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)
    outcomes: list[Any] = field(default_factory=list)
    delete_operations: list[int] = field(default_factory=list)  # numbers
    delete_outcomes: list[int] = field(default_factory=list)  # seqs

    def __bool__(self) -> bool:
        return bool(self.operations or self.progress or self.outcomes or self.delete_operations)


Connect = Callable[..., sqlite3.Connection]


class Store:
    """An open database. ``path``: its file, made when needed; None: in memory.

    ``connect``: makes the connection. Raises StoreError for a file that is no database of ours, is
    damaged, or cannot be written; likewise all methods when the disk fails them.
    """

    def __init__(self, path: Path | None, *, connect: Connect = sqlite3.connect) -> None:
        self._where = ":memory:" if path is None else str(path)
        self._connection = self._try(
            "open",
            lambda: connect(
                self._where,
                isolation_level=None,
                check_same_thread=False,  # opened by who starts the thread
                cached_statements=64,
                timeout=_BUSY_MS / 1000,
            ),
        )
        try:
            self._try("open", self._set_up)
        except BaseException:
            self._connection.close()
            raise
        self._batches = OperationBatches(self._connection)
        self._wal_preallocator: WalPreallocator | None = None
        if path is not None:
            log = path.with_name(f"{path.name}-wal")
            self._wal_preallocator = WalPreallocator(log, _CHECKPOINT_PAGES * _PAGE_BYTES)
        limit = self._connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        self._inserts = {
            "progress": _Insert("progress", ["?"] * 3, limit),
            "outcomes": _Insert("outcomes", [*["?"] * 5, *["nullif(?, '')"] * 2], limit),
        }

    def _set_up(self) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=FULL")
        run(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        run("PRAGMA cache_size=-65536")
        version = run("PRAGMA user_version").fetchone()[0]
        if version == 0 and not run("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            run("BEGIN IMMEDIATE")
            for statement in (_SCHEMA + batches.SCHEMA).split(";\n"):
                run(statement)
            # Whose numbers these are: those of another database are others.
            run("INSERT INTO meta VALUES (?, ?)", (DATABASE_ID, secrets.token_hex(8)))
            run(f"PRAGMA user_version={SCHEMA_VERSION}")
            run("COMMIT")
        elif version != SCHEMA_VERSION:
            raise StoreError(
                f"{self._where}: schema version is {version}; expected {SCHEMA_VERSION}"
            )
        found = run("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreError(f"{self._where}: the database is damaged: {found}", fatal=True)

    def commit(self, changes: Changes) -> None:
        """Write all changes or, raising StoreError, none of them."""
        self._try("write", lambda: self._commit(lambda: self._write(changes)))

    def _commit(self, write: Callable[[], None]) -> None:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            write()
            run("COMMIT")
        except BaseException as error:
            self._roll_back(error)
            raise
        if self._wal_preallocator is not None:
            self._wal_preallocator.extend_if_full()

    def _roll_back(self, error: BaseException) -> None:
        # Of some failures SQLite rolls back by itself.
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as another:
                raise StoreError(
                    f"{self._where}: cannot write: {error}; nor take that back: {another}",
                    fatal=True,
                ) from error

    def _write(self, changes: Changes) -> None:
        run = self._connection.execute
        self._batches.write(changes.operations)
        if changes.progress:
            self._inserts["progress"].run(run, changes.progress)
        if changes.outcomes:
            self._inserts["outcomes"].run(run, changes.outcomes)
        if changes.delete_operations:
            self._delete(changes)

    def _delete(self, changes: Changes) -> None:
        run = self._connection.execute
        run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_LAST, self._last_operation()))
        self._batches.delete(changes.delete_operations)
        for numbers in _chunks(changes.delete_operations):
            run(f"DELETE FROM progress WHERE number IN {_placeholders(numbers)}", numbers)
        for seqs in _chunks(changes.delete_outcomes):
            run(f"DELETE FROM outcomes WHERE seq IN {_placeholders(seqs)}", seqs)

    def metadata(self) -> dict[str, Any]:
        """The small facts kept beside the rows."""
        return dict(self._read("SELECT key, value FROM meta"))

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Write small facts, as a commit of their own."""
        rows = list(metadata.items())
        sql = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
        self._try(
            "write", lambda: self._commit(lambda: _discard(self._connection.executemany(sql, rows)))
        )

    def shift_times(self, by_ms: int, metadata: dict[str, Any]) -> None:
        """Move the times of operations that wait, and write small facts, in one commit."""

        def write() -> None:
            ended = self._connection.execute("SELECT number FROM outcomes").fetchall()
            self._batches.shift_times(by_ms, [number for (number,) in ended])
            self._connection.executemany(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", list(metadata.items())
            )

        self._try("write", lambda: self._commit(write))

    def last_numbers(self) -> JournalPosition:
        """The last numbers ever given, those of forgotten rows included."""
        outcomes = self._read("SELECT seq FROM sqlite_sequence WHERE name = 'outcomes'")
        return JournalPosition(
            self._try("read", self._last_operation), outcomes[0][0] if outcomes else 0
        )

    def _last_operation(self) -> int:
        kept = self._connection.execute("SELECT value FROM meta WHERE key = ?", (_LAST,)).fetchone()
        return max(self._batches.last(), kept[0] if kept else 0)

    def oldest_submission_ms(self) -> int | None:
        """A moment before which none was submitted that waits; None if there are none."""
        moment: int | None = self._try("read", self._batches.oldest_submission_ms)
        return moment

    def operations(self, after: int = 0) -> Iterator[StoredOperation]:
        """All operations with higher numbers, ended ones too, in order."""
        rows = self._batches.all(after)
        while (row := self._try("read", lambda: next(rows, None))) is not None:
            yield row

    def outcomes(self, after: int = 0) -> Iterator[StoredOutcome]:
        """All outcomes with higher seqs, in order."""
        sql = "SELECT * FROM outcomes WHERE seq > ? ORDER BY seq"
        return map(StoredOutcome._make, self._iterate(sql, after))

    def progress(self) -> Iterator[tuple[int, str, bytes]]:
        """Number, key and value of what was completed of operations that need more."""
        return self._iterate("SELECT number, key, value FROM progress")

    def outcomes_by_seqs(self, seqs: Sequence[int]) -> list[tuple[StoredOutcome, StoredOperation]]:
        """Outcomes with their operations, in order of seq; at most 500 at a time."""
        sql = f"SELECT * FROM outcomes WHERE seq IN {_placeholders(seqs)} ORDER BY seq"
        outcomes = [StoredOutcome._make(row) for row in self._read(sql, seqs)]
        operations = self.by_numbers([outcome.number for outcome in outcomes])
        return [(outcome, operations[outcome.number]) for outcome in outcomes]

    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        """Number -> operation, of those that are there."""
        found: dict[int, StoredOperation] = self._try(
            "read", lambda: self._batches.by_numbers(numbers)
        )
        return found

    def close(self) -> None:
        """Move the log into the database and close it; what fails then fails no promise."""
        if self._wal_preallocator is not None:
            self._wal_preallocator.close()
        try:
            self._connection.close()
        except sqlite3.Error:
            pass

    def _read(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        rows: list[Any] = self._try(
            "read", lambda: self._connection.execute(sql, values).fetchall()
        )
        return rows

    def _iterate(self, sql: str, *values: int) -> Iterator[Any]:
        cursor = self._try("read", lambda: self._connection.execute(sql, values))
        while rows := self._try("read", lambda: cursor.fetchmany(_CHUNK)):
            yield from rows

    def _try(self, what: str, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except (sqlite3.Error, UnicodeError) as error:
            code = getattr(error, "sqlite_errorcode", None)  # the low byte is the kind
            fatal = code is not None and code & 0xFF in _FATAL
            raise StoreError(f"{self._where}: cannot {what}: {error}", fatal=fatal) from error


class _Insert:
    """Inserts many rows a statement; of a few sizes, so that each is compiled once."""

    def __init__(self, table: str, values: Sequence[str], limit: int) -> None:
        most = min(_ROWS_PER_STATEMENT, limit // len(values))
        row = f"({', '.join(values)})"
        self._columns = len(values)
        self._sizes = [size for size in (512, 64, 8, 1) if size <= most]
        self._sql = {
            size: f"INSERT INTO {table} VALUES {', '.join([row] * size)}" for size in self._sizes
        }

    def run(self, execute: Callable[[str, list[Any]], object], values: list[Any]) -> None:
        """Insert all of a flat list of values."""
        start = 0
        for size in self._sizes:
            step = size * self._columns
            while len(values) - start >= step:
                execute(self._sql[size], values[start : start + step])
                start += step


def _chunks(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(numbers), _CHUNK):
        yield numbers[start : start + _CHUNK]


def _placeholders(values: Iterable[Any]) -> str:
    return f"({', '.join('?' for _ in values)})"


def _discard(_: object) -> None:
    """Make a statement of an expression."""
