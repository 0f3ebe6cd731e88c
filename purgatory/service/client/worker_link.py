"""WorkerLink: what a session knows of the worker that its client is for.

`asks` is sent on each new connection. The functions are called by the client's I/O thread.
"""

from collections.abc import Callable
from dataclasses import dataclass

from purgatory.service.job_messages import LeasedJob


@dataclass(slots=True)
class WorkerLink:
    """`asks`: kinds with their attempts, room, milliseconds of a lease, `detached`; see `Work`.

    `on_jobs` gets jobs that are leased from now on; `on_connected` is called before the first ones
    of a connection: leases of the connection before have ended, or will.
    """

    asks: tuple[dict[str, int], int, int, bool]
    on_jobs: Callable[[list[LeasedJob]], None]
    on_connected: Callable[[], None]
