"""Send until it is acknowledged, after longer and longer pauses: retry with backoff."""

import asyncio
import random
from collections.abc import Callable

from purgatory import OperationExpired
from purgatory.aio import AsyncPurgatory

FIRST_PAUSE_S = 0.02
ATTEMPTS = 5


async def send_reliably(purgatory: AsyncPurgatory, number: int, send: Callable[[int], None]) -> str:
    """Return the acknowledgement. Raises OperationExpired after the last attempt."""
    pause = FIRST_PAUSE_S
    for attempt in range(1, ATTEMPTS + 1):
        # Before it is sent: the acknowledgement cannot come too early.
        acknowledged = purgatory.defer(("ack", number), timeout=pause * random.uniform(0.8, 1.2))
        send(number)
        try:
            return f"message {number}: {await acknowledged}, attempt {attempt}"
        except OperationExpired:
            pause *= 2
    raise OperationExpired(f"message {number} was sent {ATTEMPTS} times")


class Network:
    """Loses the first messages; acknowledges the others, in the next turn of the loop."""

    def __init__(self, purgatory: AsyncPurgatory, losses: int) -> None:
        self._purgatory = purgatory
        self._losses = losses

    def send(self, number: int) -> None:
        """Pass a message on, or lose it."""
        self._losses -= 1
        if self._losses < 0:
            complete = self._purgatory.complete  # complete_threadsafe, in another thread
            asyncio.get_running_loop().call_soon(complete, ("ack", number), "received")


async def main() -> None:
    """Send over a network that loses two messages, then over a dead network."""
    async with AsyncPurgatory("messages") as purgatory:
        print(await send_reliably(purgatory, 1, Network(purgatory, 2).send))
        try:
            await send_reliably(purgatory, 2, Network(purgatory, 1000).send)
        except OperationExpired as error:
            print(error)


if __name__ == "__main__":
    asyncio.run(main())
