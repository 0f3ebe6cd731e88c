"""StoreLease: what the active server knows of its lease, and the clock that belongs to the data.

The lease is valid until a time of the machine's boot clock, counted from the moment at which the
last renewal was *sent*. A standby takes over after `takeover_after` without a renewal, and sees one
at the earliest when it was sent. So no lease is valid after another server has taken over, however
long this process or its machine was stopped. Any thread.
"""

import threading
from collections.abc import Callable
from typing import Final

from purgatory.service.platform import boot_ns
from purgatory.service.server.clock import NS_PER_MS
from purgatory.service.store.lease import ClockReading, SeenLease

_NS_PER_S: Final = 1_000_000_000
#: That share of `takeover_after` a lease ends earlier: two clocks differ in speed, and a frame
#: takes a moment from the look at the lease to the socket.
MARGIN: Final = 0.1
# Two readings in whole milliseconds, of which one is rounded up: their difference may be so much
# more than that of the clocks.
_ROUNDING_MS: Final = 2


class StoreLease:
    """The lease of a holder; see `HeldLease`. `taken`: the row as the takeover left it.

    The service time goes on from there when the answer to the takeover has come. `on_lost` is
    called once, by the thread that finds out that the lease is lost.
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
        self._epoch = taken.epoch
        self.clock_offset_ns: int = taken.clock_ms * NS_PER_MS - boot_ns()
        # By how much the database's clock is ahead of the service time, at most. The time that the
        # answer took is not made up for by the next holder: what was submitted meanwhile would
        # expire early.
        sent_ms = (sent_ns + self.clock_offset_ns) // NS_PER_MS
        self._database_ahead_ms = _ahead_ms(taken, sent_ms)
        self._duration_ns = int(takeover_after * (1 - MARGIN) * _NS_PER_S)
        self._valid_until_ns = sent_ns + self._duration_ns
        self._on_lost = on_lost
        #: Why it is lost; empty as long as it is not.
        self.lost: str = ""

    @property
    def epoch(self) -> int:
        """The epoch that each commit asks for."""
        return self._epoch

    def boot_ns(self) -> int:
        """Return nanoseconds since boot."""
        return self._boot_ns()

    def now_ms(self) -> int:
        """Return the service time."""
        return (self._boot_ns() + self.clock_offset_ns) // NS_PER_MS

    def read_clock(self) -> ClockReading:
        """Read the service time. To be read before what is to write it is sent."""
        now_ms = self.now_ms()
        return ClockReading(now_ms, now_ms + self._database_ahead_ms)

    def saw(self, seen: SeenLease, sent_ms: int) -> None:
        """Note what the database's clock shows, by the answer to what was sent at `sent_ms`.

        A slow answer tells less than an earlier quick one, which then counts: else the next holder
        would set the clock back. But not if the database's clock was set forward since.
        """
        known_ms = self._database_ahead_ms
        least_ms = _ahead_ms(seen, self.now_ms()) - _ROUNDING_MS
        most_ms = _ahead_ms(seen, sent_ms)
        self._database_ahead_ms = min(most_ms, known_ms) if known_ms >= least_ms else most_ms

    def is_valid(self) -> bool:
        """Tell whether frames may leave: the guard of the active server's socket."""
        return self._boot_ns() < self._valid_until_ns

    def overdue_s(self) -> float:
        """Return for how many seconds it has not been valid; 0 if it is."""
        return max(0.0, (self._boot_ns() - self._valid_until_ns) / _NS_PER_S)

    def renewed(self, sent_ns: int) -> None:
        """Note that the database has written for the holder what was sent at `sent_ns`."""
        with self._lock:
            if not self.lost:
                until_ns = sent_ns + self._duration_ns
                self._valid_until_ns = max(self._valid_until_ns, until_ns)

    def raised(self, epoch: int) -> None:
        """Note that the holder raised its own epoch, since a commit was in doubt."""
        with self._lock:
            self._epoch = max(self._epoch, epoch)

    def lose(self, why: str) -> None:
        """Note that another server has taken over, or may do so. Idempotent."""
        with self._lock:
            if self.lost:
                return
            self.lost = why
            self._valid_until_ns = 0
        self._on_lost()


def _ahead_ms(seen: SeenLease, clock_ms: int) -> int:
    """Return by how much the database's clock, rounded up, was ahead of the time `clock_ms`."""
    return seen.clock_ms - seen.drift_ms + 1 - clock_ms
