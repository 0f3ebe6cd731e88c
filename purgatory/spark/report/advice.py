"""Advice: the sentences with which a report begins, for page and terminal.

Pure functions; any thread may call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from purgatory.spark.report import formatting
from purgatory.spark.report.findings import LOST_COMPLETIONS, Action, Finding, has_own_timeouts
from purgatory.spark.report.wheel_choice import choose_wheel

if TYPE_CHECKING:
    from purgatory.spark.report.content import Report
    from purgatory.spark.report.rows import CurvePoint

# A key is hot if a tenth of all operations watch it.
_HOT_SHARE = 0.1


class Advice(NamedTuple):
    """One thing to do, in a few words, and why."""

    what: str
    why: str


def headline(report: Report) -> str:
    """Say in one sentence what to do about timeouts."""
    kinds = sum(not row.kind.total for row in report.summaries)
    if not report.findings and any(map(has_own_timeouts, report.summaries[1:])):
        return (
            "No timeout is proposed: operations of one kind have timeouts of their own, and one "
            "for all would not suit them."
        )
    if not report.findings:
        return "Leave the timeouts as they are: no change would gain much."
    if kinds == 1:
        return f"{_WHAT[report.findings[0].action]} the timeout."
    changed = sum(finding.proposed is not None for finding in report.findings)
    if not changed:
        return f"Look at {len(report.findings)} of {kinds} kinds."
    return f"Change the timeouts of {changed} of {kinds} kinds."


def all_advice(report: Report) -> list[Advice]:
    """Return what to do, the most important first."""
    return [*timeout_advice(report.findings), *_other_advice(report)]


_WHAT = {
    Action.SHORTEN: "Shorten",
    Action.LENGTHEN: "Lengthen",
    Action.TRY_LONGER: "Try to lengthen",
    Action.CHECK_KEYS: "Check the keys before",
}


def timeout_advice(findings: Sequence[Finding]) -> Iterator[Advice]:
    """Put findings into words."""
    for finding in findings:
        yield Advice(*_in_words(finding))


def _in_words(finding: Finding) -> tuple[str, str]:
    summary = finding.summary
    now = _timeouts(summary.timeouts_ms)
    if finding.proposed is not None:
        proposed = formatting.duration(finding.proposed.timeout_ms)
        why = _shorten(finding) if finding.action is Action.SHORTEN else _lengthen(finding)
        return f"{summary.kind}: {now} \N{RIGHTWARDS ARROW} {proposed}", why
    if finding.action is Action.CHECK_KEYS:
        why = (
            f"All {formatting.count(summary.operations)} operations ended otherwise. Before "
            "another timeout, see whether events with their keys come at all."
        )
        return f"{summary.kind}: nothing completes", why
    why = (
        f"{formatting.share(summary.expired / summary.operations)} expire, and completions still "
        "come when the timeout ends the wait. How many a longer one gains, no outcome here tells: "
        "give it to a part of the operations, and report again."
    )
    return f"{summary.kind}: try more than {now}", why


def _timeouts(timeouts_ms: tuple[int, int, int]) -> str:
    shortest, median, longest = map(formatting.duration, timeouts_ms)
    return median if shortest == longest else f"{median} ({shortest} to {longest})"


def _shorten(finding: Finding) -> str:
    summary, point = finding.summary, _proposed(finding)
    lost = max(0, round(summary.operations * (summary.now.share - point.share)))
    sooner = formatting.duration(summary.timeouts_ms[1] - point.timeout_ms)
    cost = (
        "no completion is lost"
        if not lost
        else f"{formatting.count(lost)} of {formatting.count(summary.completed)} completions are "
        f"lost, fewer than one in {LOST_COMPLETIONS:,}"
    )
    return (
        f"What does not complete ({formatting.share(summary.expired / summary.operations)}) is "
        f"known {sooner} sooner. {_waits(finding)}; {cost}."
    )


def _lengthen(finding: Finding) -> str:
    summary, point = finding.summary, _proposed(finding)
    gained = round(summary.operations * (point.share - summary.now.share))
    return (
        f"About {formatting.count(gained)} more of {formatting.count(summary.operations)} "
        f"operations complete: {formatting.share(point.share)}, not "
        f"{formatting.share(summary.now.share)}. {_waits(finding)}. It rests on "
        f"{formatting.count(point.watched)} operations that waited so long."
    )


def _waits(finding: Finding) -> str:
    point, now = _proposed(finding), finding.summary.now
    return (
        f"An operation waits {formatting.duration(point.mean_wait_ms)} on average, not "
        f"{formatting.duration(now.mean_wait_ms)}"
    )


def _proposed(finding: Finding) -> CurvePoint:
    if finding.proposed is None:
        raise ValueError(f"{finding.action} proposes no timeout")
    return finding.proposed


def _other_advice(report: Report) -> Iterator[Advice]:
    total = report.summaries[0]
    if report.wheels:
        choice = choose_wheel(report.wheels, total.timeouts_ms[1])
        if not choice.is_default:
            yield Advice(f"Wheel: {choice.call}", choice.why)
    hottest = next((row for row in report.hot_keys if row.kind.total), None)
    if hottest is not None and (hottest.watched or 0) >= _HOT_SHARE * (total.submitted or 0) > 0:
        part = formatting.share((hottest.watched or 0) / (total.submitted or 1))
        why = (
            "So many operations watch this one key that each of its events checks them all. See "
            "whether a narrower key would do."
        )
        yield Advice(f"Key {formatting.name(hottest.key, 40)}: {part} of all operations", why)
