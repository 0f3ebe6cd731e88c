"""OutcomeFeed: the unacknowledged outcomes of one client, for the streams that follow them.

While there is a stream, a connection of its own takes the outcomes of the client's name; without
one, another program of that name may take them. That connection's I/O thread puts outcomes in; the
gateway's event loop reads and acknowledges them.
"""

import asyncio
import concurrent.futures
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import NamedTuple

from sortedcontainers import SortedDict

from purgatory.service.client.client import Client
from purgatory.service.client.outcomes import OnOutcome
from purgatory.service.protocol import OutcomeMessage


class _Unread(NamedTuple):
    outcome: OutcomeMessage
    acknowledged: "concurrent.futures.Future[None]"


class OutcomeFeed:
    """Keeps the outcomes that the server has sent until they are acknowledged.

    `connect` makes the client that takes them.
    """

    def __init__(self, connect: Callable[[OnOutcome], Client]) -> None:
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._client: Client | None = None  # while there are readers
        self._readers = 0
        self._unread: SortedDict[int, _Unread] = SortedDict()  # by number
        self._changed = asyncio.Event()
        self._closed = False

    def _receive(self, outcome: OutcomeMessage) -> "concurrent.futures.Future[None]":
        """Take an outcome; the future ends when it is acknowledged. In the client's I/O thread."""
        unread = _Unread(outcome, concurrent.futures.Future())
        self._loop.call_soon_threadsafe(self._add, unread)
        return unread.acknowledged

    def _add(self, unread: _Unread) -> None:
        if self._client is not None:
            self._unread[unread.outcome.number] = unread
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def forget(self, numbers: Iterable[int]) -> None:
        """Drop outcomes that the server has marked as acknowledged."""
        for number in numbers:
            unread = self._unread.pop(number, None)
            if unread is not None:
                unread.acknowledged.set_result(None)

    async def read(self, after: int, quiet_s: float) -> AsyncGenerator[OutcomeMessage | None]:
        """Yield outcomes beyond a number, in order; None if there was none for `quiet_s` seconds.

        Ends when the feed is closed. To be closed by the caller, as `contextlib.aclosing` does.
        """
        self._readers += 1
        if self._client is None:
            self._client = self._connect(self._receive)
        try:
            while not self._closed:
                changed = self._changed
                for number in list(self._unread.irange(minimum=after + 1)):
                    after = number
                    if (unread := self._unread.get(number)) is not None:
                        yield unread.outcome
                try:
                    await asyncio.wait_for(changed.wait(), quiet_s)
                except TimeoutError:
                    yield None
        finally:
            self._readers -= 1
            if not self._readers:
                self._disconnect()

    def _disconnect(self) -> None:
        """Give up the outcomes; they stay at the server."""
        client, self._client = self._client, None
        self._unread.clear()
        if client is not None:
            client.close(0)  # takes a moment only: nothing is waited for

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._wake()
