"""LeaseHandle: a named lease in a program, as a context manager. Any thread."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any, Self

from _purgatory_cpython.threads import InterruptibleEvent
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.leases.lease_calls import LeaseCalls
from purgatory.service.client.leases.lease_owner import LeaseOwner, LeaseTerms
from purgatory.service.errors import ServiceError

#: Waits for an answer, at most so many seconds and the client's timeout.
Wait = Callable[[ReplyFuture[Any], float], Any]


class LeaseHandle(LeaseOwner):
    """A named lease, as a context manager: what `Client.lease` returns.

    Entering waits for the lease, leaving ends it. `token` exceeds the token of each earlier lease,
    of any name: storage that remembers the highest can refuse a program whose lease is lost. Then
    `lost` is set.
    """

    def __init__(self, calls: LeaseCalls, wait: Wait, terms: LeaseTerms) -> None:
        super().__init__(calls, terms)
        self._wait = wait
        self.lost: threading.Event = InterruptibleEvent()

    def __enter__(self) -> Self:
        woken = InterruptibleEvent()
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
        self.lost = InterruptibleEvent()
        self._keep(token, holder, asked_at, self.lost.set)

    def __exit__(self, *error: object) -> None:
        with contextlib.suppress(ServiceError):  # the lease ends by time
            if (answer := self._end()) is not None:
                self._wait(*answer)
