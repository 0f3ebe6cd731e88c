"""Histograms: how often each value of a measure occurs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from purgatory.spark.report.content import Kind, ValueCount

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)
QUANTILE_NAMES: Final = tuple(f"p{100 * q:g}" for q in QUANTILES)
ALL_KINDS: Final = Kind(True, None)

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
# Round widths of bins, in ms.
_WIDTHS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 15, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * _HOUR for n in (1, 2, 3, 6, 12)),
    *(n * _DAY for n in (1, 2, 7, 14, 28)),
)

Histogram = Sequence[ValueCount]
"""The counts of one kind and measure, by ascending value."""


class _HasValue(Protocol):
    @property
    def value(self) -> int: ...


_Row = TypeVar("_Row", bound=_HasValue)
_Counts = TypeVar("_Counts", bound=tuple[int, ...])


def collect(
    counts: DataFrame, row: type[Any], main: int
) -> dict[int, Mapping[Kind, Sequence[Any]]]:
    """Collect rows of a named tuple, by measure and kind: the total, then the largest kinds.

    `main`: the measure of the size of a kind.
    """
    found: dict[int, dict[Kind, list[Any]]] = {}
    table = counts.select("measure", "kind", *row._fields).toArrow().to_pydict()
    for measure, kind, *values in zip(*table.values(), strict=True):
        found.setdefault(measure, {}).setdefault(Kind(False, kind), []).append(row(*values))
    sizes = {kind: sum(one.ended for one in rows) for kind, rows in found.get(main, {}).items()}

    def place(kind: Kind) -> tuple[int, str]:
        return -sizes.get(kind, 0), kind.name or ""

    return {
        measure: {
            ALL_KINDS: in_total(of.values(), row),
            **{kind: sorted(of[kind]) for kind in sorted(of, key=place)},
        }
        for measure, of in found.items()
    }


def in_total(
    histograms: Iterable[Sequence[_Counts]], make: Callable[..., _Counts]
) -> list[_Counts]:
    """Add the histograms of several kinds."""
    sums: dict[int, list[int]] = {}
    for histogram in histograms:
        for value, *counts in histogram:
            found = sums.get(value)
            sums[value] = counts if found is None else [*map(int.__add__, found, counts)]
    return [make(value, *sums[value]) for value in sorted(sums)]


def quantiles(
    histogram: Sequence[_Row], counted: Callable[[_Row], int], shares: Sequence[float] = QUANTILES
) -> tuple[int, ...]:
    """Return the quantiles at ascending `shares`, empty if nothing is counted.

    A quantile is the smallest value that at least this share of the values do not exceed (nearest
    rank). `counted`: of a row.
    """
    counts = [*map(counted, histogram)]
    total = sum(counts)
    if not total:
        return ()
    found = []
    reached = zip(accumulate(counts), histogram, strict=True)
    so_far, row = next(reached)
    for share in shares:
        while so_far == 0 or so_far < share * total:
            so_far, row = next(reached)
        found.append(row.value)
    return tuple(found)


def bin_width_ms(span_ms: int, max_bins: int = 96) -> int:
    """Return the smallest round width with at most `max_bins` bins; days by the 28."""
    wanted = max(1, -(-span_ms // max_bins))
    return next((w for w in _WIDTHS if w >= wanted), -(-wanted // _WIDTHS[-1]) * _WIDTHS[-1])
