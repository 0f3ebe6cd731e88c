"""JournalFiles: the Parquet files of a journal; each row is in exactly one, also after a crash.

A table has a directory for each date (UTC), as Hive, Spark and pyarrow read it:

    outcomes/date=2026-11-21/3f9c01d2-00000000000000000001-00000000000000000812.parquet

A file is written under a hidden name, synced, and then renamed. Its name has the *source* of its
rows, and their first and last sequence number. So after a crash the writer lists the names and
continues after the last row. Rows of a source come in order of their numbers; a new date begins a
new file.

`JournalLock` keeps other processes out. One thread at a time may use the objects of this module.
"""

import datetime as dt
import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter, itemgetter, lt
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from purgatory.durable_files import DirectoryLock, fsync, make_directory
from purgatory.errors import PurgatoryError
from purgatory.trace.parquet_format import ParquetRowWriter, load_pyarrow
from purgatory.trace.tables import Table

#: Rows between two pauses: a millisecond's work.
PORTION: Final = 512
# A pause is so many times as long as the work before it; all pauses of a write take so many
# seconds.
_PAUSE_SHARE: Final = 3
_ALL_PAUSES_S: Final = 1.0
#: The least pause: else a thread that commits waits a switch interval (`sys.setswitchinterval`)
#: after each statement.
LEAST_PAUSE_S: Final = 0.0001


class WritePace:
    """Pauses of the journal's thread; if `is_urgent`, the shortest."""

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._now = now
        self._sleep = sleep
        self._left_s = 0.0  # for pauses of this write
        self._resumed_at = 0.0
        self.is_urgent: Callable[[], bool] = _never

    def begin(self) -> None:
        """Begin a write."""
        self._left_s = _ALL_PAUSES_S
        self._resumed_at = self._now()

    def pause(self) -> None:
        """Sleep; shortly if urgent or after enough sleep."""
        seconds = min(_PAUSE_SHARE * (self._now() - self._resumed_at), self._left_s)
        if self.is_urgent():
            seconds = 0.0
        self._left_s -= seconds
        self._sleep(max(seconds, LEAST_PAUSE_S))
        self._resumed_at = self._now()


def _never() -> bool:
    return False


RowT = TypeVar("RowT", bound=tuple[Any, ...])

# Most rows of a file: a reader's tasks can share a day.
FILE_ROWS: Final = 1_000_000
#: Rows of a group: to write a thousand takes a processor from others for two milliseconds.
GROUP_ROWS: Final = 16 * PORTION
_UNFINISHED: Final = ".unfinished-"
_SOURCE: Final = re.compile(r"[0-9a-z]+")
_NAME: Final = re.compile(r"([0-9a-z]+)-(\d{20})-(\d{20})\.parquet")
_DATE: Final = "date="
_DAY_MS: Final = 86_400_000
_FIRST_DAY: Final = dt.date(1970, 1, 1)

_first: Final = itemgetter(0)
_second: Final = itemgetter(1)
_day: Final = attrgetter("day")


class JournalError(PurgatoryError):
    """A journal cannot be written; names the file and the reason."""


class _Portion(NamedTuple, Generic[RowT]):
    """Rows of one day since 1970 (UTC)."""

    day: int
    numbers: list[int]
    rows: list[RowT]


class JournalFiles(Generic[RowT]):
    """The files of one table in `directory`.

    `source`: the origin of the numbers, [0-9a-z]+. `private`: only the owner may read the files.
    `last`: the number of the last row on disk, or 0. Raises JournalError if the directory cannot be
    made or read, TraceError without pyarrow.
    """

    def __init__(
        self,
        directory: Path,
        table: Table[RowT],
        source: str,
        *,
        private: bool = False,
        pace: WritePace | None = None,
    ) -> None:
        if not _SOURCE.fullmatch(source):
            raise ValueError(f"source is {source!r}; expected lower-case letters and digits")
        # Now: the first array imports pandas, and at the end of the process nothing can be
        # imported.
        load_pyarrow(directory).array(())
        self._directory = directory
        self._table = table
        self._source = source
        self._time_at: Callable[[RowT], int] = itemgetter(table.names.index(table.time_column))
        self._pause = (pace or WritePace()).pause
        self._file_mode, self._directory_mode = (0o600, 0o700) if private else (0o666, 0o777)
        self._new_names = itertools.count()
        self._unsynced: Path | None = None  # its name may not be on disk: its rows come again
        try:
            make_directory(directory, self._directory_mode)
            self._remove_unfinished()
            #: Whether the directory has rows of other sources.
            self.has_others: bool = False
            self.last: int = self._find_last()
        except OSError as error:
            raise _journal_error(error, directory) from error

    def append(self, rows: Iterable[tuple[int, RowT]]) -> None:
        """Write rows with their sequence numbers, which ascend from `last`, else ValueError.

        `last` advances file by file. Raises JournalError if a file cannot be written; rows behind
        `last` may then be given again.
        """
        iterator = iter(rows)
        while portions := self._take(iterator):
            for day, found in itertools.groupby(_drained(portions), _day):
                self._write(_date(day), list(found))

    def _take(self, rows: Iterator[tuple[int, RowT]]) -> list[_Portion[RowT]]:
        """Return the rows of the next file, or of one for each day."""
        portions: list[_Portion[RowT]] = []
        last, left = self.last, FILE_ROWS
        while part := list(itertools.islice(rows, min(PORTION, left))):
            # Here and below, only loops in C visit each row.
            numbers, values = list(map(_first, part)), list(map(_second, part))
            _check_ascending([last, *numbers])
            portions += self._by_day(numbers, values)
            last, left = numbers[-1], left - len(part)
            self._pause()
        return portions

    def _by_day(self, numbers: list[int], rows: list[RowT]) -> Iterator[_Portion[RowT]]:
        times = list(map(self._time_at, rows))
        if min(times) // _DAY_MS == max(times) // _DAY_MS:  # nearly always
            yield _Portion(times[0] // _DAY_MS, numbers, rows)
            return
        for day, places in itertools.groupby(range(len(rows)), lambda at: times[at] // _DAY_MS):
            found = list(places)
            these = slice(found[0], found[-1] + 1)
            yield _Portion(day, numbers[these], rows[these])

    def _write(self, date: str, portions: list[_Portion[RowT]]) -> None:
        directory = self._directory / (_DATE + date)
        hidden = directory / f"{_UNFINISHED}{os.getpid()}-{next(self._new_names)}"
        first, last = portions[0].numbers[0], portions[-1].numbers[-1]
        try:
            if self._unsynced is not None:
                self._unsynced.unlink(missing_ok=True)
            make_directory(directory, self._directory_mode)
            self._unsynced = directory / f"{self._source}-{first:020}-{last:020}.parquet"
            try:
                self._write_hidden(hidden, portions)
                hidden.replace(self._unsynced)
            except BaseException:
                hidden.unlink(missing_ok=True)
                raise
            fsync(directory)
        except OSError as error:
            raise _journal_error(error, hidden) from error
        self.last, self._unsynced = last, None

    def _write_hidden(self, path: Path, portions: list[_Portion[RowT]]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(path, flags, self._file_mode), "wb") as file:  # noqa: PTH123  # a descriptor
            sink = ParquetRowWriter(file, path, self._table, GROUP_ROWS)
            try:
                for portion in _drained(portions):
                    sink.write_portion(portion.rows)
                    self._pause()
            finally:
                sink.close()
            file.flush()
            os.fsync(file.fileno())

    def _find_last(self) -> int:
        """Return the last number on disk. A killed writer may not have synced the directory."""
        last, newest = 0, None
        for directory in self._dates():
            for path in directory.iterdir():
                match = _NAME.fullmatch(path.name)
                if match and match[1] != self._source:
                    self.has_others = True
                elif match and int(match[3]) > last:
                    last, newest = int(match[3]), directory
        if newest is not None:
            fsync(newest)
            fsync(self._directory)
        return last

    def _remove_unfinished(self) -> None:
        for directory in self._dates():
            for path in directory.glob(f"{_UNFINISHED}*"):
                path.unlink()

    def _dates(self) -> Iterator[Path]:
        return (path for path in self._directory.glob(f"{_DATE}*") if path.is_dir())


def _check_ascending(numbers: list[int]) -> None:
    following = numbers[1:]
    if not all(map(lt, numbers, following)):
        last, number = next(pair for pair in itertools.pairwise(numbers) if not lt(*pair))
        raise ValueError(f"row {number} comes after row {last}; expected in order")


def _drained(portions: list[_Portion[RowT]]) -> Iterator[_Portion[RowT]]:
    """Yield and remove all portions: to free all at once takes long."""
    portions.reverse()
    while portions:
        yield portions.pop()


def is_journal_file(name: str) -> bool:
    """Say whether a name is a journal file's."""
    return _NAME.fullmatch(name) is not None


def journal_files_up_to(directory: Path, source: str, last: int) -> Iterator[Path]:
    """Yield the files of a table, except files of `source` with rows beyond `last`."""
    for path in sorted(directory.glob(f"{_DATE}*/*.parquet")):
        match = _NAME.fullmatch(path.name)
        if match and (match[1] != source or int(match[3]) <= last):
            yield path


class JournalLock:
    """Reserves a journal's directory for the process; also a context manager.

    Raises JournalError.
    """

    def __init__(self, directory: Path) -> None:
        try:
            make_directory(directory)
            self._lock = DirectoryLock(directory, ".lock")
        except BlockingIOError as error:
            raise JournalError(f"{directory}: another process writes this journal") from error
        except OSError as error:
            raise _journal_error(error, directory) from error

    def close(self) -> None:
        """Release the directory. Idempotent."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _date(day: int) -> str:
    """Return a day's date in UTC, or Hive's name for nulls."""
    try:
        return (_FIRST_DAY + dt.timedelta(days=day)).isoformat()
    except OverflowError:
        return "__HIVE_DEFAULT_PARTITION__"


def _journal_error(error: OSError, path: Path) -> JournalError:
    return JournalError(f"{error.filename or path}: {error.strerror or error}")
