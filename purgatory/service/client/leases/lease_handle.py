"""LeaseHandle, AsyncLeaseHandle: a named lease in a program, as a context manager.

A `LeaseHandle` is for any thread; an `AsyncLeaseHandle` is for its event loop only.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, Self

from purgatory.service.client.arguments import Duration, checked_filled, duration_ms
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.leases.lease_calls import ASK_AGAIN_S, WAIT_MS, LeaseCalls
from purgatory.service.client.leases.lease_keeper import KeptLease, end_of_lease
from purgatory.service.errors import LeaseTimeout, RequestTimeout, ServiceError

#: Waits for an answer, at most so many seconds and the client's timeout.
Wait = Callable[[ReplyFuture[Any], float], Any]
_MIN_KEEP_MS: Final = 100


class LeaseTerms:
    """The name of a lease, its time, and the program's patience.

    Raises TypeError and ValueError.
    """

    def __init__(self, name: str, keep: Duration, timeout: Duration | None) -> None:
        self.name: str = checked_filled(name, "name")
        self.keep_ms: int = duration_ms(keep, "keep")
        if self.keep_ms < _MIN_KEEP_MS:
            raise ValueError(f"keep is {keep!r}; expected at least {_MIN_KEEP_MS / 1000} s")
        #: Seconds; None: for ever.
        self.timeout_s: float | None = None
        if timeout is not None:
            self.timeout_s = duration_ms(timeout, "timeout") / 1000

    def deadline(self, now: float) -> float:
        """Return when the program waits no longer."""
        return float("inf") if self.timeout_s is None else now + self.timeout_s

    def wait_ms(self, deadline: float, now: float) -> int:
        """Return how long the waiter keeps a place in the queue."""
        return min(WAIT_MS, max(0, round((min(deadline, now + WAIT_MS) - now) * 1000)))

    def timed_out(self) -> LeaseTimeout:
        """Return the error after `timeout`."""
        return LeaseTimeout(f"another program held lease {self.name!r} for {self.timeout_s:g} s")


class LeaseOwner:
    """The base of both handles."""

    lost: threading.Event | asyncio.Event

    def __init__(self, calls: LeaseCalls, terms: LeaseTerms) -> None:
        self._calls = calls
        self._terms = terms
        self._kept: KeptLease | None = None
        self.name: str = terms.name
        #: Of the present or last lease; 0: none yet.
        self.token: int = 0

    @contextlib.contextmanager
    def _in_queue(self, ready: Callable[[], None]) -> Iterator[str]:
        """Wait as a new holder, whose turn calls `ready`; an error gives up the place."""
        if self._kept is not None:
            raise RuntimeError(f"lease {self.name!r} is held by this handle already")
        calls, holder = self._calls, self._calls.new_holder()
        calls.expect(self.name, holder, ready)
        try:
            yield holder
        except BaseException:
            with contextlib.suppress(ServiceError):  # the lease ends by time
                calls.end(self.name, holder)
            raise
        finally:
            calls.forget(self.name, holder)

    def _seconds_to_wait(self, deadline: float) -> float:
        left = deadline - self._calls.now()
        if left <= 0:
            raise self._terms.timed_out()
        return min(left, ASK_AGAIN_S)

    def _lasts(self, asked_at: float) -> bool:
        """Whether a granted lease lasts: the answer may be late."""
        return self._calls.now() < end_of_lease(asked_at, self._terms.keep_ms)

    def _keep(self, token: int, holder: str, asked_at: float, lose: Callable[[], None]) -> None:
        self.token = token
        self._kept = KeptLease(self.name, holder, self._terms.keep_ms, asked_at, lose)
        self._calls.keeper.add(self._kept)

    @contextlib.contextmanager
    def _before(self, deadline: float) -> Iterator[None]:
        """Ignore a missing answer before the deadline."""
        try:
            yield
        except RequestTimeout:
            if self._calls.now() >= deadline:
                raise

    def _take(
        self, holder: str, asked_at: float, deadline: float
    ) -> tuple[ReplyFuture[Any], float]:
        wait_ms = self._terms.wait_ms(deadline, asked_at)
        answer = self._calls.take(self.name, holder, self._terms.keep_ms, wait_ms)
        return answer, max(1.0, deadline - self._calls.now())

    def _end(self) -> tuple[ReplyFuture[Any], float] | None:
        kept, self._kept = self._kept, None
        if kept is None or not self._calls.keeper.remove(kept):
            return None
        return self._calls.end(kept.name, kept.holder), kept.keep_ms / 1000

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it belongs to a client")

    def __repr__(self) -> str:
        state = "held" if self._kept is not None else "not held"
        return f"<{type(self).__name__} {self.name!r}, {'lost' if self.lost.is_set() else state}>"


class LeaseHandle(LeaseOwner):
    """A named lease, as a context manager: what `Client.lease` returns.

    Entering waits for the lease, leaving ends it. `token` exceeds the token of each earlier lease,
    of any name: storage that remembers the highest can refuse a program whose lease is lost. Then
    `lost` is set.
    """

    def __init__(self, calls: LeaseCalls, wait: Wait, terms: LeaseTerms) -> None:
        super().__init__(calls, terms)
        self._wait = wait
        self.lost: threading.Event = threading.Event()

    def __enter__(self) -> Self:
        woken = threading.Event()
        with self._in_queue(woken.set) as holder:
            self._acquire(holder, woken)
        return self

    def _acquire(self, holder: str, woken: threading.Event) -> None:
        calls = self._calls
        deadline = self._terms.deadline(calls.now())
        while True:
            asked_at = calls.now()
            token: int | None = None
            with self._before(deadline):
                token = self._wait(*self._take(holder, asked_at, deadline))
            if token is not None and self._lasts(asked_at):
                break
            seconds = self._seconds_to_wait(deadline)
            if token is None:
                woken.wait(calls.pass_time(woken.is_set, seconds))
                woken.clear()
        self.lost = threading.Event()
        self._keep(token, holder, asked_at, self.lost.set)

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ServiceError):  # the lease ends by time
            if (answer := self._end()) is not None:
                self._wait(*answer)


#: Like `Wait`, awaitable.
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
