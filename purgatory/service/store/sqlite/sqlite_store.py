"""SqliteStore: operations and their outcomes in an SQLite database, as `Store` promises.

Committed means on disk: WAL with `synchronous=FULL`. For threads see `Store`.

Rows are appended by number, and deleted in bulk; so a commit touches few pages, however many
operations wait. An operation has ended if there is an outcome with its number. Many rows go into a
statement, and many operations into a row: each statement releases the GIL, which can take
milliseconds to get back.
"""

import contextlib
import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

from purgatory.errors import StoreError
from purgatory.service.store.changes import Changes
from purgatory.service.store.contract import DAMAGE
from purgatory.service.store.rows import (
    JournalPosition,
    StoredOutcome,
    checked,
    delete_early_attempts,
)
from purgatory.service.store.sqlite.database_files import REAL_FILES, DatabaseFiles, FileWatch
from purgatory.service.store.sqlite.migrations import Note, quiet
from purgatory.service.store.sqlite.operation_batches import OperationBatches
from purgatory.service.store.sqlite.schema import number_of, quick_checks, set_up_schema
from purgatory.service.store.sqlite.sqlite_errors import store_errors
from purgatory.service.store.sqlite.tables import RowInserter, StoredTable, chunks, placeholders
from purgatory.service.store.table_store import (
    QUEUES,
    SHAPES,
    SHIFTED,
    TABLES,
    RememberedTable,
    TableStore,
    deleted_of,
)

log: logging.Logger = logging.getLogger(__name__)

# Keys of the metadata: the last number of a deleted operation; what `check_room` writes.
_LAST: Final = "last"
_ROOM: Final = "room"

_SET_META: Final = "INSERT OR REPLACE INTO meta VALUES (?, ?)"
_PROGRESS: Final = "progress WHERE number NOT IN (SELECT number FROM outcomes)"

_SIZES: Final = {
    "progress": f"SELECT key, length(value) FROM {_PROGRESS}",
    "held": "SELECT key, length(value) FROM held",
    "replies": "SELECT session, length(reply) FROM replies",
}

# Pages in the log before a commit moves them to the database: 4 ms for these, 10 for 2,500; and
# pipelined submits take 6 % less time.
_CHECKPOINT_PAGES: Final = 1_000
_PAGE_BYTES: Final = 4096
_BUSY_MS: Final = 1000
_CHUNK: Final = 500
# Columns of outcomes that may be null, or large.
_LARGE: Final = ("by_key", "result")
_OUTCOME: Final = ", ".join(StoredOutcome._fields)
_SMALL_OUTCOME: Final = ", ".join(
    "NULL" if name in _LARGE else name for name in StoredOutcome._fields
)
# Spreads without an outcome.
_USED_UP: Final = (
    "last_seq > 0 AND NOT EXISTS (SELECT 1 FROM outcomes WHERE seq BETWEEN first_seq AND last_seq)"
)


class SqliteStore(TableStore):
    """An open database: the file `path`, made if needed, or in memory if None.

    Only the server's user may read the file, under any umask. `connect` opens the connection,
    `note` gets the progress of a long start. Raises StoreError for a file that is another database,
    damaged, or cannot be written.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        connect: Callable[..., sqlite3.Connection] = sqlite3.connect,
        files: DatabaseFiles = REAL_FILES,
        note: Note = quiet,
    ) -> None:
        self._path = path
        self._watch: FileWatch | None = None
        self._where = ":memory:" if path is None else str(path)
        if path is not None:
            files.make_private(path)
        with store_errors(self._where, "open"):
            self._connection = self._open_log(connect)
            try:
                self._set_up(path, files, note)
                self._open_tables()
            except BaseException:
                self._connection.close()
                raise
        self.lost: StoreError | None = None
        self.is_closing: bool = False  # before SQLite deletes its log
        self._wal_preallocator = None
        if path is not None:
            wal = path.with_name(f"{path.name}-wal")
            self._wal_preallocator = files.wal_preallocator(wal, _CHECKPOINT_PAGES * _PAGE_BYTES)

    def _set_up(self, path: Path | None, files: DatabaseFiles, note: Note) -> None:
        run = self._connection.execute
        run("PRAGMA synchronous=FULL")
        run(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
        run("PRAGMA cache_size=-65536")
        # Else a large statement needs a temporary file.
        run("PRAGMA temp_store=MEMORY")
        set_up_schema(self._connection, path, files, note)
        note("the database is checked")
        for check in quick_checks(self._connection):
            found = run(check).fetchone()[0]
            if found != "ok":
                raise StoreError(f"{self._where}: {DAMAGE}: {found}", fatal=True)

    def _open_log(self, connect: Callable[..., sqlite3.Connection]) -> sqlite3.Connection:
        """Connect, with a write-ahead log; on a full disk with the log's index in memory.

        Then no other process can open the database.
        """
        try:
            return self._connect(connect)
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_IOERR_SHMSIZE:
                raise
        log.warning("%s: the disk is full: no backup before the next start", self._where)
        return self._connect(connect, is_alone=True)

    def _connect(
        self, connect: Callable[..., sqlite3.Connection], *, is_alone: bool = False
    ) -> sqlite3.Connection:
        connection = connect(
            self._where,
            isolation_level=None,
            check_same_thread=False,  # the starting thread opens it
            cached_statements=64,
            timeout=_BUSY_MS / 1000,
        )
        try:
            if is_alone:
                connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            connection.execute("PRAGMA journal_mode=WAL")
        except BaseException:
            connection.close()
            raise
        return connection

    def _open_tables(self) -> None:
        connection = self._connection
        limit = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
        self._operations: OperationBatches = OperationBatches(connection)
        self._tables = {
            name: StoredTable(connection, limit, name, shape.columns, shape.times, shape.kept)
            for name, shape in TABLES.items()
        }
        self.remembered: RememberedTable = RememberedTable(self)
        self._outcomes = RowInserter("outcomes", StoredOutcome._fields, limit, nullable=_LARGE)

    def commit(self, changes: Changes) -> None:
        if self.lost is not None:
            raise self.lost
        if changes.is_one_row:  # a transaction by itself
            with store_errors(self._where, "write"):
                self._write(changes)
            self._extend_log()
        else:
            with self._transaction():
                self._write(changes)
                self._write_others(changes)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        run = self._connection.execute
        with store_errors(self._where, "write"):
            run("BEGIN IMMEDIATE")
            try:
                yield
                run("COMMIT")
            except BaseException as error:
                self._roll_back(error)
                raise
        self._extend_log()

    def _extend_log(self) -> None:
        if self._wal_preallocator is not None and not self._wal_preallocator.extend_if_full():
            self.lost = StoreError(f"{self._where}-wal: it was cut off", fatal=True)
            raise self.lost

    def _roll_back(self, error: BaseException) -> None:
        # SQLite may have rolled back by itself.
        if self._connection.in_transaction:
            try:
                self._connection.execute("ROLLBACK")
            except sqlite3.Error as another:
                raise StoreError(
                    f"{self._where}: cannot write: {error}; nor take that back: {another}",
                    fatal=True,
                ) from error

    def _write(self, changes: Changes) -> None:
        if changes.operations:
            self._operations.write(changes.operations)
        if changes.progress:
            self._tables["progress"].write(changes.progress)
        if changes.outcomes:
            self._outcomes.run(self._connection.execute, changes.outcomes)

    def _write_others(self, changes: Changes) -> None:
        if changes.delete_operations or changes.delete_outcomes:
            self._delete(changes)
        for name, rows in self._rows_of(changes):
            self._tables[name].write(rows)
        if changes.remembered is not None:
            self._write_metadata(self.remembered.metadata_of(changes.remembered))
        for seqs in chunks(changes.trim_attempts):
            sql = delete_early_attempts("attempts")
            self._connection.execute(f"{sql} AND seq IN {placeholders(seqs)}", seqs)
        for name, keys in deleted_of(changes):
            self._tables[name].delete(keys)
        if changes.delete_repeats:
            sql = "DELETE FROM repeats WHERE client = ? AND name = ?"
            self._connection.executemany(sql, changes.delete_repeats)
        if changes.delete_replies:
            sql = "DELETE FROM replies WHERE session = ? AND seq = ?"
            self._connection.executemany(sql, changes.delete_replies)
        if changes.delete_queued is not None:
            for name, number in zip(QUEUES, changes.delete_queued, strict=True):
                self._tables[name].delete_where("number <= ?", (number,))

    def _delete(self, changes: Changes) -> None:
        run = self._connection.execute
        for name in ("deadlines", "progress"):
            self._tables[name].delete(changes.delete_operations)
        for name in ("jobs", "attempts", "results"):
            self._tables[name].delete(changes.delete_outcomes)
        run(_SET_META, (_LAST, self._last_operation()))
        self._operations.delete(changes.delete_operations)
        for seqs in chunks(changes.delete_outcomes):
            run(f"DELETE FROM outcomes WHERE seq IN {placeholders(seqs)}", seqs)
        self._tables["spreads"].delete_where(_USED_UP)

    def metadata(self) -> dict[str, Any]:
        return dict(self._iterate(f"SELECT key, value FROM meta WHERE key != '{_ROOM}'"))

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        with self._transaction():
            self._write_metadata(metadata)

    def check_room(self, size: int) -> None:
        with self._transaction():
            self._connection.execute(
                "INSERT OR REPLACE INTO meta VALUES (?, zeroblob(?))", (_ROOM, size)
            )
        with self._transaction():
            self._connection.execute("DELETE FROM meta WHERE key = ?", (_ROOM,))

    def _write_metadata(self, metadata: dict[str, Any]) -> None:
        self._connection.executemany(_SET_META, list(metadata.items()))

    def shift_times(self, by_ms: int, metadata: dict[str, Any]) -> None:
        metadata = metadata | self.remembered.shifted(by_ms)
        with self._transaction():
            ended = self._connection.execute("SELECT number FROM outcomes").fetchall()
            self._operations.shift_times(by_ms, [number for (number,) in ended])
            waiting = "WHERE number NOT IN (SELECT number FROM outcomes)"
            self._tables["deadlines"].shift_times(by_ms, waiting)
            for name in SHIFTED:
                self._tables[name].shift_times(by_ms, SHAPES[name].moved)
            self._write_metadata(metadata)
        self.remembered.read_shift()

    def last_numbers(self) -> JournalPosition:
        with store_errors(self._where):
            found = dict(self._connection.execute("SELECT name, seq FROM sqlite_sequence"))
            others = (found.get(name) or 0 for name in ("outcomes", *QUEUES))
            return JournalPosition(self._last_operation(), *others)

    def skip_outcome_numbers(self, count: int) -> None:
        with self._transaction():
            self._connection.execute(
                "INSERT INTO sqlite_sequence SELECT 'outcomes', 0 WHERE NOT EXISTS "
                "(SELECT 1 FROM sqlite_sequence WHERE name = 'outcomes')"
            )
            self._connection.execute(
                "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'outcomes'", (count,)
            )

    def _last_operation(self) -> int:
        return max(self._operations.last(), number_of(self._connection, _LAST))

    def outcomes_without_results(self, after: int = 0) -> Iterator[StoredOutcome]:
        sql = f"SELECT {_SMALL_OUTCOME} FROM outcomes WHERE seq > ? ORDER BY seq"
        return map(StoredOutcome._make, self._iterate(sql, after))

    def outcomes(self) -> Iterator[StoredOutcome]:
        return map(
            StoredOutcome._make, self._iterate(f"SELECT {_OUTCOME} FROM outcomes ORDER BY seq")
        )

    def progress(self) -> Iterator[tuple[int, str, bytes]]:
        with store_errors(self._where):
            for row in self._iterate(f"SELECT number, key, value FROM {_PROGRESS}"):
                yield from checked([row])

    def sizes(self, table: Literal["progress", "held", "replies"]) -> Iterator[tuple[str, int]]:
        return self._iterate(_SIZES[table])

    def _read_outcomes(self, seqs: Sequence[int]) -> list[StoredOutcome]:
        sql = f"SELECT {_OUTCOME} FROM outcomes WHERE seq IN {placeholders(seqs)} ORDER BY seq"
        return [StoredOutcome._make(row) for row in self._connection.execute(sql, seqs)]

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        return store_errors(self._where)

    def _read(self, table: str, rest: str = "", columns: Sequence[str] = ()) -> list[Any]:
        return self._tables[table].select(rest, columns=columns)

    def _read_keys(self, table: str, keys: Sequence[Any], columns: Sequence[str] = ()) -> list[Any]:
        return self._tables[table].select_keys(keys, columns)

    def trouble(self) -> str:
        if self._path is None:
            return ""
        if self._watch is None:
            self._watch = FileWatch(self._path)
        return self._watch.trouble()

    def stored_bytes(self) -> int:
        size = 0
        if self._path is not None:
            for path in (self._path, self._path.with_name(f"{self._path.name}-wal")):
                with contextlib.suppress(FileNotFoundError):
                    size += path.stat().st_size
        return size

    def stop(self) -> None:
        """Do nothing: no file is waited for."""

    def close(self) -> None:
        """See `Store`. Moves the log into the database."""
        self.is_closing = True
        if self._wal_preallocator is not None:
            self._wal_preallocator.close()
        try:
            self._connection.close()
        except sqlite3.Error:
            pass

    def _iterate(self, sql: str, *values: int) -> Iterator[Any]:
        with store_errors(self._where):
            cursor = self._connection.execute(sql, values)
            while rows := cursor.fetchmany(_CHUNK):
                yield from rows
