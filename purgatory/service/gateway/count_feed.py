"""CountFeed: the counts of jobs, for streams.

All streams of a client's name share each reading. Used by the gateway's event loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from time import monotonic
from typing import Final

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.errors import RequestAbandoned, RequestTimeout, TooManyReads
from purgatory.service.gateway.messages import JobCountReport, KindCount
from purgatory.service.job_messages import JOB_STATES, MOST_KINDS, OTHER
from purgatory.service.troubles import all_troubles, in_trouble, why_stuck

#: Least seconds between two readings.
PERIOD_S: Final = 1.0
#: Most streams of a client's name.
MOST_STREAMS: Final = 50
# The period is at least so many readings long.
_SHARE: Final = 10


class CountFeed:
    """Counts the jobs that tokens of the client `name` see."""

    def __init__(self, client: AsyncClient, name: str) -> None:
        self._client = client
        self._name = name
        self._readings: dict[bool, _Reading] = {}
        self._streams = 0
        self._closed = asyncio.Event()

    async def read(self, *, sees_all: bool) -> AsyncGenerator[JobCountReport | None]:
        """Yield the counts, then for each reading the changed counts or None.

        Raises TooManyReads and Refused. Ends with the feed. The caller closes the generator.
        """
        if self._streams >= MOST_STREAMS:
            raise TooManyReads(f"{MOST_STREAMS} streams of counts are open; expected fewer")
        self._streams += 1
        last: JobCountReport | None = None
        try:
            while not self._closed.is_set():
                counts, pause_s = await self._next(sees_all=sees_all)
                yield None if counts in (None, last) else counts
                last = counts or last
                await self._wait(pause_s)
        finally:
            self._streams -= 1

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def _next(self, *, sees_all: bool) -> tuple[JobCountReport | None, float]:
        reading = self._readings.get(sees_all)
        if reading is None or reading.is_over():
            reading = self._readings[sees_all] = _Reading(self._count(sees_all=sees_all))
        return await reading.result()

    async def _count(self, *, sees_all: bool) -> JobCountReport | None:
        client = None if sees_all else self._name
        with contextlib.suppress(RequestTimeout, RequestAbandoned):
            return await read_overview(self._client, client)
        return None

    def close(self) -> None:
        """End all streams."""
        self._closed.set()


class _Reading:
    def __init__(self, counting: Coroutine[object, object, JobCountReport | None]) -> None:
        self._begun = monotonic()
        self._pause_s = PERIOD_S
        self._task = asyncio.ensure_future(counting)
        self._task.add_done_callback(self._end)

    def _end(self, _: object) -> None:
        self._pause_s = max(PERIOD_S, _SHARE * (monotonic() - self._begun))

    def is_over(self) -> bool:
        return self._task.done() and monotonic() >= self._begun + self._pause_s

    async def result(self) -> tuple[JobCountReport | None, float]:
        counts = await asyncio.shield(self._task)
        return counts, max(0.0, self._begun + self._pause_s - monotonic())


async def read_overview(client: AsyncClient, name: str | None) -> JobCountReport:
    """Count the jobs and operations of the client `name`; None: of all."""
    overview, figures = await asyncio.gather(client.overview(client=name), client.stats())
    counts = {
        (kind.kind, state): count
        for kind in overview.kinds
        for state, count in zip(JOB_STATES, kind.counts, strict=True)
        if count
    }
    found = counts_of(counts)
    found.operations, found.troubles = overview.operations, all_troubles(figures, overview)
    place = {each.kind: at for at, each in enumerate(in_trouble(overview.kinds))}
    found.kinds.sort(key=lambda each: place.get(each.kind, len(place)))
    stuck = {each.kind for each in overview.kinds if why_stuck(each)}
    for each in found.kinds:
        each.is_stuck = each.kind in stuck
    return found


def counts_of(counts: dict[tuple[str, str], int]) -> JobCountReport:
    """Return counts as a report."""
    states: dict[str, int] = {}
    kinds: dict[str, dict[str, int]] = {}
    for (kind, state), count in counts.items():
        states[state] = states.get(state, 0) + count
        kinds.setdefault(kind, {})[state] = count
    others = kinds.pop(OTHER, {}) if len(kinds) > MOST_KINDS else {}
    ranked = sorted(kinds.items(), key=lambda item: (-sum(item[1].values()), item[0]))
    return JobCountReport(states, [KindCount(*item) for item in ranked], others)
