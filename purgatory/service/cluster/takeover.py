"""The takeover: a standby raises the epoch, and so becomes the active server.

The order matters. First the epoch: from then on no commit of the old holder succeeds. A host that
went away may have left a group half sent, whose session holds the row of the lease, for hours. So
the row is asked for with a short time-out, and if it is locked, the sessions of the old epoch are
ended, again and again. When the epoch is raised, the sessions that are left are ended as well:
they may hold other rows. Only then may the server load.

The standby looks again and again, and only its own boot clock counts. It takes over if the holder
has written nothing for `takeover_after`, or at once if the row has no holder. After the database
was away, the holder gets a moment to come back first: it has lost nothing, and a takeover means to
load all. Used by one thread.
"""

import logging
from collections.abc import Callable
from typing import Final

from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.platform import boot_ns
from purgatory.service.store.lease import LeaseLocked, LeaseRow, SeenLease

log: logging.Logger = logging.getLogger(__name__)


def take_over(
    row: LeaseRow,
    seen: SeenLease,
    takeover_after: float,
    *,
    stopped: Callable[[], bool],
    boot_ns: Callable[[], int] = boot_ns,
    on_lost: Callable[[], None] = lambda: None,
) -> StoreLease | None:
    """Take over from the holder that was `seen`; returns the lease. Raises StoreError.

    None: the holder has written something meanwhile, another server was faster, the answer came
    after the end of the lease, so that the service time would be late, or `stopped` returns True.
    """
    while not stopped():
        sent_ns = boot_ns()
        try:
            taken = row.raise_epoch(seen)
        except LeaseLocked:
            ended = row.end_sessions_of(seen)
            log.warning("a session of epoch %d holds the lease: ended %d", seen.epoch, ended)
            continue
        if taken is None:
            return None
        lease = StoreLease(
            taken,
            takeover_after,
            sent_ns=sent_ns,
            boot_ns=boot_ns,
            on_lost=on_lost,
        )
        if not lease.is_valid():
            return None
        row.end_sessions_of(seen)
        return lease
    return None


_NS_PER_S: Final = 1_000_000_000
#: Seconds, at most, that the holder gets after the database was away.
RETURN_S: Final = 1.5
#: For so many seconds after a handover the old active server leaves the lease to the others.
YIELD_S: Final = 5.0


class LeaseWatch:
    """Watches the lease for a standby with the id `holder`.

    `handed_over`: the epoch of the lease that this server has just handed over; None: no lease.
    While the row has that epoch, this server leaves the row to others for YIELD_S.
    """

    def __init__(
        self,
        holder: str,
        takeover_after: float,
        *,
        handed_over: int | None = None,
        boot_ns: Callable[[], int] = boot_ns,
    ) -> None:
        self._holder = holder
        self._boot_ns = boot_ns
        self._patience_ns = int(takeover_after * _NS_PER_S)
        self._return_ns = int(min(takeover_after, RETURN_S) * _NS_PER_S)
        self._handed_over = handed_over
        self._yields_until_ns = boot_ns() + int(YIELD_S * _NS_PER_S)
        #: What was seen last; None: nothing yet.
        self.last: SeenLease | None = None
        self._same_since_ns = 0
        self._back_since_ns: int | None = None  # None: the last look has failed

    def failed(self) -> None:
        """Note that a look has failed: the database is away."""
        self._back_since_ns = None

    def saw(self, seen: SeenLease) -> bool:
        """Note what a look has shown, once the answer is there; True: take over now."""
        now_ns = self._boot_ns()
        if self._back_since_ns is None:
            self._back_since_ns = now_ns
        if self.last is None or not self.last.is_same(seen):
            self._same_since_ns = now_ns
        self.last = seen
        if not seen.holder:
            # Another server may have come and gone between two looks: its epoch is higher.
            return seen.epoch != self._handed_over or now_ns >= self._yields_until_ns
        if seen.holder == self._holder:  # the answer to this server's takeover was lost
            return True
        return (
            now_ns - self._same_since_ns >= self._patience_ns
            and now_ns - self._back_since_ns >= self._return_ns
        )

    def silent_s(self) -> float:
        """Return for how many seconds the holder has written nothing that was seen; any thread."""
        return 0.0 if self.last is None else (self._boot_ns() - self._same_since_ns) / _NS_PER_S
