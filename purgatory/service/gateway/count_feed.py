"""CountFeed: the counts of jobs, for streams.

All streams of a client's name share each reading. Used by the gateway's event loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from time import monotonic
from typing import Final

import msgspec

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.errors import RequestAbandoned, RequestTimeout, TooManyReads
from purgatory.service.gateway.messages import JobCountReport, KindCount
from purgatory.service.job_messages import JOB_STATES, MOST_KINDS, OTHER, Overview
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

        While no server answers, the last counts with this trouble alone are the changed ones.
        Raises TooManyReads and Refused. Ends with the feed. The caller closes the generator.
        """
        if self._streams >= MOST_STREAMS:
            raise TooManyReads(f"{MOST_STREAMS} streams of counts are open; expected fewer")
        self._streams += 1
        last: JobCountReport | None = None
        try:
            while not self._closed.is_set():
                found, pause_s = await self._next(sees_all=sees_all)
                counts = _unanswered(last, found) if isinstance(found, str) else found
                yield None if counts == last else counts
                last = counts
                await self._wait(pause_s)
        finally:
            self._streams -= 1

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    async def _next(self, *, sees_all: bool) -> tuple[JobCountReport | str, float]:
        reading = self._readings.get(sees_all)
        if reading is None or reading.is_over():
            name = None if sees_all else self._name
            reading = self._readings[sees_all] = _Reading(self._client, name)
        return await reading.result()

    def close(self) -> None:
        """End all streams."""
        self._closed.set()


def _unanswered(last: JobCountReport | None, why: str) -> JobCountReport | None:
    return last and msgspec.structs.replace(last, troubles=[f"Not ready: {why}"])


class _Reading:
    def __init__(self, client: AsyncClient, name: str | None) -> None:
        self._begun = monotonic()
        self._pause_s = PERIOD_S
        self._task = asyncio.ensure_future(self._count(client, name))

    async def _count(self, client: AsyncClient, name: str | None) -> JobCountReport | str:
        """Return the counts, or why no server answers."""
        try:
            figures = await client.stats()
            self._begun = monotonic()  # a wait for a server is no time of the server
            overview = await client.overview(client=name)
        except (RequestTimeout, RequestAbandoned) as error:
            self._begun = monotonic()
            return str(error)
        self._pause_s = max(PERIOD_S, _SHARE * (monotonic() - self._begun))
        return _report(overview, figures)

    def is_over(self) -> bool:
        return self._task.done() and monotonic() >= self._begun + self._pause_s

    async def result(self) -> tuple[JobCountReport | str, float]:
        found = await asyncio.shield(self._task)
        return found, max(0.0, self._begun + self._pause_s - monotonic())


async def read_overview(client: AsyncClient, name: str | None) -> JobCountReport:
    """Count the jobs and operations of the client `name`; None: of all."""
    return _report(*await asyncio.gather(client.overview(client=name), client.stats()))


def _report(overview: Overview, figures: Mapping[str, float]) -> JobCountReport:
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
