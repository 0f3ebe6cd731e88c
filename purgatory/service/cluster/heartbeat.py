"""Heartbeat: renews the lease of the active server, and finds out when it is lost.

The thread `service-lease` owns the row's connection from `start` to `stop`, or until the lease is
lost. While the database does not answer, the thread retries: the lease ends by itself meanwhile,
and is valid again with the next beat unless another server has taken over. `start` and `stop` are
for another thread, the figures for any.
"""

import logging
import threading
from collections.abc import Callable
from typing import Final

from _purgatory_cpython.threads import InterruptibleThread
from purgatory.errors import StoreError
from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.server.store_activity import NS_PER_S
from purgatory.service.store.lease import LeaseRow, SeenLease

log: logging.Logger = logging.getLogger(__name__)

#: Beats in `takeover_after`.
BEATS: Final = 4
#: Seconds between two looks.
LOOK_S: Final = 0.1
RETRY_S: Final = 0.1
#: Seconds between two counts of the standbys.
COUNT_S: Final = 2.0
TAKEN: Final = "another server has taken over"


class Heartbeat:
    """Keeps `lease`, whose row is `row`; calls `on_handover` at a request to hand over."""

    def __init__(
        self,
        row: LeaseRow,
        lease: StoreLease,
        takeover_after: float,
        *,
        on_handover: Callable[[], None] = lambda: None,
    ) -> None:
        self._row = row
        self._lease = lease
        self._beat_every_ns = int(takeover_after / BEATS * NS_PER_S)
        self._on_handover = on_handover
        self._stopped = threading.Event()
        self._thread = InterruptibleThread(target=self._run, name="service-lease", daemon=True)
        #: When the last successful beat was sent.
        self.beat_ns: int = lease.boot_ns()
        self._next_count_ns = 0
        #: The last look.
        self.last: SeenLease | None = None
        self.standbys: list[str] = []
        #: Why the last step has failed.
        self.trouble: str = ""

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the present call. Idempotent."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._lease.lost and not self._stopped.wait(self.step()):
                pass
        except Exception as error:
            log.exception("the thread that keeps the lease ends")
            self._lease.lose(f"the thread that keeps the lease has failed: {error!r}")

    def step(self) -> float:
        """Beat or look once; return the seconds until the next step."""
        try:
            self._look()
        except StoreError as error:
            if not self.trouble:
                log.warning("the lease cannot be renewed: %s", error)
            self.trouble = str(error)
            return RETRY_S
        if self.trouble:
            if not self._lease.lost:
                log.warning("the lease is renewed again")
            self.trouble = ""
        return LOOK_S

    def _look(self) -> None:
        lease, sent_ns = self._lease, self._lease.boot_ns()
        # After a failure the database has to confirm the lease anew.
        is_due = self.trouble or sent_ns - self.beat_ns >= self._beat_every_ns
        reading = lease.read_clock()
        seen = self._row.beat(reading) if is_due else self._row.look()
        if seen is None or seen.holder != lease.holder:
            lease.lose(TAKEN)
            return
        if is_due:
            lease.renewed(sent_ns)
            self.beat_ns = sent_ns
        lease.saw(seen, reading.clock_ms)
        self.last = seen
        if sent_ns >= self._next_count_ns:
            self._next_count_ns = sent_ns + int(COUNT_S * NS_PER_S)
            self.standbys = live_standbys(self._row)
        if seen.handover:
            self._on_handover()


#: A standby without a look for so many seconds is gone.
GONE_S: Final = 3.0


def live_standbys(row: LeaseRow) -> list[str]:
    """Return the sorted addresses of the standbys. Raises StoreError."""
    return sorted(one.address for one in row.standbys() if one.seen_s < GONE_S)
