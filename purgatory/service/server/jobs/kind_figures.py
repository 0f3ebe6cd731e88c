"""The figures of jobs by kind, for metrics and the page. Any thread may read them.

The store thread runs meanwhile: each step here reads a value or copies a dict.
"""

from collections.abc import Iterable
from heapq import nlargest
from typing import Final

from purgatory.service.job_messages import KindOverview
from purgatory.service.server.leases.job_group import JobGroup
from purgatory.service.server.state import ServerState

#: Kinds with their own figures: those with most jobs. The rest is OTHER.
MOST_KINDS: Final = 100
OTHER: Final = "other"


def kind_figures(
    state: ServerState,
    now_ms: int,
    counted: dict[str, list[int]] | None = None,
    client: str | None = None,
) -> list[KindOverview]:
    """Return the figures of the busiest kinds, and of all others together.

    `counted`: jobs by kind and state; None: all jobs.
    `client`: ages and workers of that client.
    """
    counted = state.jobs.counts if counted is None else counted
    counts = {kind: tuple(some) for kind, some in list(counted.items())}
    groups = state.leases.groups(client)
    limits = state.leases.limits
    since_ms, workers = _oldest_ready(groups), _workers(groups)
    found = [
        KindOverview(
            kind,
            some,
            max(0, now_ms - since_ms.get(kind, now_ms)),
            workers.get(kind, 0),
            bool(limits.find(kind).paused),
        )
        for kind, some in counts.items()
    ]
    if len(found) <= MOST_KINDS:
        return found
    busiest = nlargest(MOST_KINDS, found, key=lambda each: sum(each.counts))
    named = {each.kind for each in busiest}
    return [*busiest, _together(each for each in found if each.kind not in named)]


def in_few_kinds(counts: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the counts by state of the busiest kinds, and of OTHER."""
    if len(counts) <= MOST_KINDS:
        return counts
    busiest = nlargest(MOST_KINDS, counts, key=lambda kind: sum(counts[kind]))
    found = {kind: counts[kind] for kind in busiest}
    others = [some for kind, some in counts.items() if kind not in found or kind == OTHER]
    return {**found, OTHER: [sum(column) for column in zip(*others, strict=True)]}


def _together(kinds: Iterable[KindOverview]) -> KindOverview:
    all_counts, oldest_ms, workers = [], 0, 0
    for each in kinds:
        all_counts.append(each.counts)
        oldest_ms = max(oldest_ms, each.oldest_ready_ms)
        workers += each.workers
    return KindOverview(OTHER, tuple(map(sum, zip(*all_counts, strict=True))), oldest_ms, workers)


def _oldest_ready(groups: list[JobGroup]) -> dict[str, int]:
    found: dict[str, int] = {}
    for group in groups:
        for kind, ready in list(group.ready.items()):
            oldest_ms = ready.oldest_ms()
            if oldest_ms is not None:
                found[kind] = min(oldest_ms, found.get(kind, oldest_ms))
    return found


def _workers(groups: list[JobGroup]) -> dict[str, int]:
    found: dict[str, int] = {}
    for group in groups:
        for worker in list(group.workers.values()):
            for kind in list(worker.kinds):
                found[kind] = found.get(kind, 0) + 1
    return found
