"""Timeline: the tables of a trace, merged by time into windows.

For the engine, in its thread. Holds a batch of each table.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from purgatory.trace import OutOfOrder
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, Columns, Table, first_going_back
from purgatory.trace.validation import INT64_MIN

# Of operations, extensions and events.
_TIME_PLACES: Final = (OPERATIONS.time_place, EXTENSIONS.time_place, EVENTS.time_place)


class Part(NamedTuple):
    """The rows of a table within a window: from `start` on, before `end`."""

    columns: Columns
    start: int
    end: int


class Window(NamedTuple):
    """All rows of a stretch of time before `until_ms`; None: the last rows."""

    operations: Part
    extensions: Part
    events: Part
    until_ms: int | None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(part.end - part.start for part in self._parts())

    def span_ms(self) -> tuple[int, int]:
        """Return the first and the last time, if there is a row."""
        timed = zip(self._parts(), _TIME_PLACES, strict=True)
        there = [(part, part.columns[time]) for part, time in timed if part.start < part.end]
        firsts = min(times[part.start] for part, times in there)
        return firsts, max(times[part.end - 1] for part, times in there)

    def _parts(self) -> tuple[Part, Part, Part]:
        return self.operations, self.extensions, self.events


class _Rows:
    """The rows of a table that are read and in no window yet."""

    def __init__(self, table: Table[Any], batches: Iterable[Columns]) -> None:
        self.finished = False
        self._batches = iter(batches)
        self._table = table
        self._time_place = table.time_place
        self._last_ms = INT64_MIN
        self._read = 0
        self._columns: Columns = tuple([] for _ in table.columns)
        self._start = 0

    def read(self) -> None:
        more = next(self._batches, None)
        if more is None:
            self.finished = True
            return
        if more[self._time_place]:
            self._check_order(more[self._time_place])
        left = (column[self._start :] for column in self._columns)
        self._columns = tuple(old + new for old, new in zip(left, more, strict=True))
        self._start = 0

    def _check_order(self, times: Sequence[int]) -> None:
        """Raise OutOfOrder: outcomes would be wrong."""
        early = first_going_back(times, self._last_ms)
        if early is not None:
            place = f"{self._table.name}, row {self._read + early + 1}"
            before = times[early - 1] if early else self._last_ms
            raise OutOfOrder(place, self._table.time_column, before, times[early])
        self._last_ms = times[-1]
        self._read += len(times)

    def is_empty(self) -> bool:
        return self._start == len(self._columns[0])

    def span_ms(self) -> tuple[int, int]:
        times = self._columns[self._time_place]
        return times[self._start], times[-1]

    def take(self, until_ms: int | None) -> Part:
        times = self._columns[self._time_place]
        start = self._start
        end = len(times) if until_ms is None else bisect_left(times, until_ms, start)
        self._start = end
        return Part(self._columns, start, end)


class Timeline:
    """Merges tables in order of time, which come in batches."""

    def __init__(
        self,
        operations: Iterable[Columns],
        extensions: Iterable[Columns],
        events: Iterable[Columns],
    ) -> None:
        self._tables = (
            _Rows(OPERATIONS, operations),
            _Rows(EXTENSIONS, extensions),
            _Rows(EVENTS, events),
        )

    def windows(self) -> Iterator[Window]:
        """Yield all rows, window by window; the last may be empty."""
        until_ms: int | None = 0
        while until_ms is not None:
            until_ms = self._read_on()
            operations, extensions, events = (table.take(until_ms) for table in self._tables)
            yield Window(operations, extensions, events, until_ms)

    def _read_on(self) -> int | None:
        """Read until all rows before some time are here; return that time, or None at the end."""
        while True:
            for table in self._tables:
                while table.is_empty() and not table.finished:
                    table.read()
            unfinished = [table for table in self._tables if not table.finished]
            if not unfinished:
                return None
            until_ms = min(table.span_ms()[1] for table in unfinished)
            here = [table for table in self._tables if not table.is_empty()]
            if min(table.span_ms()[0] for table in here) < until_ms:
                return until_ms
            # An instant's rows belong in one window: more may follow.
            for table in unfinished:
                if table.span_ms()[1] == until_ms:
                    table.read()
