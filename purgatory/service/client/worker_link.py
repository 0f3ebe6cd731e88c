"""WorkerLink: a worker's requests to its client's session. Used with the `Turn`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from purgatory.service.job_messages import CancelLeases
from purgatory.service.protocol import LeasedJob

#: The first version of the protocol with `Begin`, and with results.
BEGIN_VERSION: Final = 3

#: The fields of a `Work`: `kinds`, `room`, `lease_ms`, `detached`, `kind_rooms`, `begins`.
Asks = tuple[dict[str, int], int, int, bool, dict[str, int], bool]


@dataclass(slots=True)
class WorkerLink:
    """The requests of a worker, and its callbacks.

    `on_connected` is called before the first jobs of a connection: earlier leases have ended, or
    will.
    """

    asks: Asks
    on_jobs: Callable[[list[LeasedJob]], None]
    on_connected: Callable[[], None]
    on_cancelled: Callable[[CancelLeases], None] = lambda _: None
