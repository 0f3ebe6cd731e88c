"""The figures of jobs by kind, for metrics and the page.

Any thread, while the store thread runs: each step here reads a value or copies a dict.
"""

from collections import Counter
from heapq import nlargest

from purgatory.service.job_messages import MOST_KINDS, OTHER, KindOverview
from purgatory.service.server.leases.job_group import JobGroup
from purgatory.service.server.state import ServerState


def kind_figures(
    state: ServerState,
    now_ms: int,
    counted: dict[str, list[int]] | None = None,
    client: str | None = None,
) -> list[KindOverview]:
    """Return the figures of the busiest kinds, and of OTHER.

    `counted`: jobs by kind and state; None: all. `client`: ages and workers of this client.
    """
    counted = state.jobs.counts if counted is None else counted
    counts = {kind: list(some) for kind, some in list(counted.items())}
    few = in_few_kinds(counts)
    shown = {kind: kind if kind in few else OTHER for kind in counts}
    groups = state.leases.groups(client)
    limits = state.leases.limits
    since_ms, workers = _oldest_ready(groups, shown), _workers(groups, shown)
    return [
        KindOverview(
            kind,
            tuple(some),
            max(0, now_ms - since_ms.get(kind, now_ms)),
            workers[kind],
            bool(limits.find(kind).paused),
        )
        for kind, some in few.items()
    ]


def in_few_kinds(counts: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the counts by state of the busiest kinds, and of OTHER."""
    if len(counts) <= MOST_KINDS:
        return counts
    busiest = nlargest(MOST_KINDS, counts, key=lambda kind: sum(counts[kind]))
    found = {kind: counts[kind] for kind in busiest}
    others = [some for kind, some in counts.items() if kind not in found or kind == OTHER]
    return {**found, OTHER: [sum(column) for column in zip(*others, strict=True)]}


def _oldest_ready(groups: list[JobGroup], shown: dict[str, str]) -> dict[str | None, int]:
    found: dict[str | None, int] = {}
    for group in groups:
        for kind, ready in list(group.ready.items()):
            oldest_ms = ready.oldest_ms()
            if oldest_ms is not None:
                name = shown.get(kind)
                found[name] = min(oldest_ms, found.get(name, oldest_ms))
    return found


def _workers(groups: list[JobGroup], shown: dict[str, str]) -> Counter[str | None]:
    """Count the workers of each kind; while jobs wait, only workers for the jobs.

    If jobs of several client names wait, the name with the fewest workers counts.
    """
    found: Counter[str | None] = Counter()
    fewest: dict[str | None, int] = {}
    for group in groups:
        workers = [worker for worker in list(group.workers.values()) if worker.is_at_work]
        here = Counter(kind for worker in workers for kind in list(worker.kinds))
        for kind, count in here.items():
            found[shown.get(kind)] += count
        for kind in list(group.ready):
            name = shown.get(kind)
            fewest[name] = min(here[kind], fewest.get(name, here[kind]))
    return Counter({**found, **fewest})
