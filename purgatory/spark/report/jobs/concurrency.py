"""How many jobs ran at once, and the effect of a limit.

Intervals are the last attempts of jobs, in order. A journal lacks earlier attempts, so more may
have run.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from math import ceil
from typing import Final

from purgatory.spark.report.content import Kind, LimitEffect

Interval = tuple[int, int]

# Limits to try: so many, the largest below the peak.
_ROUND: Final = tuple(n * 10**power for power in range(5) for n in (1, 2, 5))
_TRIED: Final = 3
_P99: Final = 0.99


def peak_of(intervals: Iterable[Interval]) -> int:
    """Return how many intervals overlap; touching intervals do not."""
    running: list[int] = []
    peak = 0
    for began, ended in intervals:
        while running and running[0] <= began:
            heappop(running)
        heappush(running, max(began, ended))
        peak = max(peak, len(running))
    return peak


def limits_to_try(peak: int) -> list[int]:
    """Return round limits below a peak, ascending."""
    return [limit for limit in _ROUND if limit < peak][-_TRIED:]


def effect_of_limit(kind: Kind, intervals: Sequence[Interval], running: int) -> LimitEffect:
    """Estimate the effect of a limit if jobs begin in the same order and take as long.

    `held`: the share of the jobs that begin later. `p99_ms`, `most_ms`: by how much later, for 99
    percent of all jobs, and for all.
    """
    ends: list[int] = []
    delays = []
    for began, ended in intervals:
        while ends and ends[0] <= began:
            heappop(ends)
        start = began if len(ends) < running else heappop(ends)
        heappush(ends, start + max(0, ended - began))
        delays.append(start - began)
    delays.sort()
    held = sum(delay > 0 for delay in delays) / len(delays)
    return LimitEffect(kind, running, held, delays[ceil(_P99 * len(delays)) - 1], delays[-1])
