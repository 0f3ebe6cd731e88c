"""LeaseKeeper: has the server keep the named leases of a client, in a thread.

The client counts a lease from the sending of the granted request. So the program knows of the loss
before the server grants the next lease. Any thread may call any method. The thread runs while there
are leases.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.platform import (
    CLOCK_ERROR,
    REAL_PLATFORM,
    LoopThread,
    RunnableLoop,
    WakeableThread,
)

# Requests in the time of a lease.
_KEPT_PER_TIME: Final = 3
# The pause after an error: these seconds, or less of a short lease.
_RETRY_S: Final = 1.0
_RETRIES_PER_TIME: Final = 10
#: Seconds that `close` waits for the thread.
JOIN_S: Final = 2.0

#: Asks the server to keep a lease, by name, holder and milliseconds.
Keep = Callable[[str, str, int], ReplyFuture[bool]]
MakeThread = Callable[[RunnableLoop, str], WakeableThread]


def end_of_lease(asked_at: float, keep_ms: int) -> float:
    """Return when a lease is lost whose granted request was sent at `asked_at`."""
    return asked_at + keep_ms / 1000 * (1 - CLOCK_ERROR)


@dataclass(slots=True, eq=False)
class KeptLease:
    """A lease of this program; calls `on_lost`.

    `asked_at`: when the last granted request was sent. `retry_at`: after an error no request
    before.
    """

    name: str
    holder: str
    keep_ms: int
    asked_at: float
    on_lost: Callable[[], None]
    is_asking: bool = False
    retry_at: float = 0.0

    @property
    def ends_at(self) -> float:
        """When the lease is lost, unless kept."""
        return end_of_lease(self.asked_at, self.keep_ms)

    @property
    def due_at(self) -> float:
        """When the keeper has to act."""
        if self.is_asking:
            return self.ends_at
        due_at = self.asked_at + self.keep_ms / 1000 / _KEPT_PER_TIME
        return min(max(due_at, self.retry_at), self.ends_at)


class LeaseKeeper:
    """Keeps leases with `keep`, in a thread named `name`; `clock` returns seconds.

    The `RunnableLoop` of that thread.
    """

    def __init__(
        self,
        keep: Keep,
        clock: Callable[[], float],
        name: str,
        make_thread: MakeThread = REAL_PLATFORM.thread,
    ) -> None:
        self._keep = keep
        self._clock = clock
        self._name = name
        self._make_thread = make_thread
        # Guards the fields below; notified when a lease has changed.
        self._changed = threading.Condition()
        self._leases: dict[str, KeptLease] = {}  # by holder
        self._is_running = False
        self._thread: WakeableThread | None = None  # the last

    def renew_locks(self) -> None:
        """See `LockOwner`."""
        self._changed = threading.Condition()

    def add(self, lease: KeptLease) -> None:
        """Keep a lease from now on."""
        with self._changed:
            if not self._is_running:
                self._start()
            self._leases[lease.holder] = lease
            self._wake()

    def _start(self) -> None:
        self._thread = self._make_thread(self, self._name)
        self._thread.start()
        self._is_running = True  # last: if no thread is left, the next lease tries again

    def _wake(self) -> None:
        self._changed.notify()
        if self._thread is not None:
            self._thread.wake()

    def remove(self, lease: KeptLease) -> bool:
        """Keep a lease no longer; False: it is lost."""
        with self._changed:
            found = self._leases.pop(lease.holder, None)
            self._wake()
        return found is not None

    def close(self) -> None:
        """Lose all leases, and wait for the end of the thread."""
        with self._changed:
            leases, thread = list(self._leases.values()), self._thread
        for lease in leases:
            self._lose(lease)
        if thread is not None:
            _join(thread)

    def run(self) -> None:
        """See `RunnableLoop`."""
        while True:
            self.step()
            with self._changed:
                if self.finished():
                    return
                self._changed.wait(self.sleep_seconds())

    def sleep_seconds(self) -> float:
        """See `Loop`."""
        with self._changed:
            due_at = min(lease.due_at for lease in self._leases.values())
        return max(0.0, due_at - self._clock())

    def finished(self) -> bool:
        """See `Loop`. After True the next lease gets another thread."""
        with self._changed:
            if not self._leases:
                self._is_running = False
            return not self._leases

    def shut_down(self) -> None:
        """See `Loop`: there is nothing to release."""

    def step(self) -> None:
        """Ask for due leases, and give up lost leases."""
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
            self._wake()

    def _lose(self, lease: KeptLease) -> None:
        if self.remove(lease):
            lease.on_lost()


def _join(thread: LoopThread) -> None:
    if thread is not threading.current_thread():
        thread.join(JOIN_S)
