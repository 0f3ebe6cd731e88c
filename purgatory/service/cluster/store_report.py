"""A look at the servers over one database, and the request to hand over.

For an operator's commands, which hold no lease. One thread.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from purgatory.errors import PurgatoryError
from purgatory.service.cluster.heartbeat import live_standbys
from purgatory.service.store.lease import LeaseRow, SeenLease

# Seconds between two looks.
_LOOK_S: Final = 0.1


class HandoverRefused(PurgatoryError):
    """Raised if no server can take over, or none did in time."""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The servers over a database. `is_alive`: the active server has written during the look."""

    seen: SeenLease
    is_alive: bool
    standbys: list[str]


def look_at_store(
    row: LeaseRow,
    patience_s: float,
    *,
    wait: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> StoreReport:
    """Look until the active server writes, for `patience_s` at most. Raises StoreError."""
    first = seen = row.look()
    end = monotonic() + patience_s
    while seen.holder and seen.is_same(first) and monotonic() < end:
        wait(_LOOK_S)
        seen = row.look()
    is_alive = bool(seen.holder) and not seen.is_same(first)
    return StoreReport(seen, is_alive, live_standbys(row))


def hand_over(
    row: LeaseRow,
    patience_s: float,
    *,
    wait: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> SeenLease:
    """Have the active server hand over; wait up to `patience_s` for the next, return its row.

    Raises HandoverRefused, StoreError.
    """
    before = row.look()
    if not before.holder:
        raise HandoverRefused("no server is active: there is nothing to hand over")
    if not live_standbys(row):
        raise HandoverRefused(f"no server stands by: {before.address} stays active")
    if not row.request_handover(before):
        raise HandoverRefused(f"{before.address} is not active any more")
    end = monotonic() + patience_s
    while monotonic() < end:
        seen = row.look()
        if seen.holder not in ("", before.holder):
            break
        wait(_LOOK_S / 2)
    else:
        raise HandoverRefused(f"no other server has become active within {patience_s:g} s")
    if seen.address == before.address:  # a server has another id for each lease
        raise HandoverRefused(f"no standby has taken over: {before.address} is active again")
    return seen
