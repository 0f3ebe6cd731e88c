"""JobTaker: takes leases of jobs for equal requests, over a connection to the server.

The leases are detached: they outlast the connection, and each gateway can keep and end them. Used
by the gateway's event loop.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final, NamedTuple

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.client.worker_link import Asks, WorkerLink
from purgatory.service.gateway.problems import ApiError
from purgatory.service.protocol import MAX_ROOM, How, LeasedJob, LeaseEnd


class Ask(NamedTuple):
    """Equal asks share a `JobTaker`."""

    kinds: tuple[str, ...]
    max_attempts: int
    lease_ms: int


class _Waiting:
    """A request waiting for up to `limit` jobs."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.jobs: list[LeasedJob] = []
        self.is_over = asyncio.Event()

    @property
    def wanted(self) -> int:
        return 0 if self.is_over.is_set() else self.limit

    def give(self, jobs: list[LeasedJob]) -> list[LeasedJob]:
        room = self.limit - len(self.jobs)
        self.jobs += jobs[:room]
        if self.jobs:
            self.is_over.set()
        return jobs[room:]


class JobTaker:
    """Takes jobs over its own connection `client`."""

    def __init__(self, client: AsyncClient, ask: Ask) -> None:
        self._client = client
        self._kinds = dict.fromkeys(ask.kinds, ask.max_attempts)
        self._lease_ms = ask.lease_ms
        self._loop = asyncio.get_running_loop()
        self._waiting: list[_Waiting] = []  # the oldest first
        self._has_ended = False

    @property
    def has_failed(self) -> bool:
        """Whether its connection takes no more requests."""
        return self._client.refusal is not None

    @property
    def is_idle(self) -> bool:
        """Whether no request waits."""
        return not self._waiting

    async def take(
        self, limit: int, seconds: float, gone: Coroutine[Any, Any, None]
    ) -> list[LeasedJob]:
        """Return up to `limit` jobs: the due jobs, or the first jobs within `seconds`.

        `gone` returns when the program has hung up: then no job is taken. Raises Refused and
        RequestTimeout.
        """
        waiting = _Waiting(limit)
        self._waiting.append(waiting)
        try:
            has_hung_up = await self._wait(waiting, seconds, gone)
        except BaseException:
            self._leave(waiting)
            self.give_back(waiting.jobs)
            raise
        self._leave(waiting)
        if has_hung_up:
            self.give_back(waiting.jobs)
            return []
        return waiting.jobs

    async def _wait(
        self, waiting: _Waiting, seconds: float, gone: Coroutine[Any, Any, None]
    ) -> bool:
        hanging_up = asyncio.ensure_future(gone)
        hanging_up.add_done_callback(lambda _: waiting.is_over.set())
        try:
            await self._ask()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if self._has_ended else seconds):
                    await waiting.is_over.wait()
            if not waiting.jobs:
                waiting.is_over.set()
                await self._ask()  # jobs on their way come before the answer
            return hanging_up.done()
        finally:
            hanging_up.cancel()

    def _leave(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        waiting.is_over.set()
        self._send_ask()

    async def _ask(self) -> None:
        await self._client.result_of(self._send_ask())

    def _send_ask(self) -> Any:
        room = min(MAX_ROOM, sum(each.wanted for each in self._waiting))
        asks: Asks = self._kinds, room, self._lease_ms, True, {}, False
        link = WorkerLink(asks, self._on_jobs, lambda: None)
        return self._client.calls.job_calls.ask(link)

    def _on_jobs(self, jobs: list[LeasedJob]) -> None:
        """For the client's I/O thread."""
        with contextlib.suppress(RuntimeError):  # a closed loop: the leases end by themselves
            self._loop.call_soon_threadsafe(self._receive, jobs)

    def _receive(self, jobs: list[LeasedJob]) -> None:
        for waiting in self._waiting:
            jobs = waiting.give(jobs)
        self.give_back(jobs)

    def give_back(self, jobs: list[LeasedJob]) -> None:
        """Return jobs to the server without an attempt."""
        for job in reversed(jobs):  # the server puts each before its waiting jobs
            self._client.calls.job_calls.finish(LeaseEnd(job.number, job.token, How.RETURNED))

    def end(self) -> None:
        """End the waits of requests."""
        self._has_ended = True
        for waiting in self._waiting:
            waiting.is_over.set()

    async def close(self) -> None:
        """End the connection; leases last."""
        await self._client.close()


#: Most different `Ask`s of a client name.
MAX_TAKERS: Final = 16


class JobTakers:
    """A `JobTaker` for each `Ask`; `connect` makes its connection."""

    def __init__(self, connect: Callable[[], AsyncClient]) -> None:
        self._connect = connect
        self._takers: dict[Ask, JobTaker] = {}  # the last used is the last
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, ask: Ask) -> JobTaker:
        """Return the taker for an `Ask`. Raises ApiError."""
        taker = self._takers.pop(ask, None)
        if taker is not None and taker.has_failed:
            self._end(taker)
            taker = None
        if taker is None:
            self._make_room()
            taker = JobTaker(self._connect(), ask)
        self._takers[ask] = taker
        return taker

    def _make_room(self) -> None:
        if len(self._takers) < MAX_TAKERS:
            return
        idle = next((ask for ask, taker in self._takers.items() if taker.is_idle), None)
        if idle is None:
            raise ApiError(
                429,
                "too-many-workers",
                f"requests wait for {len(self._takers)} different sets of kinds, attempts and "
                f"leases; expected at most {MAX_TAKERS}",
            )
        self._end(self._takers.pop(idle))

    def _end(self, taker: JobTaker) -> None:
        task = asyncio.ensure_future(taker.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end(self) -> None:
        """End the waits of requests."""
        for taker in self._takers.values():
            taker.end()

    async def close(self) -> None:
        """Close all connections."""
        closing = [taker.close() for taker in self._takers.values()]
        self._takers.clear()
        await asyncio.gather(*closing, *self._closing)
