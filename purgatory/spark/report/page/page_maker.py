"""The page of a report: one HTML file, without network and script."""

from collections.abc import Sequence
from typing import Final

from purgatory.printable import counted
from purgatory.spark.report import formatting
from purgatory.spark.report.aggregates import DIGITS
from purgatory.spark.report.comparison import changes_in_words
from purgatory.spark.report.content import Action, Report
from purgatory.spark.report.curves import shortest_timeout
from purgatory.spark.report.findings import all_advice, headlines
from purgatory.spark.report.formatting import count, duration, share, utc_time
from purgatory.spark.report.page import charts
from purgatory.spark.report.page.charts import numbered_kinds
from purgatory.spark.report.page.html import (
    advice_list,
    details,
    document,
    escape,
    figure,
    paragraph,
    section,
    table,
)
from purgatory.spark.report.page.job_sections import job_cards, job_sections
from purgatory.spark.report.tables import (
    change_cells,
    data_of,
    figures,
    key_cells,
    kinds_without_timeout,
    summary_table,
    timeout_table,
    wheel_cells,
)
from purgatory.spark.report.wheel_tuning import choose_wheel
from timingwheel.lowlevel import DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE

# Most kinds with a drawing of timeouts.
_MAX_CHOICES: Final = 3
# The rest of the advice is folded.
_MAX_ADVICE: Final = 6
# Least hours of a heat map.
_MIN_HOURS: Final = 6


def make_page(report: Report, source: str, notes: Sequence[str] = ()) -> str:
    """Make the page of the journal `source`, with notes."""
    said = "".join(paragraph(note, "note") for note in notes)
    parts = [_head(report, source)]
    if report.operations or report.jobs is not None:
        parts += [_to_do(report), said]
    else:
        parts += [said, "<p>There are no outcomes in it.</p>"]
    if report.jobs is not None:
        parts += job_sections(report.jobs)
    if report.operations:
        parts += [
            _changes(report),
            _timeouts(report),
            _ends(report),
            _waits(report),
            _week(report),
            _hot_keys(report),
            _wheels(report),
            _method(report),
        ]
    return document(_title(report), parts)


def _title(report: Report) -> str:
    found = [] if report.jobs is None else [counted(report.jobs.ended, "job")]
    if report.operations:
        found.append(counted(report.operations, "wait"))
    return f"Report: {' and '.join(found) or 'nothing has ended'}"


def _head(report: Report, source: str) -> str:
    name = f"From {formatting.name(source)}"
    if report.operations or report.jobs is not None:
        name = f"{_times(report)}. {name}"
    return f"<h1>{escape(_title(report))}</h1>{paragraph(name, 'times')}"


def _times(report: Report) -> str:
    spans = [(report.first_ms, report.last_ms)] if report.operations else []
    if report.jobs is not None:
        spans.append((report.jobs.first_ms, report.jobs.last_ms))
    first_ms, last_ms = min(first for first, _ in spans), max(last for _, last in spans)
    span = last_ms - first_ms
    detail = max(1, span // 1000)
    first, last = (utc_time(ms, detail) for ms in (first_ms, last_ms))
    return f"{first} to {last} UTC, {duration(span)}"


def _to_do(report: Report) -> str:
    cards = [] if report.jobs is None else job_cards(report.jobs)
    if report.operations:
        cards += _wait_cards(report)
    shown = "".join(f"<div><dt>{label}</dt><dd>{value}</dd></div>" for value, label in cards)
    first, *others = map(paragraph, headlines(report))
    advice = all_advice(report)
    said = f"<h2>What stands out</h2>{first}{''.join(others)}{advice_list(advice[:_MAX_ADVICE])}"
    if len(advice) > _MAX_ADVICE:
        more = f"{len(advice) - _MAX_ADVICE} more"
        said += details(more, advice_list(advice[_MAX_ADVICE:], "ul"))
    return f'<section class="todo">{said}</section><dl class="cards">{shown}</dl>'


def _wait_cards(report: Report) -> list[tuple[str, str]]:
    total = report.summaries[0]
    half = shortest_timeout(report.curves[total.kind], 0.5)
    return [
        (count(total.operations), "operations"),
        (share(total.completed / total.operations), "completed"),
        (share(total.expired / total.operations), "expired"),
        (duration(half and half.timeout_ms), "half complete within"),
        (duration(total.now.mean_wait_ms), "average wait with the timeouts now"),
    ]


def _changes(report: Report) -> str:
    if not report.changes:
        return ""
    said = changes_in_words(list(report.changes))
    heads = ["kind", *("operations", "completed", "half within", "99 % within")]
    # With one kind, the total says the same.
    several = len(report.changes) > 2
    rows = [change_cells(row) for row in report.changes if several or not row.kind.total]
    title = "Earlier \N{RIGHTWARDS ARROW} now"
    return section(
        "What changed",
        [
            advice_list(said, "ul")
            if said
            else paragraph("Nothing that is more than chance, and large enough to matter."),
            table(title, heads, rows, data_of(report, "changes")),
        ],
    )


def _timeouts(report: Report) -> str:
    kinds = numbered_kinds(report)
    findings = [row for row in report.findings if row.action is not Action.CHECK_KEYS]
    chosen = [finding.summary.kind for finding in findings][:_MAX_CHOICES]
    # Without a finding, the total.
    parts = [
        paragraph(
            "How many operations would still wait after a time, were there no timeout, and the "
            "shortest timeouts for some shares of completions. The cost of a timeout is the "
            "average wait until an operation completes or expires: with longer timeouts more "
            "operations complete, and the others are pending for longer."
        ),
        *(figure(charts.timeout_choice(report, kind)) for kind in chosen or [next(iter(kinds))]),
    ]
    if len(kinds) > 1:
        parts.append(figure(charts.survival(report)))
    title = "Shortest timeout for a share of completions, and the average wait with it"
    parts.append(table(title, *timeout_table(report, kinds), data_of(report, "timeouts")))
    parts.append(
        paragraph(
            "A dash: no operation had a timeout long enough, as for a share that has no column. "
            "In brackets: how many operations waited that long, if they are fewer than a hundred; "
            "a timeout that rests on a handful of them is a guess.",
            "small",
        )
    )
    if without := kinds_without_timeout(report, kinds):
        named = ", ".join(map(str, without))
        parts.append(paragraph(f"Without a row, as no share is reached: {named}.", "small"))
    return section("Timeouts", parts)


def _ends(report: Report) -> str:
    kinds = numbered_kinds(report)
    heads, cells = summary_table(row for row in report.summaries if row.kind in kinds)
    parts = [figure(charts.ends_over_time(report))]
    if len(kinds) > 1:
        parts.insert(0, figure(charts.outcome_shares(report)))
        parts.append(figure(charts.completions_of_kinds(report)))
    parts.append(
        table("By kind; waits are those of the completed", heads, cells, data_of(report, "kinds"))
    )
    return section("How operations ended", parts)


def _waits(report: Report) -> str:
    parts = []
    if any(row.completed for row in report.summaries):
        title = "Waits of the operations that completed"
        parts.append(figure(charts.quantiles(report, title, lambda row: row.completed_waited_ms)))
    if any(any(row.lateness_ms) for row in report.summaries):
        title = "Lateness: handled minus due"
        parts.append(figure(charts.quantiles(report, title, lambda row: row.lateness_ms)))
    else:
        parts.append(paragraph("Nothing was handled late."))
    return section("Waits and lateness", parts)


def _week(report: Report) -> str:
    if len(report.week) < _MIN_HOURS:
        return ""
    title, week = "Operations submitted, by hour of the week (UTC)", figures(report)["week"]
    shown = [charts.draw_week(title, week, lambda row: row.operations, count, "operation")]
    if any(row.expired for row in report.week):
        title = "Share that expired, by hour of the week of the submission (UTC)"
        shown.append(
            charts.draw_week(
                title, week, lambda row: row.expired / row.operations, share, "operation"
            )
        )
    return section("Hours of the week", map(figure, shown))


def _hot_keys(report: Report) -> str:
    total = [row for row in report.hot_keys if row.kind.total]
    if not total:
        return section("Hot keys", [paragraph("No key was used more than once.")])
    parts = [figure(charts.hot_keys(report, total))]
    kinds = [kind for kind in numbered_kinds(report) if not kind.total]
    if len(kinds) > 1:
        rows = [
            [str(kind), *key_cells(row)]
            for kind in kinds
            for row in report.hot_keys
            if row.kind == kind
        ]
        title = "Hottest keys by kind"
        heads = ["kind", "key", "operations that watch it", "completed by it"]
        parts.append(details(title, table(title, heads, rows)))
    return section("Hot keys", parts)


def _wheels(report: Report) -> str:
    if not report.wheels or report.is_server:
        return ""
    choice = choose_wheel(report.wheels, report.summaries[0].timeouts_ms[1])
    heads = [
        *(
            "tick \N{MULTIPLICATION SIGN} size",
            "levels",
            "buckets occupied",
            "cascades an operation",
        ),
        *("moves an operation", "wake-ups a second", "average lateness", "most"),
    ]
    rows = [wheel_cells(row, chosen=row == choice.row) for row in report.wheels]
    return section(
        "Timing wheel",
        [
            f"<p><strong>{escape(choice.call)}</strong>: {escape(choice.why)}</p>",
            paragraph(
                "The same deadlines on other wheels. A coarser tick wakes the "
                "thread less often and expires operations later; a larger wheel moves operations "
                "less and takes more memory. Cascades: buckets whose operations are placed again; "
                "moves: these operations; lateness: the delay of an expiry by rounding up to the "
                "tick. The journal counts whole milliseconds, so for ticks below one the table "
                "shows neither lateness nor all wake-ups. "
                "Recommended: the wheel with the fewest wake-ups among the wheels that are late "
                "by at most a percent of the median timeout; the default "
                f"({DEFAULT_TICK_MS} ms, {DEFAULT_WHEEL_SIZE} slots) unless a fifth is saved."
            ),
            figure(charts.wheels(report, choice.row)),
            table("Wheels", heads, rows, data_of(report, "wheels")),
        ],
    )


def _method(report: Report) -> str:
    how = (
        "exact (nearest rank)"
        if report.exact
        else f"of values rounded up to {DIGITS} digits, and so at most 0.1 % too large"
    )
    kinds = sum(not row.kind.total for row in report.summaries)
    others = f" The {kinds - 1} largest of {report.kinds:,} kinds have rows of their own."
    return section(
        "How this was computed",
        [
            paragraph(
                f"Quantiles are {how}. What timeouts achieve comes from the Kaplan\N{EN DASH}Meier "
                "estimate, in which an operation that expired, failed or was cancelled counts for "
                "as long as it was watched. Average waits are restricted means, the area below "
                "that curve up to the timeout: a plain average would take the length of a timeout "
                "for the time that an operation needs." + (others if report.kinds > kinds else "")
            )
        ],
    )
