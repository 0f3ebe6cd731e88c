"""The content of a report: plain rows that fit into memory.

`report` computes it; page, terminal and files show it. Immutable; any thread may use it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purgatory.spark.report.findings import Finding
    from purgatory.spark.report.rows import (
        Bin,
        Change,
        CurvePoint,
        HotKey,
        Kind,
        KindSummary,
        Suggestion,
        WeekHour,
        WheelRow,
    )


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report, its rows in the order of display.

    `exact`: whether quantiles and curves are exact. `first_ms`, `last_ms`: time of the first
    submission and of the last outcome. `kinds`: number of kinds; see `report.MAX_KINDS`.
    `bin_ms`: width of a `Bin`; bins in which nothing ended are left out. `findings`: what to do,
    the weightiest first. `changes`: against the report of an earlier period.
    """

    operations: int
    kinds: int
    first_ms: int
    last_ms: int
    exact: bool
    bin_ms: int
    summaries: tuple[KindSummary, ...] = ()
    findings: tuple[Finding, ...] = ()
    bins: tuple[Bin, ...] = ()
    week: tuple[WeekHour, ...] = ()
    hot_keys: tuple[HotKey, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    curves: Mapping[Kind, Sequence[CurvePoint]] = field(default_factory=dict)
    wheels: tuple[WheelRow, ...] = ()
    changes: tuple[Change, ...] = ()
