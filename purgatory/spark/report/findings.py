"""Findings: which kinds' timeouts to change, the gain, and the advice in words."""

from collections.abc import Iterator
from typing import Final

from purgatory.spark.report import formatting
from purgatory.spark.report.content import (
    Action,
    Advice,
    CurvePoint,
    Finding,
    JobsReport,
    KindSummary,
    Report,
)
from purgatory.spark.report.curves import Curve, shortest_timeout
from purgatory.spark.report.formatting import count, duration, share
from purgatory.spark.report.histograms import Histogram
from purgatory.spark.report.jobs import job_advice
from purgatory.spark.report.wheel_tuning import choose_wheel

# A shorter timeout may lose one completion in so many.
LOST_COMPLETIONS: Final = 1000
# A timeout is worth changing for a fifth less time, or a percent more completions.
_SHORTER: Final = 0.8
_MORE: Final = 0.01
# An estimate rests on so many operations that waited so long, a finding on so many completions.
MIN_OPERATIONS: Final = 100
# A kind with more timeouts sets them operation by operation.
_MAX_TIMEOUTS: Final = 10
# Completions still come if a percent of the operations completes in the timeout's last tenth.
_LAST_PART: Final = 0.9


def weight(finding: Finding) -> float:
    """Return the number of operations, times the part of wait or share that changes."""
    summary, proposed = finding.summary, finding.proposed
    if proposed is None:
        return summary.expired * _MORE
    wait_ms = summary.now.mean_wait_ms
    waiting = abs(wait_ms - proposed.mean_wait_ms) / max(1, wait_ms)
    return summary.operations * (waiting + abs(proposed.share - summary.now.share))


def has_own_timeouts(summary: KindSummary) -> bool:
    """Say whether operations of a kind have their own timeouts, as from a schedule.

    Short and long operations may then differ, against the assumption of the estimate.
    """
    return summary.distinct_timeouts > _MAX_TIMEOUTS


def find(summary: KindSummary, curve: Curve, waits: Histogram) -> Finding | None:
    """Decide about the timeouts of a kind; None leaves them."""
    if not summary.completed and summary.expired >= MIN_OPERATIONS:
        return Finding(summary, Action.CHECK_KEYS, None)
    if summary.completed < MIN_OPERATIONS or has_own_timeouts(summary):
        return None
    return _find_timeout(summary, curve, waits)


def _find_timeout(summary: KindSummary, curve: Curve, waits: Histogram) -> Finding | None:
    if longer := _longer(summary, curve):
        return Finding(summary, Action.LENGTHEN, longer)
    if shorter := _shorter(summary, curve):
        return Finding(summary, Action.SHORTEN, shorter)
    if summary.expired and _still_rising(summary, waits):
        return Finding(summary, Action.TRY_LONGER, None)
    return None


def _longer(summary: KindSummary, curve: Curve) -> CurvePoint | None:
    """Return the shortest known timeout with nearly all completions."""
    known = [point for point in curve if point.watched >= MIN_OPERATIONS]
    if not known or known[-1].share < summary.now.share + _MORE:
        return None
    gained = known[-1].share - summary.now.share
    point = shortest_timeout(known, summary.now.share + 0.9 * gained)
    return point if point is not None and point.timeout_ms > summary.timeouts_ms[1] else None


def _shorter(summary: KindSummary, curve: Curve) -> CurvePoint | None:
    """Return the shortest timeout that loses hardly a completion; None if that saves little."""
    if not summary.expired:
        return None
    point = shortest_timeout(curve, summary.now.share * (1 - 1 / LOST_COMPLETIONS))
    if point is None or point.timeout_ms > _SHORTER * summary.timeouts_ms[1]:
        return None
    return point


def _still_rising(summary: KindSummary, waits: Histogram) -> bool:
    last = _LAST_PART * summary.timeouts_ms[1]
    late = sum(row.completed for row in waits if last < row.value <= summary.timeouts_ms[1])
    return late >= _MORE * summary.operations


# A key is hot if a tenth of all operations watch it.
_HOT_SHARE = 0.1


def headlines(report: Report) -> list[str]:
    """Say what stands out: a sentence of the jobs, and of the waits."""
    found = []
    if report.jobs is not None:
        found.append(_job_headline(report.jobs))
    if report.operations:
        found.append(_wait_headline(report))
    return found


def _job_headline(jobs: JobsReport) -> str:
    kinds = job_advice.kinds_with_advice(jobs)
    if not kinds:
        return f"Jobs: nothing stands out among {count(jobs.ended)} that ended."
    verb = "needs" if len(kinds) == 1 else "need"
    of = f"{len(kinds)} of {count(jobs.kinds)} kinds" if jobs.kinds > 1 else "their kind"
    return f"Jobs: {of} {verb} a look."


def _wait_headline(report: Report) -> str:
    kinds = sum(not row.kind.total for row in report.summaries)
    if not report.findings:
        return _expiry(report)
    if kinds == 1:
        return f"{_WHAT[report.findings[0].action]} the timeout."
    changed = sum(finding.proposed is not None for finding in report.findings)
    if not changed:
        return f"Look at {len(report.findings)} of {kinds} kinds."
    return f"Change the timeouts of {changed} of {kinds} kinds."


def _expiry(report: Report) -> str:
    total, *kinds = report.summaries
    all_of_them = f"{share(total.expired / total.operations)} of {count(total.operations)}"
    said = f"{all_of_them} operations expired"
    known = [row for row in kinds if row.operations >= MIN_OPERATIONS and row.kind.name is not None]
    if len(known) < 2:
        return f"{said}."
    most, fewest = max(known, key=_expired_share), min(known, key=_expired_share)
    if _expired_share(most) == _expired_share(fewest):
        return f"{said}."
    return (
        f"{said}, from {share(_expired_share(fewest))} of {fewest.kind} to "
        f"{share(_expired_share(most))} of {most.kind}."
    )


def _expired_share(row: KindSummary) -> float:
    return row.expired / row.operations


def all_advice(report: Report) -> list[Advice]:
    """Return all advice, the most important first."""
    jobs = [] if report.jobs is None else job_advice.job_advice(report.jobs)
    if not report.operations:
        return jobs
    return [*jobs, *map(timeout_advice, report.findings), *_other_advice(report)]


_WHAT = {
    Action.SHORTEN: "Shorten",
    Action.LENGTHEN: "Lengthen",
    Action.TRY_LONGER: "Try to lengthen",
    Action.CHECK_KEYS: "Check the keys before",
}


def timeout_advice(finding: Finding) -> Advice:
    """Put a finding into words."""
    summary, point = finding.summary, finding.proposed
    shortest, now, longest = map(duration, summary.timeouts_ms)
    if shortest != longest:
        now = f"{now} ({shortest} to {longest})"
    if point is not None:
        reason = _shorten if finding.action is Action.SHORTEN else _lengthen
        what = f"{summary.kind}: {now} \N{RIGHTWARDS ARROW} {duration(point.timeout_ms)}"
        return Advice(what, reason(summary, point))
    if finding.action is Action.CHECK_KEYS:
        return Advice(
            f"{summary.kind}: nothing completes",
            f"All {count(summary.operations)} operations ended otherwise. If that is not what they "
            "are for, as of delays, see whether events with their keys come at all.",
        )
    return Advice(
        f"{summary.kind}: try more than {now}",
        f"{share(summary.expired / summary.operations)} expire, and completions still come when "
        "the timeout ends the wait. These outcomes do not show how many more would complete with "
        "a longer one: give it to a part of the operations, and report again.",
    )


def _no_timeout(report: Report) -> Advice:
    if any(map(has_own_timeouts, report.summaries[1:])):
        return Advice(
            "No timeout is proposed",
            "Operations of one kind have timeouts of their own, and one for all would not suit "
            "them.",
        )
    return Advice("Leave the timeouts as they are", "No change would gain much.")


def _shorten(summary: KindSummary, point: CurvePoint) -> str:
    lost = max(0, round(summary.operations * (summary.now.share - point.share)))
    sooner = duration(summary.timeouts_ms[1] - point.timeout_ms)
    cost = (
        "no completion is lost"
        if not lost
        else f"{count(lost)} of {count(summary.completed)} completions "
        f"{'is' if lost == 1 else 'are'} lost, fewer than one in {LOST_COMPLETIONS:,}"
    )
    return (
        f"What does not complete ({share(summary.expired / summary.operations)}) is known {sooner} "
        f"sooner. {_waits(summary, point)}; {cost}."
    )


def _lengthen(summary: KindSummary, point: CurvePoint) -> str:
    gained = round(summary.operations * (point.share - summary.now.share))
    return (
        f"About {count(gained)} more of {count(summary.operations)} operations "
        f"{'completes' if gained == 1 else 'complete'}: "
        f"{share(point.share)}, not {share(summary.now.share)}. {_waits(summary, point)}. It rests "
        f"on {count(point.watched)} operations that waited so long."
    )


def _waits(summary: KindSummary, point: CurvePoint) -> str:
    wait, now = duration(point.mean_wait_ms), duration(summary.now.mean_wait_ms)
    return f"An operation waits {wait} on average, not {now}"


def _other_advice(report: Report) -> Iterator[Advice]:
    total = report.summaries[0]
    if not report.findings:
        yield _no_timeout(report)
    if report.wheels and not report.is_server:
        choice = choose_wheel(report.wheels, total.timeouts_ms[1])
        if not choice.is_default:
            yield Advice(f"Wheel: {choice.call}", choice.why)
    hottest = next((row for row in report.hot_keys if row.kind.total), None)
    if hottest is not None and (hottest.watched or 0) >= _HOT_SHARE * (total.submitted or 0) > 0:
        part = share((hottest.watched or 0) / (total.submitted or 1))
        why = (
            "So many operations watch this one key that each of its events checks them all. See "
            "whether a narrower key would do."
        )
        yield Advice(f"Key {formatting.name(hottest.key, 40)}: {part} of all operations", why)
