"""StoreLease: the active server's lease of the store, and the service time. Any thread.

The active server counts the lease, by the boot clock, from the moment at which it *sent* the last
renewal. A standby sees a renewal at the earliest then, and takes over `takeover_after` later. So no
lease is valid after a takeover, however long this process or its machine was stopped.
"""

import threading
from collections.abc import Callable
from typing import Final

from purgatory.service.platform import boot_ns
from purgatory.service.server.clock import NS_PER_MS
from purgatory.service.server.store_activity import NS_PER_S
from purgatory.service.store.lease import ClockReading, SeenLease

#: A lease is shorter by this part of `takeover_after`: clocks differ in speed, and a frame takes a
#: moment from `is_valid` to the socket.
MARGIN: Final = 0.1
# Of a difference of two readings in whole milliseconds, one rounded up.
_ROUNDING_MS: Final = 2


class StoreLease:
    """The lease of a holder; see `HeldLease`.

    `taken`: the row after the takeover; the service time goes on from there when the answer has
    come. `sent_ns`: when the takeover was sent. The thread that notices the loss calls `on_lost`.
    """

    def __init__(
        self,
        taken: SeenLease,
        takeover_after: float,
        *,
        sent_ns: int,
        boot_ns: Callable[[], int] = boot_ns,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self.holder: str = taken.holder
        self._boot_ns = boot_ns
        self._lock = threading.Lock()
        self.epoch: int = taken.epoch
        self.clock_offset_ns: int = taken.clock_ms * NS_PER_MS - boot_ns()
        # By how much the database's clock is ahead of the service time, at most. Counted from the
        # sending: else the next holder would make up for the time that the answer took, and
        # operations submitted meanwhile would expire early.
        sent_ms = (sent_ns + self.clock_offset_ns) // NS_PER_MS
        self._database_ahead_ms = _ahead_ms(taken, sent_ms)
        self._duration_ns = int(takeover_after * (1 - MARGIN) * NS_PER_S)
        self._valid_until_ns = sent_ns + self._duration_ns
        self._on_lost = on_lost
        #: Why the lease is lost; empty until then.
        self.lost: str = ""

    def boot_ns(self) -> int:
        """See `HeldLease`."""
        return self._boot_ns()

    def now_ms(self) -> int:
        """Return the service time."""
        return (self._boot_ns() + self.clock_offset_ns) // NS_PER_MS

    def read_clock(self) -> ClockReading:
        """See `HeldLease`."""
        now_ms = self.now_ms()
        return ClockReading(now_ms, now_ms + self._database_ahead_ms)

    def saw(self, seen: SeenLease, sent_ms: int) -> None:
        """Note the database's clock, by the answer to a statement sent at `sent_ms`.

        An earlier quick answer counts more than a slow answer: else the next holder would set the
        clock back. But not if the database's clock was set forward since.
        """
        known_ms = self._database_ahead_ms
        least_ms = _ahead_ms(seen, self.now_ms()) - _ROUNDING_MS
        most_ms = _ahead_ms(seen, sent_ms)
        self._database_ahead_ms = min(most_ms, known_ms) if known_ms >= least_ms else most_ms

    def is_valid(self) -> bool:
        """Tell whether frames may leave the active server's socket."""
        return self._boot_ns() < self._valid_until_ns

    def overdue_s(self) -> float:
        """Return for how many seconds the lease has not been valid."""
        return max(0.0, (self._boot_ns() - self._valid_until_ns) / NS_PER_S)

    def renewed(self, sent_ns: int) -> None:
        """See `HeldLease`."""
        with self._lock:
            if not self.lost:
                until_ns = sent_ns + self._duration_ns
                self._valid_until_ns = max(self._valid_until_ns, until_ns)

    def raised(self, epoch: int) -> None:
        """See `HeldLease`."""
        with self._lock:
            self.epoch = max(self.epoch, epoch)

    def lose(self, why: str) -> None:
        """Note that the lease is lost. Idempotent."""
        with self._lock:
            if self.lost:
                return
            self.lost = why
            self._valid_until_ns = 0
        self._on_lost()


def _ahead_ms(seen: SeenLease, clock_ms: int) -> int:
    """Return by how much the database's clock, rounded up, was ahead of `clock_ms`."""
    return seen.clock_ms - seen.drift_ms + 1 - clock_ms
