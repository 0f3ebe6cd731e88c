"""LeaseWatch: decides when a standby may take over. Used by one thread.

Only the standby's own boot clock counts. The standby takes over if the holder has written nothing
for `takeover_after`, or at once if the row has no holder. After the database was away, the holder
gets a moment to come back, as a takeover has to load all.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.platform import boot_ns
from purgatory.service.server.store_activity import NS_PER_S
from purgatory.service.store.lease import SeenLease

#: Most seconds of that moment.
RETURN_S: Final = 1.5
#: After a handover the old server takes no lease for so many seconds.
YIELD_S: Final = 5.0


class LeaseWatch:
    """Watches the lease for a standby with the id `holder`.

    `handed_over`: the epoch of the lease just handed over, which this server leaves to others for
    YIELD_S.
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
        self._patience_ns = int(takeover_after * NS_PER_S)
        self._return_ns = int(min(takeover_after, RETURN_S) * NS_PER_S)
        self._handed_over = handed_over
        self._yields_until_ns = boot_ns() + int(YIELD_S * NS_PER_S)
        #: None before the first look.
        self.last: SeenLease | None = None
        self._same_since_ns = 0
        self._back_since_ns: int | None = None  # None: the last look has failed

    def failed(self) -> None:
        """Note a failed look."""
        self._back_since_ns = None

    def saw(self, seen: SeenLease) -> bool:
        """Note a look, once answered; True: take over now."""
        now_ns = self._boot_ns()
        if self._back_since_ns is None:
            self._back_since_ns = now_ns
        if self.last is None or not self.last.is_same(seen):
            self._same_since_ns = now_ns
        self.last = seen
        if not seen.holder:
            # A higher epoch: another server has come and gone.
            return seen.epoch != self._handed_over or now_ns >= self._yields_until_ns
        if seen.holder == self._holder:  # the answer to this server's takeover was lost
            return True
        return (
            now_ns - self._same_since_ns >= self._patience_ns
            and now_ns - self._back_since_ns >= self._return_ns
        )

    def silent_s(self) -> float:
        """Return the seconds since a look showed a write of the holder. Any thread."""
        return 0.0 if self.last is None else (self._boot_ns() - self._same_since_ns) / NS_PER_S
