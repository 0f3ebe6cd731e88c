"""A chart of a page: its drawing, its legend, its text, and the data behind it.

Pure; any thread may call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from purgatory.spark.report import formatting

if TYPE_CHECKING:
    from purgatory.spark.report.content import Report
    from purgatory.spark.report.figures import Figure
    from purgatory.spark.report.rows import Kind

# At most so many kinds have a bar of their own; so many lines are shown until the reader chooses.
MAX_BARS: Final = 12
SHOWN_LINES: Final = 4
OUTCOMES: Final = ("completed", "failed", "expired", "cancelled")
_COLOURS: Final = 6
_ROW: Final = 26  # pixels of a bar


class LegendEntry(NamedTuple):
    """A colour and what it stands for.

    `css`: the class of its elements. `shown`: whether they are shown at first; None if the reader
    cannot hide them.
    """

    css: str
    label: str
    shown: bool | None = None


class Chart(NamedTuple):
    """A chart: title, two SVG elements, a text alternative, data, and legend."""

    title: str
    svg: str
    alternative: str
    data: Figure | None = None
    legend: Sequence[LegendEntry] = ()


def numbered_kinds(report: Report) -> dict[Kind, int]:
    """Return the kinds to show and their numbers: all together, then each; with one, only that."""
    kinds = {row.kind: number for number, row in enumerate(report.summaries)}
    return {kind: n for kind, n in kinds.items() if len(kinds) > 2 or not kind.total}


def kind_legend(kinds: Mapping[Kind, int]) -> list[LegendEntry]:
    """Give each kind a colour, and the reader the choice of the kinds that are shown."""
    if len(kinds) < 2:
        return []
    return [LegendEntry(kind_css(n), str(kind), n <= SHOWN_LINES) for kind, n in kinds.items()]


def kind_css(number: int) -> str:
    """Return the classes of a kind's elements: which it is, its colour and its dashes."""
    return f"k{number} c{number % _COLOURS} d{number // _COLOURS}"


def outcome_legend(outcomes: Iterable[str]) -> list[LegendEntry]:
    """Name the colours of outcomes."""
    return [LegendEntry(outcome, outcome) for outcome in outcomes]


def row_names(labels: Iterable[str], *, narrow: bool) -> list[str]:
    """Shorten names to what an axis has room for."""
    return [formatting.name(label, 16 if narrow else 32) for label in labels]


def rows_height(rows: Sequence[object]) -> int:
    """Return the height of a chart with a row for each of `rows`."""
    return 60 + _ROW * len(rows)
