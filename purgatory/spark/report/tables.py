"""The tables of a report: as cells for page and terminal, and as data for CSV files.

In the data, durations and times are in ms, shares from 0 to 1. Rows about all kinds have an empty
kind, and `total` 1.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from purgatory.spark.report.content import (
    Bin,
    Change,
    CurvePoint,
    HotKey,
    Kind,
    KindSummary,
    Report,
    WeekHour,
    WheelRow,
)
from purgatory.spark.report.findings import MIN_OPERATIONS
from purgatory.spark.report.formatting import NOTHING, count, duration, name, number, share
from purgatory.spark.report.histograms import QUANTILE_NAMES, QUANTILES

TableCells: TypeAlias = tuple[Sequence[str], Iterable[Sequence[str]]]
"""The heads and the rows of a table."""

_UNKNOWN: Final = (None,) * len(QUANTILES)
_ZEROS: Final = {share(0), duration(0), count(0), NOTHING}


def without_empty_columns(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> TableCells:
    """Drop columns of zeros and nothing, but not the names of the rows."""
    columns = [
        (head, *cells)
        for head, cells in zip(heads, zip(*rows, strict=True), strict=True)
        if head == heads[0] or not _ZEROS.issuperset(cells)
    ]
    kept, *kept_rows = zip(*columns, strict=True)
    return kept, kept_rows


def summary_table(rows: Iterable[KindSummary]) -> TableCells:
    """Return heads and cells of the summaries."""
    heads = [
        *("kind", "no outcome", "ended", "completed", "failed", "expired", "cancelled"),
        *(f"wait {name}" for name in QUANTILE_NAMES),
        f"late {QUANTILE_NAMES[-1]}",
    ]
    return without_empty_columns(heads, map(_summary_cells, rows))


def _summary_cells(row: KindSummary) -> list[str]:
    unended = NOTHING if row.submitted is None else count(max(0, row.submitted - row.operations))
    shares = (row.completed, row.failed, row.expired, row.cancelled)
    waits = row.completed_waited_ms or _UNKNOWN
    return [
        str(row.kind),
        unended,
        count(row.operations),
        *(share(n / row.operations) for n in shares),
        *map(duration, waits),
        duration((row.lateness_ms or _UNKNOWN)[-1]),
    ]


def timeout_table(report: Report, kinds: Iterable[Kind]) -> TableCells:
    """Return heads and cells: the median timeout, and the shortest for the wanted shares.

    Leaves out shares and kinds without a known timeout.
    """
    wanted = sorted({row.wanted for row in report.suggestions if row.point is not None})
    without = kinds_without_timeout(report, kinds)
    rows = [_timeout_cells(report, kind, wanted) for kind in kinds if kind not in without]
    return ["kind", "now", *map(share, wanted)], rows


def kinds_without_timeout(report: Report, kinds: Iterable[Kind]) -> list[Kind]:
    """Return the kinds without a timeout for any wanted share."""
    known = {row.kind for row in report.suggestions if row.point is not None}
    return [kind for kind in kinds if kind not in known]


def _timeout_cells(report: Report, kind: Kind, wanted: Sequence[float]) -> list[str]:
    summary = next(row for row in report.summaries if row.kind == kind)
    points = {row.wanted: row.point for row in report.suggestions if row.kind == kind}
    now = f"{duration(summary.timeouts_ms[1])}\nwait {duration(summary.now.mean_wait_ms)}"
    return [str(kind), now, *(_timeout(points.get(part)) for part in wanted)]


def _timeout(point: CurvePoint | None) -> str:
    if point is None:
        return NOTHING
    few = f" ({count(point.watched)})" if point.watched < MIN_OPERATIONS else ""
    return f"{duration(point.timeout_ms)}{few}\nwait {duration(point.mean_wait_ms)}"


def key_cells(row: HotKey) -> list[str]:
    """Return name, watched, completed."""
    return [name(row.key), count(row.watched), count(row.completed)]


def change_cells(change: Change) -> list[str]:
    """Return kind, and each figure earlier and now."""
    periods = (change.earlier, change.now)
    waits = (change.earlier_waits_ms, change.waits_ms)
    pairs = [
        [count(row and row.operations) for row in periods],
        [share(row and row.completed / row.operations) for row in periods],
        *([duration(of[place]) for of in waits] for place in (0, 1)),
    ]
    arrow = " \N{RIGHTWARDS ARROW} "
    return [str(change.kind), *(arrow.join(dict.fromkeys(pair)) for pair in pairs)]


def wheel_cells(row: WheelRow, *, chosen: bool = False) -> list[str]:
    """Return the cells of a wheel; a chosen one is marked."""
    mark = " \N{CHECK MARK}" if chosen else ""
    size = f"{duration(row.tick_ms)} \N{MULTIPLICATION SIGN} {count(row.wheel_size)}{mark}"
    return [
        size.replace(" ", "\N{NO-BREAK SPACE}"),
        count(row.levels),
        number(row.buckets),
        number(row.cascades_per_operation),
        number(row.moves_per_operation),
        number(row.wakeups_per_second),
        duration(row.lateness_ms),
        duration(row.max_lateness_ms),
    ]


class Figure(NamedTuple):
    """The data of a figure: file name without suffix, heads, rows."""

    name: str
    heads: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def csv(self) -> str:
        """Return the data as CSV."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.heads)
        writer.writerows(self.rows)
        return text.getvalue()


_LABELS: Final = ("total", "kind")
#: The names of all figures.
FIGURES: Final = (
    *("kinds", "timeouts", "curves", "ends-by-kind"),
    *("week", "hot-keys", "wheels", "changes"),
)


def labelled(name: str, fields: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> Figure:
    """Make a figure of rows that begin with a kind."""
    return Figure(name, (*_LABELS, *fields[1:]), [(*_label(row[0]), *row[1:]) for row in rows])


def _label(kind: Kind) -> tuple[int, str]:
    if kind.total:
        return 1, ""
    return 0, "(other kinds)" if kind.name is None else kind.name


def figures(report: Report) -> dict[str, Figure]:
    """Return the figures with rows of the waits, by name."""
    if not report.operations:
        return {}
    found = (
        _kinds(report),
        _timeouts(report),
        curves_of(report),
        labelled("ends-by-kind", Bin._fields, report.bins),
        Figure("week", WeekHour._fields, report.week),
        labelled("hot-keys", HotKey._fields, report.hot_keys),
        Figure("wheels", WheelRow._fields, report.wheels),
        _changes(report),
    )
    return {figure.name: figure for figure in found if figure.rows}


def data_of(report: Report, name: str) -> Figure | None:
    """Return the figure of a name, None without rows."""
    return figures(report).get(name)


def _kinds(report: Report) -> Figure:
    heads = [
        *KindSummary._fields[1:7],
        *(f"timeout_{which}_ms" for which in ("min", "median", "max")),
        *("completed_share_estimated", "mean_wait_restricted_ms"),
        *(f"completed_wait_{name}_ms" for name in QUANTILE_NAMES),
        *(f"lateness_{name}_ms" for name in QUANTILE_NAMES),
    ]
    rows = [
        (
            *row[:7],
            *row.timeouts_ms,
            row.now.share,
            row.now.mean_wait_ms,
            *(row.completed_waited_ms or _UNKNOWN),
            *(row.lateness_ms or _UNKNOWN),
        )
        for row in report.summaries
    ]
    return labelled("kinds", ("kind", *heads), rows)


def _timeouts(report: Report) -> Figure:
    rows = [
        (row.kind, row.wanted, *(row.point[1:] if row.point else [None] * 4))
        for row in report.suggestions
    ]
    return labelled("timeouts", ("kind", "wanted_share", *CurvePoint._fields[1:]), rows)


def curves_of(report: Report, only: Kind | None = None) -> Figure:
    """Return the completion curves, or one kind's."""
    points = [p for kind, curve in report.curves.items() if only in {None, kind} for p in curve]
    return labelled("curves", CurvePoint._fields, points)


def _changes(report: Report) -> Figure:
    names = ("operations", "completed", "expired", "half_complete_ms", "p99_complete_ms")
    heads = [*names, *(f"earlier_{name}" for name in names)]
    rows = [
        (c.kind, *_period(c.now, c.waits_ms), *_period(c.earlier, c.earlier_waits_ms))
        for c in report.changes
    ]
    return labelled("changes", ("kind", *heads), rows)


def _period(
    row: KindSummary | None, waits_ms: tuple[int | None, int | None]
) -> tuple[int | None, ...]:
    counts = (None,) * 3 if row is None else (row.operations, row.completed, row.expired)
    return (*counts, *waits_ms)
