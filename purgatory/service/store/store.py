"""Store: operations and their outcomes in an SQLite database.

Committed means on disk: WAL with `synchronous=FULL`. Used by one thread at a time: the one that
starts a server, then the store thread.

Rows are appended in order of their numbers, and deleted in bulk when they are not needed any more;
so a commit touches few pages, however many operations wait. An operation has ended if there is an
outcome with its number. Numbers increase and are never given twice.

Operations are written many to a row (see `OperationBatches`), other rows many to a statement: each
statement releases the GIL, and getting it back can take milliseconds while another thread computes.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from purgatory.errors import StoreError
from purgatory.service.store.changes import Changes
from purgatory.service.store.database_files import REAL_FILES, DatabaseFiles
from purgatory.service.store.operation_batches import OperationBatches
from purgatory.service.store.rows import (
    JournalPosition,
    StoredEvent,
    StoredJob,
    StoredOperation,
    StoredOutcome,
)
from purgatory.service.store.schema import set_up_schema
from purgatory.service.store.tables import (
    JournalQueue,
    RowInserter,
    StoredTable,
    chunks,
    placeholders,
)

# Key of the metadata for the last number given to an operation, if that was deleted.
_LAST: Final = "last"

_PROGRESS: Final = "progress WHERE number NOT IN (SELECT number FROM outcomes)"

# Pages of 4 KiB in the write-ahead log before they are moved to the database. The commit that
# finds so many moves them and waits: 8 ms for these, 30 for four times as many, no less in all.
_CHECKPOINT_PAGES: Final = 2_500
_PAGE_BYTES: Final = 4096
_BUSY_MS: Final = 1000
_CHUNK: Final = 500
# Columns of outcomes that may be null, or large; the others; and the statement's words for all.
_LARGE: Final = ("by_key", "result")
_OUTCOME: Final = ", ".join(StoredOutcome._fields)
_SMALL_OUTCOME: Final = ", ".join(
    "NULL" if name in _LARGE else name for name in StoredOutcome._fields
)

# After these errors it is not known what is on the disk.
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FATAL: Final = (sqlite3.SQLITE_IOERR, *_DAMAGED)
# Of a text that is not UTF-8, which has no code, and of statements that do not fit the schema: they
# are always the same, so the schema is damaged.
_UNREADABLE: Final = (0, sqlite3.SQLITE_ERROR)
#: What is wrong when values cannot be what was written, and what helps.
DAMAGE: Final = "the database is damaged, restore a backup"


Connect = Callable[..., sqlite3.Connection]


class Store:
    """An open database: the file `path`, made if needed, or in memory if that is None.

    Only its user may read the file, whatever the umask. `connect` opens the connection, `files` are
    those of the system. Raises
    StoreError for a file that is another database, damaged, or cannot be written. All methods raise
    StoreError when the disk fails.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        connect: Connect = sqlite3.connect,
        files: DatabaseFiles = REAL_FILES,
    ) -> None:
        self._where = ":memory:" if path is None else str(path)
        if path is not None:
            files.make_private(path)
        self._connection = self._try(
            "open",
            lambda: connect(
                self._where,
                isolation_level=None,
                check_same_thread=False,  # opened by the thread that starts the server
                cached_statements=64,
                timeout=_BUSY_MS / 1000,
            ),
        )
        try:
            self._try("open", lambda: self._set_up(path, files))
        except BaseException:
            self._connection.close()
            raise
        self._batches = OperationBatches(self._connection)
        self._wal_preallocator = None
        if path is not None:
            log = path.with_name(f"{path.name}-wal")
            self._wal_preallocator = files.wal_preallocator(log, _CHECKPOINT_PAGES * _PAGE_BYTES)
        limit = self._connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        self._deadlines = self._table(
            limit, "deadlines", ("number", "deadline_ms"), ("deadline_ms",)
        )
        held = ("key", *StoredEvent._fields)
        self._held = self._table(limit, "held", held, ("at_ms", "until_ms"))
        self._jobs = self._table(limit, "jobs", (*StoredJob._fields, "error"))
        self._replies = self._table(limit, "replies", ("session", "seq", "at_ms", "reply"))
        self._journal_queue = JournalQueue(self._connection, limit)
        self._inserts = {
            "progress": RowInserter("progress", ("number", "key", "value"), limit),
            "outcomes": RowInserter("outcomes", StoredOutcome._fields, limit, nullable=_LARGE),
        }

    def _table(
        self, limit: int, name: str, columns: Sequence[str], times: Sequence[str] = ("at_ms",)
    ) -> StoredTable:
        table: StoredTable = self._try(
            "open", lambda: StoredTable(self._connection, limit, name, columns, times)
        )
        return table

    def _set_up(self, path: Path | None, files: DatabaseFiles) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode=WAL")
        run("PRAGMA synchronous=FULL")
        run(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        run("PRAGMA cache_size=-65536")
        set_up_schema(self._connection, path, files)
        found = run("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreError(f"{self._where}: {DAMAGE}: {found}", fatal=True)

    def commit(self, changes: Changes) -> None:
        """Write all changes or none, atomically and durably. Raises StoreError."""
        if changes.is_one_row:  # a statement is a transaction by itself: two calls of SQLite less
            self._try("write", lambda: self._write_one_row(changes))
        else:
            self._try("write", lambda: self._commit(lambda: self._write(changes)))

    def _write_one_row(self, changes: Changes) -> None:
        self._write(changes)
        self._extend_log()

    def _commit(self, write: Callable[[], None]) -> None:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        try:
            write()
            run("COMMIT")
        except BaseException as error:
            self._roll_back(error)
            raise
        self._extend_log()

    def _extend_log(self) -> None:
        if self._wal_preallocator is not None:
            self._wal_preallocator.extend_if_full()

    def _roll_back(self, error: BaseException) -> None:
        # After some errors SQLite has rolled back by itself.
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
        if changes.has_others:
            self._write_others(changes)

    def _write_others(self, changes: Changes) -> None:
        """Delete, and write what most transactions have none of."""
        if changes.delete_operations:
            self._delete(changes)
        if changes.deadlines:
            self._deadlines.write(changes.deadlines)
        if changes.jobs:
            self._jobs.write(changes.jobs)
        if changes.held:
            self._held.write(changes.held)
        if changes.delete_held:
            self._held.delete(changes.delete_held)
        if changes.replies:
            self._replies.write(changes.replies)
        if changes.delete_replies:
            sql = "DELETE FROM replies WHERE session = ? AND seq = ?"
            self._connection.executemany(sql, changes.delete_replies)
        self._journal_queue.write(changes.queued_events, changes.queued_extensions)
        if changes.delete_queued is not None:
            self._journal_queue.delete(*changes.delete_queued)

    def _delete(self, changes: Changes) -> None:
        run = self._connection.execute
        self._deadlines.delete(changes.delete_operations)
        self._jobs.delete(changes.delete_outcomes)
        run("INSERT OR REPLACE INTO meta VALUES (?, ?)", (_LAST, self._last_operation()))
        self._batches.delete(changes.delete_operations)
        for numbers in chunks(changes.delete_operations):
            run(f"DELETE FROM progress WHERE number IN {placeholders(numbers)}", numbers)
        for seqs in chunks(changes.delete_outcomes):
            run(f"DELETE FROM outcomes WHERE seq IN {placeholders(seqs)}", seqs)

    def metadata(self) -> dict[str, Any]:
        """Read the metadata: key -> value."""
        return dict(self._read("SELECT key, value FROM meta"))

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """Write metadata, in a commit of its own."""
        rows = list(metadata.items())
        sql = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
        self._try(
            "write", lambda: self._commit(lambda: _discard(self._connection.executemany(sql, rows)))
        )

    def shift_times(self, by_ms: int, metadata: dict[str, Any]) -> None:
        """Move the times that still matter, and write metadata, in one commit.

        What has ended, and what the journal is to get, keeps its times.
        """

        def write() -> None:
            ended = self._connection.execute("SELECT number FROM outcomes").fetchall()
            self._batches.shift_times(by_ms, [number for (number,) in ended])
            self._deadlines.shift_times(by_ms, "WHERE number NOT IN (SELECT number FROM outcomes)")
            self._held.shift_times(by_ms)
            self._jobs.shift_times(by_ms)
            self._replies.shift_times(by_ms)
            self._connection.executemany(
                "INSERT OR REPLACE INTO meta VALUES (?, ?)", list(metadata.items())
            )

        self._try("write", lambda: self._commit(write))

    def last_numbers(self) -> JournalPosition:
        """Return the last numbers ever given, also of rows that were deleted."""
        outcomes = self._read("SELECT seq FROM sqlite_sequence WHERE name = 'outcomes'")
        return JournalPosition(
            self._try("read", self._last_operation),
            outcomes[0][0] if outcomes else 0,
            *self._try("read", self._journal_queue.last),
        )

    def _last_operation(self) -> int:
        kept = self._connection.execute("SELECT value FROM meta WHERE key = ?", (_LAST,)).fetchone()
        return max(self._batches.last(), kept[0] if kept else 0)

    def oldest_submission_ms(self) -> int | None:
        """Return a time before which no stored operation was submitted; None if there is none."""
        moment: int | None = self._try("read", self._batches.oldest_submission_ms)
        return moment

    def submissions(self, after: int = 0) -> Iterator[StoredOperation]:
        """Yield all operations with numbers above `after`, in order, with their first deadlines."""
        rows = self._batches.all(after)
        while (row := self._try("read", lambda: next(rows, None))) is not None:
            yield row

    def operations(self) -> Iterator[StoredOperation]:
        """Yield all operations, ended ones too, in order."""
        rows = self.submissions()
        while chunk := list(islice(rows, _CHUNK)):
            yield from self._with_deadlines(chunk)

    def _with_deadlines(self, operations: list[StoredOperation]) -> list[StoredOperation]:
        """Return operations with the deadlines that are in force."""
        numbers = [operation.number for operation in operations]
        extended = dict(self._try("read", lambda: self._deadlines.select_keys(numbers)))
        return [
            one._replace(deadline_ms=extended[one.number]) if one.number in extended else one
            for one in operations
        ]

    def outcomes(self, after: int = 0) -> Iterator[StoredOutcome]:
        """Yield all outcomes with sequence numbers above `after`, in order."""
        sql = f"SELECT {_OUTCOME} FROM outcomes WHERE seq > ? ORDER BY seq"
        return map(StoredOutcome._make, self._iterate(sql, after))

    def outcomes_without_results(self, after: int = 0) -> Iterator[StoredOutcome]:
        """Like `outcomes`, but without keys and results, which may be large."""
        sql = f"SELECT {_SMALL_OUTCOME} FROM outcomes WHERE seq > ? ORDER BY seq"
        return map(StoredOutcome._make, self._iterate(sql, after))

    def progress(self) -> Iterator[tuple[int, str, bytes]]:
        """Yield number, key and value of the keys completed of pending operations."""
        return self._iterate(f"SELECT number, key, value FROM {_PROGRESS}")

    def progress_sizes(self) -> Iterator[tuple[int]]:
        """Yield the bytes of the values that `progress` yields."""
        return self._iterate(f"SELECT length(value) FROM {_PROGRESS}")

    def held_sizes(self) -> Iterator[tuple[str, int]]:
        """Yield the keys for which an event is held, and the bytes of their values."""
        return self._iterate("SELECT key, length(value) FROM held")

    def reply_sizes(self) -> Iterator[tuple[str, int]]:
        """Yield session and bytes of all replies."""
        return self._iterate("SELECT session, length(reply) FROM replies")

    def outcomes_by_seqs(self, seqs: Sequence[int]) -> list[tuple[StoredOutcome, StoredOperation]]:
        """Return outcomes with their operations, in order of `seq`; at most 500 at a time."""
        sql = f"SELECT {_OUTCOME} FROM outcomes WHERE seq IN {placeholders(seqs)} ORDER BY seq"
        outcomes = [StoredOutcome._make(row) for row in self._read(sql, seqs)]
        operations = self.by_numbers([outcome.number for outcome in outcomes])
        found: list[tuple[StoredOutcome, StoredOperation]] = self._try(
            "read", lambda: [(outcome, operations[outcome.number]) for outcome in outcomes]
        )
        return found

    def some_operations(self, after: int, batches: int) -> list[StoredOperation]:
        """Return operations of the next so many batches with numbers above `after`, in order.

        Also some that were deleted. None: there are no more.
        """
        found = self._try("read", lambda: self._batches.some(after, batches))
        return self._with_deadlines(found)

    def by_numbers(self, numbers: Sequence[int]) -> dict[int, StoredOperation]:
        """Return number -> operation, of those of `numbers` that exist."""
        found: dict[int, StoredOperation] = self._try(
            "read", lambda: self._batches.by_numbers(numbers)
        )
        return {row.number: row for row in self._with_deadlines(list(found.values()))}

    def held_events(self) -> list[tuple[str, StoredEvent]]:
        """Return the keys for which an event is held, and the events."""
        rows = self._try("read", self._held.select)
        return [(key, StoredEvent(*values)) for key, *values in rows]

    def jobs(self) -> list[StoredJob]:
        """Return all due jobs of which more is known than that they are due."""
        rows = self._try("read", lambda: self._jobs.select(columns=StoredJob._fields))
        return [StoredJob(*row) for row in rows]

    def dead_jobs(self, seqs: Sequence[int]) -> dict[int, tuple[int, str]]:
        """Return of jobs, by `seq`, when they were given up, and why; at most 500 at a time."""
        columns = ("seq", "at_ms", "error")
        rows = self._try("read", lambda: self._jobs.select_keys(seqs, columns))
        return {seq: (at_ms, error) for seq, at_ms, error in rows}

    def replies(self) -> list[tuple[str, int, int, bytes]]:
        """Return session, number, time and frame of all replies, those of a session in order."""
        rows = self._try("read", lambda: self._replies.select("ORDER BY at_ms, seq"))
        return list(rows)

    def queued_events(self, after: int) -> list[tuple[int, str, int, int, int]]:
        """Return the journal's rows of events with numbers above `after`, in order."""
        rows: list[Any] = self._try("read", lambda: self._journal_queue.events(after))
        return rows

    def last_event_ms(self, after: int) -> int | None:
        """Return the time of the last event that is to be journaled; None if there is none.

        Only those with numbers above `after` count.
        """
        last: int | None = self._try("read", lambda: self._journal_queue.last_event_ms(after))
        return last

    def queued_extensions(self, after: int) -> list[tuple[int, str, int, int]]:
        """Return the journal's rows of extensions with numbers above `after`, in order."""
        rows: list[Any] = self._try("read", lambda: self._journal_queue.extensions(after))
        return rows

    def deleted_queued(self) -> tuple[int, int]:
        """Return up to which numbers the journal's events, and extensions, were deleted."""
        deleted: tuple[int, int] = self._try("read", self._journal_queue.deleted)
        return deleted

    def close(self) -> None:
        """Move the log into the database and close it; errors lose nothing that was committed."""
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
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
            damaged = code in _DAMAGED or (what != "write" and code in _UNREADABLE)
            why = f"{DAMAGE}: {error}" if damaged else f"cannot {what}: {error}"
            raise StoreError(f"{self._where}: {why}", fatal=damaged or code in _FATAL) from error
        except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise StoreError(f"{self._where}: {DAMAGE}: {error!r}", fatal=True) from error


def _discard(_: object) -> None:
    """Discard the result of a call in a lambda."""
