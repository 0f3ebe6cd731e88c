"""Computes the report of a journal, as rows that fit into memory.

`make_report` runs the Spark jobs and returns a `Report` of plain rows; `page` and `terminal` show
it. Any thread may call, but a session makes one report at a time. A `Report` is immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from purgatory.spark.report import aggregates, timeout_suggestions, wheel_tuning
from purgatory.spark.report.rows import (
    Bin,
    CurvePoint,
    HotKey,
    Kind,
    KindSummary,
    Suggestion,
    WheelRow,
)
from purgatory.spark.tables import schema

# Up to so many outcomes, quantiles and curves are exact; for more, see `aggregates` and
# `timeout_suggestions`.
EXACT_ROWS: Final = 1_000_000
DEFAULT_SHARES: Final = (0.5, 0.9, 0.95, 0.99, 0.999)
# At most so many kinds have rows of their own, the largest; the others are put together.
MAX_KINDS: Final = 20
MAX_KEYS: Final = 10


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options of a report. Raises ValueError for impossible shares and wheels."""

    shares: Sequence[float] = DEFAULT_SHARES
    wheels: Sequence[wheel_tuning.WheelSize] = field(default_factory=wheel_tuning.wheel_sizes)
    exact_rows: int = EXACT_ROWS
    max_kinds: int = MAX_KINDS
    max_keys: int = MAX_KEYS

    def __post_init__(self) -> None:
        timeout_suggestions.check_shares(self.shares)
        wheel_tuning.check_candidates(self.wheels)


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, its rows in the order of display.

    `exact`: whether quantiles and curves are exact. `first_ms`, `last_ms`: time of the first
    submission and of the last outcome. `kinds`: number of kinds; see `MAX_KINDS`. `bin_ms`: width
    of a `Bin`; bins in which nothing ended are left out.
    """

    operations: int
    kinds: int
    first_ms: int
    last_ms: int
    exact: bool
    bin_ms: int
    summaries: tuple[KindSummary, ...] = ()
    bins: tuple[Bin, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    curves: tuple[CurvePoint, ...] = ()
    wheels: tuple[WheelRow, ...] = ()


def make_report(
    outcomes: DataFrame,
    operations: DataFrame | None = None,
    options: ReportOptions | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> Report:
    """Compute the report of checked tables.

    Calls `progress` with the name of each step. Without `operations`, the numbers of operations
    submitted and of watchers of a key are None.
    """
    with ExitStack() as stack:
        progress("reading")
        outcomes = _persist(stack, outcomes, _OUTCOME_COLUMNS)
        if operations is not None:
            operations = _persist(stack, operations, _OPERATION_COLUMNS)
        return _compute_report(outcomes, operations, options or ReportOptions(), progress)


# The columns that a report needs.
_OUTCOME_COLUMNS: Final = [name for name in schema.OUTCOMES.names if name != "op_id"]
_OPERATION_COLUMNS: Final = ["kind", "keys"]


def _persist(stack: ExitStack, table: DataFrame, columns: list[str]) -> DataFrame:
    """Cache the needed columns of a table, as it is read many times.

    So the checks of its rows, which cost more than the rest of the report, are made only once.
    """
    needed = table.select(*columns).persist(StorageLevel.MEMORY_AND_DISK)
    stack.callback(needed.unpersist)
    return needed


def _compute_report(
    outcomes: DataFrame,
    operations: DataFrame | None,
    options: ReportOptions,
    progress: Callable[[str], object],
) -> Report:
    extent = _extent(outcomes)
    if not extent.operations:
        return Report(0, 0, 0, 0, exact=True, bin_ms=1)
    kinds = [
        row.kind for row in aggregates.count_kinds(outcomes).limit(options.max_kinds).collect()
    ]
    outcomes = aggregates.fold_kinds(outcomes, kinds)
    operations = None if operations is None else aggregates.fold_kinds(operations, kinds)
    exact = extent.operations <= options.exact_rows
    bin_ms = aggregates.bin_width_ms(extent.last_ms - extent.first_end_ms + 1)
    progress("waits and lateness")
    summaries = _summaries(outcomes, operations, exact)
    progress("ends over time")
    bins = _collect_rows(Bin, aggregates.outcomes_over_time(outcomes, bin_ms))
    progress("hot keys")
    hot_keys = _collect_rows(HotKey, aggregates.hot_keys(outcomes, operations, options.max_keys))
    progress("timeouts")
    curves, suggestions = _timeouts(outcomes, options.shares, exact, [s.kind for s in summaries])
    progress("wheels")
    wheels = wheel_tuning.compare_wheels(outcomes, options.wheels).collect()
    return Report(
        operations=extent.operations,
        kinds=extent.kinds,
        first_ms=extent.first_ms,
        last_ms=extent.last_ms,
        exact=exact,
        bin_ms=bin_ms,
        summaries=summaries,
        bins=bins,
        hot_keys=hot_keys,
        suggestions=suggestions,
        curves=curves,
        wheels=tuple(WheelRow(*(row[name] for name in WheelRow._fields)) for row in wheels),
    )


def _extent(outcomes: DataFrame) -> Row:
    (row,) = outcomes.agg(
        F.count("*").alias("operations"),
        F.count_distinct("kind").alias("kinds"),
        F.min("submitted_ms").alias("first_ms"),
        F.min("at_ms").alias("first_end_ms"),
        F.max("at_ms").alias("last_ms"),
    ).collect()
    return row


def _kind(row: Row) -> Kind:
    return Kind("total" in row and row["total"], row["kind"])


def _collect_rows(make: Callable[..., Any], frame: DataFrame) -> tuple[Any, ...]:
    return tuple(_labelled(make, row) for row in frame.collect())


def _labelled(make: Callable[..., Any], row: Row) -> Any:
    """Turn a labelled row into the named tuple `make`, kind first."""
    names = make._fields[1:]  # type: ignore[attr-defined] # a NamedTuple
    return make(_kind(row), *(row[name] for name in names))


def _summaries(
    outcomes: DataFrame, operations: DataFrame | None, exact: bool
) -> tuple[KindSummary, ...]:
    submitted: dict[Kind, int] = {}
    if operations is not None:
        counts = {_kind(row): row["count"] for row in aggregates.count_kinds(operations).collect()}
        submitted = {Kind(True, None): sum(counts.values()), **counts}
    return tuple(
        _summary(row, submitted.get(_kind(row), 0) if operations is not None else None)
        for row in aggregates.summarize_kinds(outcomes, exact=exact).collect()
    )


def _summary(row: Row, submitted: int | None) -> KindSummary:
    return KindSummary(
        kind=_kind(row),
        submitted=submitted,
        operations=row["operations"],
        completed=row["completed"],
        expired=row["expired"],
        cancelled=row["cancelled"],
        mean_waited_ms=row["mean_waited_ms"],
        waited_ms=tuple(row["waited_ms"]),
        completed_waited_ms=tuple(row["completed_waited_ms"] or ()),
        lateness_ms=tuple(row["lateness_ms"]),
    )


def _timeouts(
    outcomes: DataFrame, shares: Sequence[float], exact: bool, kinds: Sequence[Kind]
) -> tuple[tuple[CurvePoint, ...], tuple[Suggestion, ...]]:
    curve = timeout_suggestions.completion_curve(outcomes, exact=exact).persist()
    try:
        curves = _collect_rows(CurvePoint, timeout_suggestions.thin_curve(curve))
        found = {
            (_kind(row), row["wanted"]): _labelled(CurvePoint, row)
            for row in timeout_suggestions.suggest_timeouts(curve, shares).collect()
        }
    finally:
        curve.unpersist()
    wanted = sorted(set(map(float, shares)))
    suggestions = (Suggestion(k, share, found.get((k, share))) for k in kinds for share in wanted)
    return curves, tuple(suggestions)
