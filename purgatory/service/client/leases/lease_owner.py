"""LeaseOwner: what a `LeaseHandle` and an `AsyncLeaseHandle` share. The program's thread."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from purgatory.service.client.arguments import (
    Duration,
    checked_filled,
    checked_seconds,
    duration_ms,
)
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.leases.lease_calls import ASK_AGAIN_S, WAIT_MS, LeaseCalls
from purgatory.service.client.leases.lease_keeper import KeptLease, end_of_lease
from purgatory.service.errors import LeaseTimeout, RequestTimeout, ServiceError

if TYPE_CHECKING:  # a client without coroutines starts without asyncio
    import asyncio

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
            self.timeout_s = checked_seconds(timeout, "timeout")

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

    lost: "threading.Event | asyncio.Event"

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
                if self._end() is None:  # else the lease was granted
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
