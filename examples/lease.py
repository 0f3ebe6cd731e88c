"""A lock that is lent for a limited time: a lease. The holder can renew it; the others queue."""

import asyncio

from purgatory import OperationExpired
from purgatory.aio import AsyncPurgatory, LoopFuture


class Leases:
    """Lends each name to one holder at a time."""

    def __init__(self, purgatory: AsyncPurgatory) -> None:
        self._purgatory = purgatory
        self._lent: set[str] = set()

    async def acquire(self, name: str, seconds: float, timeout: float = 30.0) -> LoopFuture:
        """Return a lease: `extend` renews it, `cancel` gives it back."""
        if name in self._lent:
            turn = self._purgatory.defer(("turn", name), timeout=timeout)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled() and turn.exception() is None:
                    self._pass_on(name)  # the turn had come in the same moment
                raise
        self._lent.add(name)
        lease = self._purgatory.defer(("lease", name), timeout=seconds)
        lease.add_done_callback(lambda _: self._pass_on(name))
        return lease

    def _pass_on(self, name: str) -> None:
        if not self._purgatory.complete(("turn", name), limit=1):
            self._lent.discard(name)


async def work(leases: Leases, worker: str) -> None:
    """Print when it is this worker's turn."""
    lease = await leases.acquire("printer", seconds=30)
    print(worker, "prints")
    lease.cancel()


async def main() -> None:
    """Three workers share a printer; one holds its lease too long and loses the printer."""
    async with AsyncPurgatory("leases") as purgatory:
        leases = Leases(purgatory)
        slow = await leases.acquire("printer", seconds=30)
        try:
            await leases.acquire("printer", seconds=30, timeout=0.01)
        except OperationExpired:
            print("the printer is taken")
        workers = [asyncio.create_task(work(leases, name)) for name in ("a", "b", "c")]
        print("renewed:", slow.extend(0.05))
        await asyncio.gather(*workers)
        print("renewed:", slow.extend(30))


if __name__ == "__main__":
    asyncio.run(main())
