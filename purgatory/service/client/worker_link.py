"""WorkerLink: a worker's requests to its client's session, and the answers; begun handlers.

Used by the thread with the `Turn`; any thread may add leases.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from purgatory.service.encoding import encode
from purgatory.service.job_messages import Begin, CancelLeases
from purgatory.service.protocol import Lease, LeasedJob

#: The version of the protocol from which on servers know `Begin`, and keep results.
BEGIN_VERSION: Final = 3

#: Kinds with their attempts, room, milliseconds of a lease, `detached`, `kind_rooms` and `begins`
#: of a `Work`.
Asks = tuple[dict[str, int], int, int, bool, dict[str, int], bool]


@dataclass(slots=True)
class WorkerLink:
    """The requests of a worker, and the answers.

    `on_jobs` gets jobs leased from now on; `on_connected` is called before the first ones
    of a connection: leases of the connection before have ended, or will. `on_cancelled` gets what
    the server tells of leases.
    """

    asks: Asks
    on_jobs: Callable[[list[LeasedJob]], None]
    on_connected: Callable[[], None]
    on_cancelled: Callable[[CancelLeases], None] = lambda _: None


class BegunLeases:
    """The leases whose handlers have begun, and of which the server was not told."""

    def __init__(self) -> None:
        self.leases: deque[Lease] = deque()

    def take(self, seqs: Iterator[int], most: int, version: int) -> list[bytes]:
        """Return the messages that tell of them, of up to `most` each; none to older servers."""
        taken: list[Lease] = []
        while self.leases:
            taken.append(self.leases.popleft())
        if version < BEGIN_VERSION:
            return []
        return [
            encode(Begin(next(seqs), taken[start : start + most]))
            for start in range(0, len(taken), most)
        ]
