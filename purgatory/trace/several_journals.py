"""The union of one table of the journals of several servers.

After a takeover a server may write rows again. So the union has as many equal rows as the journal
with most. For one thread.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby, repeat
from pathlib import Path
from typing import Any

from purgatory.trace.reader import Reader, StrPath, by_time, in_order
from purgatory.trace.tables import RowT


def journals_below(path: StrPath, table: str) -> list[Path]:
    """Return a table's directories in `path`/*/journal; some may be empty."""
    return [one for one in sorted(Path(path).glob(f"*/journal/{table}")) if one.is_dir()]


def union(readers: Sequence[Reader[RowT]], *, sort: bool = False) -> Iterator[RowT]:
    """Yield the rows of all, in order of time; `sort`: sort each first, in memory.

    Raises OutOfOrder where time goes backwards, and as `Reader`.
    """
    ordered = [by_time(one) if sort else in_order(one) for one in readers]
    numbered = [zip(repeat(number), rows) for number, rows in enumerate(ordered)]
    time_of = readers[0].table.time_of

    def moment(one: tuple[int, RowT]) -> int:
        return time_of(one[1])

    for _, instant in groupby(merge(*numbered, key=moment), moment):
        yield from _without_copies(instant)


def _without_copies(instant: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Yield the rows of an instant, without those of an earlier journal."""
    told: Counter[Any] = Counter()
    seen: Counter[Any] = Counter()
    for number, row in instant:
        seen[number, row] += 1
        if seen[number, row] > told[row]:
            told[row] += 1
            yield row
