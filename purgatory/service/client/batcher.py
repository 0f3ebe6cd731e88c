"""CallBatcher: calls on their way from a client's threads to its link's, a batch at a time.

A call joins the batch that is open, and only a batch that begins is posted: the link's thread is
woken once for many calls, and takes them in one step. What one thread asks stays in order: a batch
is of one kind, and who asks for another opens the next.

`add` is for any thread, `CallBatch.take` for the link's.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.protocol import Cancel, Complete, Query, Stats, Submit

#: Calls of a message, and of a batch.
CALLS_PER_MESSAGE: Final = 512

RequestType = type[Submit] | type[Complete] | type[Cancel] | type[Query] | type[Stats]
#: What is asked, an item of its `RequestType` (None for stats), and the future of the answer.
Call = tuple[Any, ReplyFuture]


class CallBatcher:
    """``post``: hands a batch to the link, or raises. ``is_closed``: whether it takes no more."""

    def __init__(self, post: "Callable[[CallBatch], None]", is_closed: Callable[[], bool]) -> None:
        self._post = post
        self._is_closed = is_closed
        # Guards the fields below and the batches' calls. A finalizer may come back to us in here.
        self.lock = threading.RLock()
        self.open_batch: CallBatch | None = None  # was posted, and takes calls still
        self.calls_added = 0  # calls, ever

    def add(self, request: RequestType, item: Any, future: ReplyFuture) -> None:
        """Have something asked. Raises what ``post`` raises."""
        with self.lock:
            batch = self.open_batch
            # A forked child must not wait in a batch of its parent's.
            if batch is None or batch.request is not request or self._is_closed():
                self.open_batch = None
                batch = CallBatch(self, request)
                self._post(batch)
                # Interrupted here, it is a batch without calls.
                self.open_batch = batch
            batch.calls.append((item, future))
            self.calls_added += 1
            if len(batch.calls) >= CALLS_PER_MESSAGE:
                self.open_batch = None


class CallBatch:
    """Calls of one kind."""

    __slots__ = ("_batcher", "calls", "request")

    def __init__(self, batcher: CallBatcher, request: RequestType) -> None:
        self._batcher = batcher
        self.request = request
        self.calls: list[Call] = []

    def take(self) -> list[Call]:
        """The calls, to which none is added from now on."""
        with self._batcher.lock:
            if self._batcher.open_batch is self:
                self._batcher.open_batch = None
        return self.calls
