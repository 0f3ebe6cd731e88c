"""AsyncLeaseHandle: a named lease in a coroutine. Its event loop's thread."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, Self

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.leases.lease_calls import LeaseCalls
from purgatory.service.client.leases.lease_owner import LeaseOwner, LeaseTerms
from purgatory.service.errors import ServiceError

#: Like `lease_handle.Wait`, awaitable.
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
        calls = self._calls
        deadline = self._terms.deadline(calls.now())
        while True:
            asked_at = calls.now()
            token: int | None = None
            with self._before(deadline):
                token = await self._wait(*self._take(holder, asked_at, deadline))
            if token is not None and self._lasts(asked_at):
                break
            seconds = self._seconds_to_wait(deadline)
            if token is None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(seconds):
                        await woken.wait()
                woken.clear()
        self.lost = asyncio.Event()
        self._keep(token, holder, asked_at, _setter(self.lost))

    async def __aexit__(self, *error: object) -> None:
        with contextlib.suppress(ServiceError):  # the lease ends by time
            if (answer := self._end()) is not None:
                await self._wait(*answer)


def _setter(event: asyncio.Event) -> Callable[[], None]:
    loop = asyncio.get_running_loop()

    def set_it() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(event.set)

    return set_it
