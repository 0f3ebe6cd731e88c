"""The troubles of a server as sentences, for the page, `top` and the console. Any thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from purgatory.printable import counted

if TYPE_CHECKING:
    from purgatory.service.job_messages import KindOverview, Overview

#: A ready job may wait so long for a worker.
LONG_MS: Final = 300_000
# So many of a unit are shown in the next.
_LONG: Final = 120


def readiness_trouble(figures: Mapping[str, float], commit_error: str = "") -> str:
    """Return why a server is not ready, from its `stats`; empty: ready, or too old to say."""
    if figures.get("ready", 1):
        return ""
    failing, late = figures.get("failing_seconds", 0), figures.get("oldest_due_age_seconds", 0)
    if failing:
        why = f": {commit_error}" if commit_error else ""
        return f"commits have failed for {_span(failing)}{why}"
    return f"the oldest due outcome is {_span(late)} late" if late else "its disk hangs"


def _span(seconds: float) -> str:
    """Return a duration; long ones change once a minute, as each change goes to all consoles."""
    if seconds < _LONG:
        return f"{seconds:.0f} s"
    minutes = seconds // 60
    return f"{minutes:.0f} min" if minutes < _LONG else f"{minutes // 60:,.0f} h"


def cluster_troubles(figures: Mapping[str, float]) -> list[str]:
    """Name missing standbys, and a database that is not replicated."""
    found = []
    if not figures.get("standbys", 1):
        found.append("No standby: if this server ends, nothing answers")
    if not figures.get("replicated", 1):
        found.append("Not replicated: a loss of the database loses what was acknowledged")
    return found


def all_troubles(figures: Mapping[str, float], overview: Overview) -> list[str]:
    """Return all troubles, the worst first."""
    trouble = readiness_trouble(figures, overview.commit_error)
    own = [f"Not ready: {trouble}"] if trouble else []
    return [*own, *job_troubles(overview.kinds), *cluster_troubles(figures)]


def job_troubles(kinds: Iterable[KindOverview]) -> list[str]:
    """Name stuck or dead jobs, the most jobs first."""
    found = [(count, text) for kind in kinds for count, text in _of_kind(kind)]
    return [text for _, text in sorted(found, key=lambda each: -each[0])]


def by_trouble(kinds: Iterable[KindOverview]) -> list[KindOverview]:
    """Sort kinds: kinds in trouble, then by ready jobs."""

    def rank(kind: KindOverview) -> tuple[int, int]:
        return _in_trouble(kind), kind.count("ready")

    return sorted(kinds, key=rank, reverse=True)


def in_trouble(kinds: Iterable[KindOverview]) -> list[KindOverview]:
    """Return the kinds of `job_troubles`, in the same order."""
    return sorted(filter(_in_trouble, kinds), key=_in_trouble, reverse=True)


def _in_trouble(kind: KindOverview) -> int:
    return max((count for count, _ in _of_kind(kind)), default=0)


def _of_kind(kind: KindOverview) -> Sequence[tuple[int, str]]:
    ready, dead, why = kind.count("ready"), kind.count("dead"), why_stuck(kind)
    found = []
    if why:
        found.append((ready, f"{_jobs(ready, kind)} {'waits' if ready == 1 else 'wait'}{why}"))
    if dead:
        found.append((dead, f"{_jobs(dead, kind)} {'is' if dead == 1 else 'are'} dead"))
    return found


def why_stuck(kind: KindOverview) -> str:
    """Return why ready jobs wait; empty: none is ready, or workers take them soon."""
    if not kind.count("ready"):
        return ""
    if kind.paused:
        return ": the kind is paused"
    if not kind.workers:
        return ", and no worker takes this kind"
    if kind.oldest_ready_ms > LONG_MS:
        return f", the oldest for {_span(kind.oldest_ready_ms / 1000)}"
    return ""


def _jobs(count: int, kind: KindOverview) -> str:
    name = f"kind “{kind.kind}”" if kind.kind else "no kind"
    return f"{counted(count, 'job')} of {name}"
