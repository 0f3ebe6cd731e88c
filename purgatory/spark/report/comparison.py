"""Compares a report with that of an earlier period."""

from math import sqrt
from typing import Final

from purgatory.printable import counted
from purgatory.spark.report import formatting
from purgatory.spark.report.content import Advice, Change, Kind, KindSummary, Report
from purgatory.spark.report.curves import shortest_timeout
from purgatory.spark.report.findings import MIN_OPERATIONS

# A share has changed by a percent, and by more than three standard errors. A wait has changed if a
# quarter longer or shorter.
_SHARE: Final = 0.01
_STANDARD_ERRORS: Final = 3
_WAIT: Final = 1.25


def compare_reports(report: Report, earlier: Report) -> list[Change]:
    """Pair the kinds of two reports, in the order of `report`."""
    now = {row.kind: row for row in report.summaries}
    before = {row.kind: row for row in earlier.summaries}
    return [
        Change(kind, now.get(kind), before.get(kind), _waits(report, kind), _waits(earlier, kind))
        for kind in {**now, **before}
    ]


def _waits(report: Report, kind: Kind) -> tuple[int | None, int | None]:
    curve = report.curves.get(kind, ())
    half, nearly_all = (shortest_timeout(curve, share) for share in (0.5, 0.99))
    return half and half.timeout_ms, nearly_all and nearly_all.timeout_ms


def changes_in_words(changes: list[Change]) -> list[Advice]:
    """Name the changes that are more than chance, and new and lost kinds."""
    kinds = [change for change in changes if not change.kind.total]
    others = next((change for change in kinds if change.kind.name is None), None)
    # With one kind, the total says the same.
    return [
        advice
        for change in (kinds or changes)
        if not _may_be_of_others(change, others) and (advice := _in_words(change)) is not None
    ]


def _may_be_of_others(change: Change, others: Change | None) -> bool:
    """Whether a kind without a row in a period may be one of its small kinds."""
    if others is None:
        return False
    if change is others:
        return None in (change.now, change.earlier)
    return bool((change.now is None and others.now) or (change.earlier is None and others.earlier))


def _in_words(change: Change) -> Advice | None:
    if change.now is None or change.earlier is None:
        came = "is new" if change.earlier is None else "is gone"
        only = change.now or change.earlier
        count = counted(only.operations if only else 0, "operation")
        return Advice(f"{change.kind} {came}", f"{count}.")
    found = [
        said for said in (_expired(change.now, change.earlier), _wait(change)) if said is not None
    ]
    if not found:
        return None
    whats, whys = zip(*found, strict=True)
    return Advice(f"{change.kind}: {', '.join(whats)}", " ".join(whys))


def _expired(now: KindSummary, before: KindSummary) -> tuple[str, str] | None:
    if not _differ(now.expired, now.operations, before.expired, before.operations):
        return None
    share, share_before = (row.expired / row.operations for row in (now, before))
    why = f"{formatting.share(share)} expire, earlier {formatting.share(share_before)}."
    return "more expire" if share > share_before else "fewer expire", why


def _wait(change: Change) -> tuple[str, str] | None:
    half, half_before = change.waits_ms[0], change.earlier_waits_ms[0]
    enough = min(row.completed if row else 0 for row in (change.now, change.earlier))
    if enough < MIN_OPERATIONS or half is None or half_before is None:
        return None
    if max(half, half_before) <= _WAIT * min(half, half_before):
        return None
    durations = formatting.duration(half), formatting.duration(half_before)
    why = f"Half complete within {durations[0]}, earlier {durations[1]}."
    return "slower" if half > half_before else "faster", why


def _differ(count: int, of: int, count_before: int, of_before: int) -> bool:
    difference = abs(count / of - count_before / of_before)
    together = (count + count_before) / (of + of_before)
    error = sqrt(together * (1 - together) * (1 / of + 1 / of_before))
    return difference >= _SHARE and difference > _STANDARD_ERRORS * error
