"""JobTakers: the connections over which requests of one client name take jobs.

Used by the gateway's event loop.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.gateway.job_taker import Ask, JobTaker
from purgatory.service.gateway.problems import ApiError

#: So many different things may requests of a name ask for at a time.
MAX_TAKERS: Final = 16


class JobTakers:
    """A `JobTaker` for each thing that requests ask for; `connect` makes its connection."""

    def __init__(self, connect: Callable[[], AsyncClient]) -> None:
        self._connect = connect
        self._takers: dict[Ask, JobTaker] = {}  # the one last used is the last
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, ask: Ask) -> JobTaker:
        """Return the one for what a request asks for. Raises ApiError if there are too many."""
        taker = self._takers.pop(ask, None)
        if taker is None:
            self._make_room()
            taker = JobTaker(self._connect(), ask)
        self._takers[ask] = taker
        return taker

    def _make_room(self) -> None:
        """Close the idle one that was not used for longest, if there are too many."""
        if len(self._takers) < MAX_TAKERS:
            return
        idle = next((ask for ask, taker in self._takers.items() if taker.is_idle), None)
        if idle is None:
            raise ApiError(
                429,
                "too-many-workers",
                f"requests wait for {len(self._takers)} different sets of kinds, attempts and "
                f"leases; expected at most {MAX_TAKERS}",
            )
        task = asyncio.ensure_future(self._takers.pop(idle).close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def end(self) -> None:
        """Have no request wait any longer."""
        for taker in self._takers.values():
            taker.end()

    async def close(self) -> None:
        """Close all connections."""
        closing = [taker.close() for taker in self._takers.values()]
        self._takers.clear()
        await asyncio.gather(*closing, *self._closing)
