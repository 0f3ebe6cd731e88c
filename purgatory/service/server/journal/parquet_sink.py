"""ParquetSink: writes a server's operations and outcomes as Parquet files.

The store thread hands over committed rows; the journal's thread, `purgatory-journal`, writes and
confirms them. The names of files have the numbers of their rows, so after a crash the journal
continues behind its last file: every row is in exactly one file. One thread calls `start` and
`close`.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from purgatory.journal.files import PORTION, JournalError, JournalFiles, JournalLock, WritePace
from purgatory.journal.writer import BATCH, JournalWriter
from purgatory.service.server.journal.journal_sink import Confirm, JournalRow, JournalStats
from purgatory.service.store.data_directory import make_private_directory
from purgatory.service.store.rows import JournalPosition
from purgatory.trace.tables import EVENTS, EXTENSIONS, JOBS, OPERATIONS, OUTCOMES, Table

log: logging.Logger = logging.getLogger(__name__)


_TABLES: Final[tuple[Table[Any], ...]] = (OPERATIONS, OUTCOMES, EVENTS, EXTENSIONS, JOBS)
_keys: Final = itemgetter(1 + OPERATIONS.names.index("keys"))  # of an operation
# So many characters of keys count as a row: long rows take more memory, and several times as long
# to write.
_KEY_LENGTH_PER_ROW: Final = 128
_OTHER_DATABASE: Final = (
    "%s: the journal is of another database, and has nothing of the server's: restore a backup if "
    "the database was lost"
)
_number: Final = itemgetter(0)
_values: Final = itemgetter(slice(1, None))


class _CommittedRows(NamedTuple):
    """The rows of a transaction, by table in the order of `JournalPosition`.

    `size`: how many rows. `weight`: as how many rows they count in memory.
    """

    tables: tuple[Sequence[Any], ...]
    size: int
    weight: int


def _committed_rows(operations: Sequence[JournalRow], *others: Sequence[Any]) -> _CommittedRows:
    size = len(operations) + sum(map(len, others))
    length = sum(map(len, chain.from_iterable(map(_keys, operations))))
    return _CommittedRows((operations, *others), size, size + length // _KEY_LENGTH_PER_ROW)


class ParquetSink:
    """Writes Parquet files every `seconds`; see `JournalSink`.

    Each table has a subdirectory. Only the server's user may read the files, under any umask.
    """

    def __init__(self, directory: Path, *, seconds: float) -> None:
        self._directory = directory
        self._seconds = seconds
        self._writer: JournalWriter[_CommittedRows] | None = None
        # Rows were refused, so all later ones are. The store thread writes this and the next two.
        self._behind = False
        self._posted_rows = 0
        self._waiting_since = 0.0  # when the first waiting row came, monotonic seconds
        self._rows: _RowBuffer | None = None

    def start(self, source: str, confirm: Confirm) -> JournalPosition:
        """Open the files, start the thread. Raises JournalError, StoreError, TraceError."""
        pace = WritePace()
        rows = _RowBuffer(self._directory, source, confirm, pace)
        self._rows = rows
        position = rows.position
        try:
            self._writer = JournalWriter(rows, self._seconds, pace)
        except BaseException:
            rows.close()
            raise
        return position

    def write(
        self,
        operations: Sequence[JournalRow],
        outcomes: Sequence[JournalRow],
        events: Sequence[JournalRow] = (),
        extensions: Sequence[JournalRow] = (),
        jobs: Sequence[JournalRow] = (),
    ) -> None:
        """See `JournalSink`. If the disk fails for long, rows wait in the store."""
        if self._behind or self._writer is None:
            return
        try:
            rows = _committed_rows(operations, outcomes, events, extensions, jobs)
            if not self._waiting_rows():
                self._waiting_since = time.monotonic()
            self._posted_rows += rows.size
            self._writer.post(rows, rows.weight)
        except JournalError:
            self._behind = True
            log.exception("the journal is behind until the server is started again")

    def _waiting_rows(self) -> int:
        return 0 if self._rows is None else self._posted_rows - self._rows.written_rows

    def stats(self) -> JournalStats:
        """Return the figures; any thread."""
        rows, writer, waiting = self._rows, self._writer, self._waiting_rows()
        since = 0.0 if rows is None else max(self._waiting_since, rows.written_at)
        return JournalStats(
            waiting_rows=waiting,
            lag_s=time.monotonic() - since if waiting else 0.0,
            failures=0 if writer is None else writer.failures,
            is_behind=self._behind,
        )

    def flush(self) -> None:
        """Return when all rows so far are on disk. Raises JournalError."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """See `JournalSink`. Rows that cannot be written stay in the store."""
        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except JournalError:
                log.exception("the journal's last rows stay in the store")


class _RowBuffer:
    """See `purgatory.journal.writer.RowBuffer`."""

    def __init__(self, directory: Path, source: str, confirm: Confirm, pace: WritePace) -> None:
        self._confirm = confirm
        self._pace = pace
        self._batches: list[_CommittedRows] = []
        self._weight = 0
        # For other threads: written rows, and when the last successful write began.
        self.written_rows = 0
        self.written_at = 0.0
        self._lock = JournalLock(directory)
        try:
            make_private_directory(directory, (".lock",))
            # In the order of the fields of `JournalPosition`.
            self._files = [_files(directory, table, source, pace) for table in _TABLES]
            if not any(self.position) and any(files.has_others for files in self._files):
                log.error(_OTHER_DATABASE, directory)
        except BaseException:
            self.close()
            raise

    @property
    def position(self) -> JournalPosition:
        return JournalPosition(*[files.last for files in self._files])

    def add(self, item: _CommittedRows) -> None:
        self._batches.append(item)
        self._weight += item.weight

    def __len__(self) -> int:
        return self._weight

    def write(self) -> None:
        while self._batches:
            batches, began = self._next_batches(), time.monotonic()
            self._append(batches)
            self.written_at = began
            self.written_rows += sum(rows.size for rows in batches)
            self._drop(batches)

    def _next_batches(self) -> list[_CommittedRows]:
        weight = 0
        for count, rows in enumerate(self._batches, 1):
            weight += rows.weight
            if weight >= BATCH:
                return self._batches[:count]
        return self._batches[:]

    def _drop(self, batches: list[_CommittedRows]) -> None:
        """Drop the first batches, with a pause after each portion of rows."""
        del self._batches[: len(batches)]
        size = 0
        while batches:
            rows = batches.pop()
            self._weight -= rows.weight
            size += rows.size
            if size >= PORTION:
                size = 0
                self._pace.pause()

    def _append(self, batches: list[_CommittedRows]) -> None:
        # After a failed attempt, files have some of the rows: skip those.
        before = self.position
        try:
            tables = zip(*[rows.tables for rows in batches], strict=True)
            for files, last, rows in zip(self._files, before, tables, strict=True):
                files.append(_numbered(rows, last))
        finally:
            if self.position != before:
                self._confirm(self.position)

    def close(self) -> None:
        self._lock.close()


def _files(directory: Path, table: Table[Any], source: str, pace: WritePace) -> JournalFiles[Any]:
    return JournalFiles(directory / table.name, table, source, private=True, pace=pace)


def _numbered(
    batches: Iterable[Sequence[tuple[Any, ...]]], after: int
) -> Iterator[tuple[int, tuple[Any, ...]]]:
    for rows in batches:
        if rows and rows[0][0] <= after:
            rows = [row for row in rows if row[0] > after]  # noqa: PLW2901  # some were written
        yield from zip(map(_number, rows), map(_values, rows), strict=True)
