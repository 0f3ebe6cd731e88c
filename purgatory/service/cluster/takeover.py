"""The takeover: a standby raises the epoch, and so becomes the active server. One thread.

The order matters. First the epoch: from then on no commit of the old holder succeeds. The session
of a vanished host may lock the row for hours: so the standby asks with a short time-out, and ends
the sessions of the old epoch until the row is free. Then the standby ends the remaining sessions:
they may hold other rows. Only then may it load.
"""

import logging
from collections.abc import Callable

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
    """Take over from the holder that was `seen`; return the lease. Raises StoreError.

    None: the holder has written meanwhile, another server was faster, the lease ended before the
    answer (the service time would be late), or `stopped` returns True.
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
        lease = StoreLease(taken, takeover_after, sent_ns=sent_ns, boot_ns=boot_ns, on_lost=on_lost)
        if not lease.is_valid():
            return None
        row.end_sessions_of(seen)
        return lease
    return None
