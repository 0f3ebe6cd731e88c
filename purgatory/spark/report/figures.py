"""The data behind each figure of a report, as tables for CSV files.

Pure functions; any thread may call. Durations and times are in ms, shares from 0 to 1; the kind of
rows about all kinds together is empty, and `total` is 1 there.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from purgatory.spark.report.histograms import QUANTILES
from purgatory.spark.report.rows import (
    Bin,
    CurvePoint,
    HotKey,
    Kind,
    KindSummary,
    WeekHour,
    WheelRow,
)

if TYPE_CHECKING:
    from purgatory.spark.report.content import Report
    from purgatory.spark.report.rows import Change


class Figure(NamedTuple):
    """The data of a figure: the name of its file without suffix, heads, rows."""

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


def _labelled(name: str, fields: Sequence[str], rows: Iterable[tuple[Any, ...]]) -> Figure:
    """Make a figure of rows with the kind first."""
    return Figure(name, (*_LABELS, *fields[1:]), [(*_label(row[0]), *row[1:]) for row in rows])


def _label(kind: Kind) -> tuple[int, str]:
    return int(
        kind.total
    ), "" if kind.total else "(other kinds)" if kind.name is None else kind.name


def all_figures(report: Report) -> list[Figure]:
    """Return the data of all figures of a report."""
    figures = [kinds(report), timeouts(report), curves(report), ends(report), week(report)]
    figures += [hot_keys(report)] if report.hot_keys else []
    figures += [wheels(report)] if report.wheels else []
    figures += [changes(report)] if report.changes else []
    return figures


def kinds(report: Report) -> Figure:
    """Return counts, waits, timeouts and lateness by kind."""
    names = [f"p{100 * q:g}" for q in QUANTILES]
    heads = [
        *KindSummary._fields[1:7],
        *(f"timeout_{which}_ms" for which in ("min", "median", "max")),
        *("completed_share_estimated", "mean_wait_restricted_ms"),
        *(f"completed_wait_{name}_ms" for name in names),
        *(f"lateness_{name}_ms" for name in names),
    ]
    rows = [
        (
            *row[:7],
            *row.timeouts_ms,
            row.now.share,
            row.now.mean_wait_ms,
            *(row.completed_waited_ms or [None] * len(names)),
            *row.lateness_ms,
        )
        for row in report.summaries
    ]
    return _labelled("kinds", ("kind", *heads), rows)


def timeouts(report: Report) -> Figure:
    """Return the suggested timeouts; without figures where none is known."""
    rows = [
        (row.kind, row.wanted, *(row.point[1:] if row.point else [None] * 4))
        for row in report.suggestions
    ]
    return _labelled("timeouts", ("kind", "wanted_share", *CurvePoint._fields[1:]), rows)


def curves(report: Report, only: Kind | None = None) -> Figure:
    """Return the completion curves, or that of one kind."""
    points = [p for kind, curve in report.curves.items() if only in {None, kind} for p in curve]
    return _labelled("curves", CurvePoint._fields, points)


def ends(report: Report) -> Figure:
    """Return the operations that ended over time."""
    return _labelled("ends-by-kind", Bin._fields, report.bins)


def week(report: Report) -> Figure:
    """Return the operations by hour of the week."""
    return Figure("week", WeekHour._fields, report.week)


def hot_keys(report: Report) -> Figure:
    """Return the hot keys."""
    return _labelled("hot-keys", HotKey._fields, report.hot_keys)


def wheels(report: Report) -> Figure:
    """Return the wheels that were compared."""
    return Figure("wheels", WheelRow._fields, report.wheels)


def changes(report: Report) -> Figure:
    """Return the kinds in both periods."""
    names = ("operations", "completed", "expired", "half_complete_ms", "p99_complete_ms")
    heads = [*names, *(f"earlier_{name}" for name in names)]
    rows = [(c.kind, *_period(c, earlier=False), *_period(c, earlier=True)) for c in report.changes]
    return _labelled("changes", ("kind", *heads), rows)


def _period(change: Change, *, earlier: bool) -> tuple[int | None, ...]:
    row = change.earlier if earlier else change.now
    waits = change.earlier_waits_ms if earlier else change.waits_ms
    counts = (None,) * 3 if row is None else (row.operations, row.completed, row.expired)
    return (*counts, *waits)
