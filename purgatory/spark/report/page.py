"""The page of a report: one HTML file, complete in itself.

It needs no network. Made only from a `Report`; `html` escapes all that comes from the data. Call
from one thread at a time, see `svg`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from purgatory.spark.report import charts, formatting
from purgatory.spark.report.aggregates import ACCURACY, QUANTILES
from purgatory.spark.report.cells import key_cells, wheel_cells
from purgatory.spark.report.html import details, document, escape, figure, paragraph, section, table

if TYPE_CHECKING:
    from purgatory.spark.report.report import Report
    from purgatory.spark.report.rows import HotKey, Kind, KindSummary, Suggestion

_QUANTILE_HEADS: Final = tuple(f"p{100 * q:g}" for q in QUANTILES)


def make_page(report: Report, source: str, notes: Sequence[str] = ()) -> str:
    """Make the page of a journal named `source`, with `notes` at the top."""
    title = f"Report of {formatting.name(source)}"
    parts = [_head(report, source, notes)]
    if report.operations:
        parts += [
            _ends(report),
            _waits(report),
            _timeouts(report),
            _hot_keys(report),
            _wheels(report),
            _method(report),
        ]
    return document(title, parts)


def _head(report: Report, source: str, notes: Sequence[str]) -> str:
    heading = f"<h1>Report of {escape(formatting.name(source))}</h1>"
    said = "".join(f'<p class="note">{escape(note)}</p>' for note in notes)
    if not report.operations:
        return f"{heading}{said}<p>There are no outcomes in it.</p>"
    total = report.summaries[0]
    cards = [
        (formatting.count(total.operations), "operations"),
        (formatting.share(total.completed / total.operations), "completed"),
        (formatting.share(total.expired / total.operations), "expired"),
        (formatting.duration(total.mean_waited_ms), "average wait"),
    ]
    shown = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for value, label in cards)
    span = report.last_ms - report.first_ms
    detail = max(1, span // 1000)
    first, last = (formatting.utc_time(ms, detail) for ms in (report.first_ms, report.last_ms))
    return (
        f'{heading}<p class="times">{first} to {last} UTC, {formatting.duration(span)}</p>{said}'
        f'<dl class="cards">{shown}</dl>'
    )


def _ends(report: Report) -> str:
    kinds = _kinds(report)
    submitted = report.summaries[0].submitted is not None
    heads = ["kind", *(["submitted", "no outcome"] if submitted else []), "ended"]
    for outcome in ("completed", "expired", "cancelled"):
        heads += [outcome, "share"]
    rows = [_counts(row) for row in report.summaries]
    parts = [
        figure(charts.outcome_shares(report.summaries)),
        table("Counts and shares", heads, rows),
        figure(charts.ends_over_time(report.bins, report.bin_ms)),
    ]
    if len(kinds) > 1:
        parts.append(figure(charts.completions_of_kinds(report.bins, report.bin_ms, kinds)))
    parts.append(details("Ends over time, in figures", _bins(report)))
    return section("How operations ended", parts)


def _bins(report: Report) -> str:
    heads = ["from (UTC)", "kind", "completed", "expired", "cancelled"]
    rows = (
        [
            formatting.utc_time(row.start_ms, report.bin_ms),
            str(row.kind),
            *map(formatting.count, row[2:]),
        ]
        for row in report.bins
    )
    return table(f"Ends, {formatting.duration(report.bin_ms)} a row", heads, rows)


def _counts(row: KindSummary) -> list[str]:
    cells = [str(row.kind)]
    if row.submitted is not None:
        cells += [
            formatting.count(row.submitted),
            formatting.count(max(0, row.submitted - row.operations)),
        ]
    cells.append(formatting.count(row.operations))
    for number in (row.completed, row.expired, row.cancelled):
        cells += [formatting.count(number), formatting.share(number / row.operations)]
    return cells


def _waits(report: Report) -> str:
    rows = report.summaries
    late = any(any(row.lateness_ms) for row in rows)
    parts = []
    if any(row.completed for row in rows):
        parts.append(
            figure(
                charts.quantiles(
                    "waits", "Waits of completed operations", rows, lambda r: r.completed_waited_ms
                )
            )
        )
    if late:
        lateness = charts.quantiles("late", "Lateness", rows, lambda r: r.lateness_ms)
        parts.append(figure(lateness))
    tables = [
        ("Waits of completed operations", [(r.kind, r.completed_waited_ms) for r in rows]),
        ("Waits of all that ended", [(r.kind, r.waited_ms) for r in rows]),
        ("Lateness: handled minus due", [(r.kind, r.lateness_ms) for r in rows]),
    ]
    heads = ["kind", *_QUANTILE_HEADS]
    if not late:
        tables.pop()
        parts.append(paragraph("Nothing was handled late."))
    parts += [table(title, heads, [_durations(*row) for row in of]) for title, of in tables]
    return section("Waits and lateness", parts)


def _durations(kind: Kind, values: Sequence[int]) -> list[str]:
    shown = [formatting.duration(value) for value in values]
    return [str(kind), *(shown or [formatting.NOTHING] * len(QUANTILES))]


_TIMEOUT_HEADS: Final = [
    *("kind", "wanted", "timeout", "reached", "average wait", "against now", "rests on"),
]


def _timeouts(report: Report) -> str:
    now = {row.kind: row.mean_waited_ms for row in report.summaries}
    total = [_timeout(row, now[row.kind]) for row in report.suggestions if row.kind.total]
    of_kinds = [_timeout(row, now[row.kind]) for row in report.suggestions if not row.kind.total]
    return section(
        "Timeouts",
        [
            paragraph(
                "The shortest timeout for a wanted share of completions, and what an operation "
                "then waits on average, completed or not, also as a multiple of what it waits "
                "now. Not seen: nothing in the journal tells of a timeout long enough. The last "
                "column says how many operations waited that long: a timeout that rests on a "
                "handful of them is a guess."
            ),
            figure(charts.completion_curves(report.curves, [*now])),
            figure(charts.waiting_costs(report.curves, [*now])),
            table("Suggested timeouts", _TIMEOUT_HEADS, total),
            details(
                "Suggested timeouts by kind",
                table("Suggested timeouts by kind", _TIMEOUT_HEADS, of_kinds),
            ),
        ],
    )


def _timeout(suggestion: Suggestion, now_ms: float) -> list[str]:
    cells = [str(suggestion.kind), formatting.share(suggestion.wanted)]
    if (point := suggestion.point) is None:
        return [*cells, "not seen", *[formatting.NOTHING] * 4]
    ratio = point.mean_wait_ms / now_ms if now_ms else 1.0
    return [
        *cells,
        formatting.duration(point.timeout_ms),
        formatting.share(point.share),
        formatting.duration(point.mean_wait_ms),
        f"\N{MULTIPLICATION SIGN} {formatting.number(ratio)}",
        formatting.count(point.watched),
    ]


def _hot_keys(report: Report) -> str:
    if not report.hot_keys:
        return section("Hot keys", [paragraph("No key was used more than once.")])
    total = [row for row in report.hot_keys if row.kind.total]
    parts = [
        figure(charts.hot_keys(total)),
        table("Hottest keys", _KEY_HEADS, map(key_cells, total)),
    ]
    kinds = _kinds(report)
    if len(kinds) > 1:
        of_kinds = [row for kind in kinds for row in report.hot_keys if row.kind == kind]
        title = "Hottest keys by kind"
        rows = table(title, ["kind", *_KEY_HEADS], map(_key_of_kind, of_kinds))
        parts.append(details(title, rows))
    return section("Hot keys", parts)


_KEY_HEADS: Final = ["key", "operations that watch it", "completed by it"]


def _key_of_kind(row: HotKey) -> list[str]:
    return [str(row.kind), *key_cells(row)]


def _wheels(report: Report) -> str:
    heads = [
        *("tick", "wheel size", "levels", "buckets occupied", "cascades an operation"),
        *("moves an operation", "wake-ups a second", "average lateness", "most"),
    ]
    return section(
        "Wheel tuning",
        [
            paragraph(
                "What a timing wheel of other dimensions would have done with these deadlines. "
                "Cascades are buckets whose operations are placed again, moves those operations; "
                "lateness is what rounding up to the tick adds to an expiry. A Timer has a tick "
                "of 1 ms and 20 slots a level unless told otherwise."
            ),
            figure(charts.wheels(report.wheels)),
            table("Wheels", heads, [wheel_cells(row) for row in report.wheels]),
        ],
    )


def _method(report: Report) -> str:
    how = (
        "exact (nearest rank)"
        if report.exact
        else f"approximate, with at most one rank in {ACCURACY:,} wrong; waits of 10 s and more "
        "are rounded up to four digits for the timeouts"
    )
    kinds = len(_kinds(report))
    others = f" The {kinds - 1} largest of {report.kinds:,} kinds have rows of their own."
    return section(
        "How this was computed",
        [
            paragraph(
                f"Quantiles are {how}. Timeouts come from the Kaplan\N{EN DASH}Meier estimate, in "
                "which an operation that expired or was cancelled counts for as long as it was "
                "watched." + (others if report.kinds > kinds else "")
            )
        ],
    )


def _kinds(report: Report) -> list[Kind]:
    return [row.kind for row in report.summaries if not row.kind.total]
