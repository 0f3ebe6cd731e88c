"""LeaseCalls: the calls about named leases; LeaseKeeper: a thread that keeps the leases.

A lease is kept three times in its time. It counts from the request that the server has granted, by
a clock that goes on while the machine is suspended; so the program takes the lease for lost before
the server gives it to another.

Any thread may call any method. The thread runs while there are leases.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

from _purgatory_cpython.threads import InterruptibleThread
from purgatory.service.client.calls import RequestType
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.job_messages import EndLease, KeepLease, LeaseReady, TakeLease
from purgatory.service.platform import CLOCK_ERROR, Platform

_KEPT_PER_TIME: Final = 3
# After an error it is asked for again after so many seconds, or that share of its time.
_RETRY_S: Final = 1.0
_RETRIES_PER_TIME: Final = 10
#: Seconds that `close` waits for the thread, at most.
JOIN_S: Final = 2.0

#: Asks the server to keep a lease, by name, holder and milliseconds.
Keep = Callable[[str, str, int], ReplyFuture[bool]]


class KeptLease:
    """A lease that a program has; `on_lost` is called when it could not be kept.

    `asked_at`: when the client sent the last granted request.
    """

    __slots__ = ("asked_at", "holder", "is_asking", "keep_ms", "name", "on_lost", "retry_at")

    def __init__(
        self, name: str, holder: str, keep_ms: int, asked_at: float, on_lost: Callable[[], None]
    ) -> None:
        self.name: str = name
        self.holder: str = holder
        self.keep_ms: int = keep_ms
        self.asked_at: float = asked_at
        self.on_lost: Callable[[], None] = on_lost
        self.is_asking: bool = False
        #: After an answer that was an error: not asked for again before.
        self.retry_at: float = asked_at

    @property
    def ends_at(self) -> float:
        """When the lease is lost, unless kept."""
        return self.asked_at + self.keep_ms / 1000 * (1 - CLOCK_ERROR)

    @property
    def due_at(self) -> float:
        """When there is something to do."""
        if self.is_asking:
            return self.ends_at
        due_at = self.asked_at + self.keep_ms / 1000 / _KEPT_PER_TIME
        return min(max(due_at, self.retry_at), self.ends_at)


class LeaseKeeper:
    """Keeps leases, with `keep`. `clock` returns seconds; the thread is named `name`."""

    def __init__(self, keep: Keep, clock: Callable[[], float], name: str) -> None:
        self._keep = keep
        self._clock = clock
        self._name = name
        # Guards what follows; notified when a lease was added or removed.
        self._changed = threading.Condition()
        self._leases: dict[str, KeptLease] = {}  # by holder
        self._is_running = False
        self._thread: threading.Thread | None = None  # the last one

    def add(self, lease: KeptLease) -> None:
        """Keep a lease from now on."""
        with self._changed:
            self._leases[lease.holder] = lease
            if not self._is_running:
                self._start()
            self._changed.notify()

    def _start(self) -> None:
        self._is_running = True
        self._thread = InterruptibleThread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def remove(self, lease: KeptLease) -> bool:
        """Keep a lease no longer; False: it is lost."""
        with self._changed:
            found = self._leases.pop(lease.holder, None)
            self._changed.notify()
        return found is not None

    def close(self) -> None:
        """Take all leases for lost, and wait for the end of the thread."""
        with self._changed:
            leases, thread = list(self._leases.values()), self._thread
        for lease in leases:
            self._lose(lease)
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_S)

    def _run(self) -> None:
        while True:
            self.step()
            with self._changed:
                if not self._leases:
                    self._is_running = False
                    return
                self._changed.wait(self._seconds())

    def _seconds(self) -> float:
        """Return for how long there is nothing to do."""
        due_at = min(lease.due_at for lease in self._leases.values())
        return max(0.0, due_at - self._clock())

    def step(self) -> None:
        """Do all due work: ask the server, and give up lost leases."""
        now = self._clock()
        with self._changed:
            due = [lease for lease in self._leases.values() if lease.due_at <= now]
        for lease in due:
            if lease.ends_at <= now:
                self._lose(lease)
            else:
                self._ask(lease, now)

    def _ask(self, lease: KeptLease, now: float) -> None:
        lease.is_asking = True
        try:
            answer = self._keep(lease.name, lease.holder, lease.keep_ms)
        except Exception:  # noqa: BLE001  # the client is closed: the lease ends by time
            return
        answer.add_done_callback(lambda _: self._on_answer(lease, now, answer))

    def _on_answer(self, lease: KeptLease, asked_at: float, answer: ReplyFuture[bool]) -> None:
        """Note the server's answer; after an error the keeper asks again."""
        is_kept = None if answer.cancelled() or answer.exception() else answer.result()
        if is_kept is False:
            self._lose(lease)
            return
        with self._changed:
            if is_kept:
                lease.asked_at = max(lease.asked_at, asked_at)
            else:
                pause_s = min(_RETRY_S, lease.keep_ms / 1000 / _RETRIES_PER_TIME)
                lease.retry_at = self._clock() + pause_s
            lease.is_asking = False
            self._changed.notify()

    def _lose(self, lease: KeptLease) -> None:
        if self.remove(lease):
            lease.on_lost()


#: A program that waits asks again after so many seconds, also if the server has told it nothing.
ASK_AGAIN_S: Final = 2.0
#: It leaves the server's queue if it has not asked again for so long.
WAIT_MS: Final = 60_000


class LeaseCalls:
    """The calls of one client, each made by `call`; the thread that keeps leases has a `name`."""

    def __init__(
        self,
        call: Callable[[RequestType, Any], ReplyFuture[Any]],
        platform: Platform,
        name: str,
    ) -> None:
        self._call = call
        self._boot_ns = platform.boot_ns
        self.new_holder: Callable[[], str] = platform.new_id
        self._ready: dict[tuple[str, str], Callable[[], None]] = {}
        self.keeper: LeaseKeeper = LeaseKeeper(self.keep, self.now, f"{name}-leases")

    def now(self) -> float:
        """Return seconds of a clock that goes on while the machine is suspended."""
        return self._boot_ns() / 1e9

    def take(self, name: str, holder: str, keep_ms: int, wait_ms: int) -> ReplyFuture[int | None]:
        """Take a lease, or wait for it; answers the token, or None."""
        return self._call(TakeLease, (name, holder, keep_ms, wait_ms))

    def keep(self, name: str, holder: str, keep_ms: int) -> ReplyFuture[bool]:
        """Have a lease last longer; False: it is another's."""
        return self._call(KeepLease, (name, holder, keep_ms))

    def end(self, name: str, holder: str) -> ReplyFuture[bool]:
        """End a lease, or leave its queue."""
        return self._call(EndLease, (name, holder))

    def expect(self, name: str, holder: str, ready: Callable[[], None]) -> None:
        """Have `ready` called, in the I/O thread, when the turn of a waiter has come."""
        self._ready[name, holder] = ready

    def forget(self, name: str, holder: str) -> None:
        """End `expect`."""
        self._ready.pop((name, holder), None)

    def on_ready(self, message: LeaseReady) -> None:
        """Tell a waiter: its turn has come; called by the I/O thread."""
        ready = self._ready.get((message.name, message.holder))
        if ready is not None:
            ready()
