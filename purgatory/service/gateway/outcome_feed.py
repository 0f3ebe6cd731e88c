"""OutcomeFeed: the unacknowledged outcomes of a client, for streams.

Each stream keeps only a page in memory. Outcomes that the server pushes wake the streams.

While a stream of a token with the right `submit` is open, a separate connection takes the outcomes
of the name, so that no program that connected before handles them. Used by the gateway's event
loop.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.client.client import Client
from purgatory.service.client.outcomes import LEAVE, OnOutcome
from purgatory.service.errors import RequestAbandoned, RequestTimeout
from purgatory.service.protocol import OutcomeMessage


class OutcomeFeed:
    """Reads outcomes with `client`; `connect` makes the separate connection."""

    def __init__(self, client: AsyncClient, connect: Callable[[OnOutcome], Client]) -> None:
        self._client = client
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._taker: Client | None = None
        self._takers = 0
        self._changed = asyncio.Event()
        self._closed = False
        client.calls.received.on_left = self._notice

    def _notice(self) -> None:
        """For the client's I/O thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def read(
        self, after: int, quiet_s: float, *, takes: bool
    ) -> AsyncGenerator[OutcomeMessage | None]:
        """Yield outcomes beyond a number, in order; None after `quiet_s` seconds without any.

        `takes`: over the separate connection. Ends with the feed. The caller closes the generator.
        """
        with self._taking() if takes else contextlib.nullcontext():
            while not self._closed:
                changed = self._changed
                page = await self._page(after)
                for outcome in page:
                    after = outcome.number
                    yield outcome
                    # Else asyncio logs each write of a page to a program that has hung up.
                    await asyncio.sleep(0)
                if not page:
                    try:
                        async with asyncio.timeout(quiet_s):
                            await changed.wait()
                    except TimeoutError:
                        yield None

    async def _page(self, after: int) -> list[OutcomeMessage]:
        """Read outcomes; none while no server answers."""
        with contextlib.suppress(RequestTimeout, RequestAbandoned):
            return await self._client.unread(after)
        return []

    @contextlib.contextmanager
    def _taking(self) -> Iterator[None]:
        if self._taker is None or self._taker.job_calls.failure is not None:
            before, self._taker = self._taker, self._connect(lambda _: LEAVE)
            if before is not None:
                before.close(0)
        self._takers += 1
        try:
            yield
        finally:
            self._takers -= 1
            if not self._takers:
                taker, self._taker = self._taker, None
                assert taker is not None
                taker.close(0)  # takes a moment: no call is unanswered

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()
