"""The page of a report: one HTML file that needs nothing else, not even a network.

Made of a `Report` alone. Everything that comes from the data is escaped here. Call from one thread
at a time, as `purgatory.spark.plots` says.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from purgatory.spark import charts, words
from purgatory.spark.figures import ACCURACY, QUANTILES
from purgatory.spark.page_style import STYLE

if TYPE_CHECKING:
    from purgatory.spark.charts import Chart
    from purgatory.spark.report import HotKey, Kind, Report, Suggestion, Summary

_LONGEST: Final = 1000  # characters of a text
_QUANTILE_HEADS: Final = tuple(f"p{100 * q:g}" for q in QUANTILES)


def make_page(report: Report, source: str, notes: Sequence[str] = ()) -> str:
    """The page as text. ``source``: what the journal is called; ``notes`` are shown at the top."""
    title = f"Report of {words.name(source)}"
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
    return _PAGE.format(title=_text(title), style=STYLE, body="\n".join(parts))


_PAGE: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def _head(report: Report, source: str, notes: Sequence[str]) -> str:
    heading = f"<h1>Report of {_text(words.name(source))}</h1>"
    said = "".join(f'<p class="note">{_text(note)}</p>' for note in notes)
    if not report.operations:
        return f"{heading}{said}<p>There are no outcomes in it.</p>"
    total = report.summaries[0]
    cards = [
        (words.count(total.operations), "operations"),
        (words.share(total.completed / total.operations), "completed"),
        (words.share(total.expired / total.operations), "expired"),
        (words.duration(total.mean_waited_ms), "average wait"),
    ]
    shown = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for value, label in cards)
    span = report.last_ms - report.first_ms
    detail = max(1, span // 1000)
    times = f"{words.moment(report.first_ms, detail)} to {words.moment(report.last_ms, detail)} UTC"
    return (
        f'{heading}<p class="times">{times}, {words.duration(span)}</p>{said}'
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
        _figure(charts.outcome_shares(report.summaries)),
        _table("Counts and shares", heads, rows),
        _figure(charts.ends_over_time(report.bins, report.bin_ms)),
    ]
    if len(kinds) > 1:
        parts.append(_figure(charts.completions_of_kinds(report.bins, report.bin_ms, kinds)))
    parts.append(_folded("Ends over time, in figures", _bins(report)))
    return _section("How operations ended", parts)


def _bins(report: Report) -> str:
    heads = ["from (UTC)", "kind", "completed", "expired", "cancelled"]
    rows = (
        [words.moment(row.start_ms, report.bin_ms), str(row.kind), *map(words.count, row[2:])]
        for row in report.bins
    )
    return _table(f"Ends, {words.duration(report.bin_ms)} a row", heads, rows)


def _counts(row: Summary) -> list[str]:
    cells = [str(row.kind)]
    if row.submitted is not None:
        cells += [words.count(row.submitted), words.count(max(0, row.submitted - row.operations))]
    cells.append(words.count(row.operations))
    for number in (row.completed, row.expired, row.cancelled):
        cells += [words.count(number), words.share(number / row.operations)]
    return cells


def _waits(report: Report) -> str:
    rows = report.summaries
    late = any(any(row.lateness_ms) for row in rows)
    parts = []
    if any(row.completed for row in rows):
        parts.append(
            _figure(
                charts.quantiles(
                    "waits", "Waits of completed operations", rows, lambda r: r.completed_waited_ms
                )
            )
        )
    if late:
        lateness = charts.quantiles("late", "Lateness", rows, lambda r: r.lateness_ms)
        parts.append(_figure(lateness))
    tables = [
        ("Waits of completed operations", [(r.kind, r.completed_waited_ms) for r in rows]),
        ("Waits of all that ended", [(r.kind, r.waited_ms) for r in rows]),
        ("Lateness: handled minus due", [(r.kind, r.lateness_ms) for r in rows]),
    ]
    heads = ["kind", *_QUANTILE_HEADS]
    if not late:
        tables.pop()
        parts.append(_paragraph("Nothing was handled late."))
    parts += [_table(title, heads, [_durations(*row) for row in of]) for title, of in tables]
    return _section("Waits and lateness", parts)


def _durations(kind: Kind, values: Sequence[int]) -> list[str]:
    shown = [words.duration(value) for value in values]
    return [str(kind), *(shown or [words.NOTHING] * len(QUANTILES))]


_TIMEOUT_HEADS: Final = [
    *("kind", "wanted", "timeout", "reached", "average wait", "against now", "rests on"),
]


def _timeouts(report: Report) -> str:
    now = {row.kind: row.mean_waited_ms for row in report.summaries}
    total = [_timeout(row, now[row.kind]) for row in report.suggestions if row.kind.total]
    of_kinds = [_timeout(row, now[row.kind]) for row in report.suggestions if not row.kind.total]
    return _section(
        "Timeouts",
        [
            _paragraph(
                "The shortest timeout for a wanted share of completions, and what an operation "
                "then waits on average, completed or not, also as a multiple of what it waits "
                "now. Not seen: nothing in the journal tells of a timeout long enough. The last "
                "column says how many operations waited that long: a timeout that rests on a "
                "handful of them is a guess."
            ),
            _figure(charts.completion_curves(report.curves, [*now])),
            _figure(charts.waiting_costs(report.curves, [*now])),
            _table("Suggested timeouts", _TIMEOUT_HEADS, total),
            _folded(
                "Suggested timeouts by kind",
                _table("Suggested timeouts by kind", _TIMEOUT_HEADS, of_kinds),
            ),
        ],
    )


def _timeout(suggestion: Suggestion, now_ms: float) -> list[str]:
    cells = [str(suggestion.kind), words.share(suggestion.wanted)]
    if (point := suggestion.point) is None:
        return [*cells, "not seen", *[words.NOTHING] * 4]
    ratio = point.mean_wait_ms / now_ms if now_ms else 1.0
    return [
        *cells,
        words.duration(point.timeout_ms),
        words.share(point.share),
        words.duration(point.mean_wait_ms),
        f"\N{MULTIPLICATION SIGN} {words.number(ratio)}",
        words.count(point.watched),
    ]


def _hot_keys(report: Report) -> str:
    if not report.hot_keys:
        return _section("Hot keys", [_paragraph("No key was used more than once.")])
    total = [row for row in report.hot_keys if row.kind.total]
    parts = [_figure(charts.hot_keys(total)), _table("Hottest keys", _KEY_HEADS, map(_key, total))]
    kinds = _kinds(report)
    if len(kinds) > 1:
        of_kinds = [row for kind in kinds for row in report.hot_keys if row.kind == kind]
        table = _table("Hottest keys by kind", ["kind", *_KEY_HEADS], map(_key_of_kind, of_kinds))
        parts.append(_folded("Hottest keys by kind", table))
    return _section("Hot keys", parts)


_KEY_HEADS: Final = ["key", "operations that watch it", "completed by it"]


def _key(row: HotKey) -> list[str]:
    return [words.name(row.key), words.count(row.watched), words.count(row.completed)]


def _key_of_kind(row: HotKey) -> list[str]:
    return [str(row.kind), *_key(row)]


def _wheels(report: Report) -> str:
    heads = [
        *("tick", "wheel size", "levels", "buckets occupied", "cascades an operation"),
        *("moves an operation", "wake-ups a second", "average lateness", "most"),
    ]
    return _section(
        "Wheel tuning",
        [
            _paragraph(
                "What a timing wheel of other dimensions would have done with these deadlines. "
                "Cascades are buckets whose operations are placed again, moves those operations; "
                "lateness is what rounding up to the tick adds to an expiry. A Timer has a tick "
                "of 1 ms and 20 slots a level unless told otherwise."
            ),
            _figure(charts.wheels(report.wheels)),
            _table("Wheels", heads, [words.wheel(row) for row in report.wheels]),
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
    return _section(
        "How this was computed",
        [
            _paragraph(
                f"Quantiles are {how}. Timeouts come from the Kaplan\N{EN DASH}Meier estimate, in "
                "which an operation that expired or was cancelled counts for as long as it was "
                "watched." + (others if report.kinds > kinds else "")
            )
        ],
    )


def _kinds(report: Report) -> list[Kind]:
    return [row.kind for row in report.summaries if not row.kind.total]


def _section(title: str, parts: Iterable[str]) -> str:
    return f"<section><h2>{_text(title)}</h2>{''.join(parts)}</section>"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{_text(title)}</summary>{content}</details>"


def _paragraph(text: str) -> str:
    return f"<p>{_text(text)}</p>"


def _figure(chart: Chart) -> str:
    """A plot, and for those who do not see it what there is to see."""
    return (
        f'<figure role="img" aria-label="{_text(f"{chart.title}. {chart.alternative}")}">'
        f'<figcaption aria-hidden="true">{_text(chart.title)}</figcaption>{chart.svg}</figure>'
    )


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column names the row; wider than the window, it scrolls."""
    head = "".join(f'<th scope="col">{_text(cell)}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row">{_text(words.name(first))}</th>'
        + "".join(f"<td>{_text(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(title)}">'
        f"<table><caption>{_text(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _text(text: str) -> str:
    return html.escape(words.name(text, _LONGEST), quote=True)
