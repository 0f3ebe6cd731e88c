"""OutcomeFeed: the outcomes of one client that are not acknowledged, for those that listen.

The client's I/O thread puts outcomes in; the gateway's event loop reads and acknowledges them.
"""

import asyncio
import concurrent.futures
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from sortedcontainers import SortedDict

from purgatory.service.protocol import OutcomeMessage


class _Unread(NamedTuple):
    outcome: OutcomeMessage
    acknowledged: "concurrent.futures.Future[None]"


class OutcomeFeed:
    """Keeps the outcomes that the server has sent until they are acknowledged."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._unread: SortedDict[int, _Unread] = SortedDict()  # by number
        self._changed = asyncio.Event()
        self._closed = False

    def receive(self, outcome: OutcomeMessage) -> "concurrent.futures.Future[None]":
        """Take an outcome; the future ends when it is acknowledged. In the client's I/O thread."""
        unread = _Unread(outcome, concurrent.futures.Future())
        self._loop.call_soon_threadsafe(self._add, unread)
        return unread.acknowledged

    def _add(self, unread: _Unread) -> None:
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

    async def read(self, after: int, quiet_s: float) -> AsyncIterator[OutcomeMessage | None]:
        """Yield outcomes beyond a number, in order; None if there was none for `quiet_s` seconds.

        Ends when the feed is closed.
        """
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

    def close(self) -> None:
        """End all readers. The outcomes stay at the server."""
        self._closed = True
        self._wake()
