"""AsyncLeaseHandle: a named lease in a coroutine. For its event loop only."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.leases.lease_calls import LeaseCalls
from purgatory.service.client.leases.lease_handle import LeaseOwner, LeaseTerms
from purgatory.service.errors import RequestTimeout, ServiceError

#: Awaits the answer to a call, for so many seconds at most, and no longer than the client does.
Await = Callable[[ReplyFuture[Any], float], Awaitable[Any]]


class AsyncLeaseHandle(LeaseOwner):
    """Like `LeaseHandle`, for `async with`; `lost` is an `asyncio.Event`."""

    def __init__(self, calls: LeaseCalls, wait: Await, terms: LeaseTerms) -> None:
        super().__init__(calls, terms)
        self._wait = wait
        self.lost: asyncio.Event = asyncio.Event()

    async def __aenter__(self) -> Self:
        woken = asyncio.Event()
        with self._in_queue(_setter(woken)) as holder:
            await self._acquire(holder, woken)
        return self

    async def _acquire(self, holder: str, woken: asyncio.Event) -> None:
        calls, terms = self._calls, self._terms
        deadline = terms.deadline(calls.now())
        while True:
            asked_at = calls.now()
            token = await self._ask(holder, terms.wait_ms(deadline, asked_at), deadline)
            if token is not None:
                break
            seconds = self._seconds_to_wait(deadline)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await woken.wait()
            woken.clear()
        self.lost = asyncio.Event()
        self._keep(token, holder, asked_at, _setter(self.lost))

    async def _ask(self, holder: str, wait_ms: int, deadline: float) -> int | None:
        """Ask for the lease; None: another holder has it, or no answer came."""
        try:
            take = self._calls.take(self.name, holder, self._terms.keep_ms, wait_ms)
            token: int | None = await self._wait(take, max(1.0, deadline - self._calls.now()))
        except RequestTimeout:
            if self._calls.now() < deadline:
                return None
            raise
        return token

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        kept, self._kept = self._kept, None
        if kept is not None and self._calls.keeper.remove(kept):
            with contextlib.suppress(ServiceError):  # the lease ends by time
                await self._wait(self._calls.end(kept.name, kept.holder), kept.keep_ms / 1000)

    def __repr__(self) -> str:
        return self._described(lost=self.lost.is_set())


def _setter(event: asyncio.Event) -> Callable[[], None]:
    """Return what sets an event of the running loop, from any thread."""
    loop = asyncio.get_running_loop()

    def set_it() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(event.set)

    return set_it
