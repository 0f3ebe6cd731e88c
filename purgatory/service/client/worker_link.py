"""WorkerLink: a worker's requests to its client's session; BegunLeases.

Used with the `Turn`; any thread may add leases.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from purgatory.service.encoding import encode
from purgatory.service.job_messages import Begin, CancelLeases
from purgatory.service.protocol import Lease, LeasedJob

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


class BegunLeases:
    """The leases whose handlers have begun, until the server is told."""

    def __init__(self) -> None:
        self.leases: deque[Lease] = deque()

    def take(self, seqs: Iterator[int], most: int, version: int) -> list[bytes]:
        """Remove leases; return messages with up to `most`, none for older servers."""
        taken: list[Lease] = []
        while self.leases:
            taken.append(self.leases.popleft())
        if version < BEGIN_VERSION:
            return []
        return [
            encode(Begin(next(seqs), taken[start : start + most]))
            for start in range(0, len(taken), most)
        ]
