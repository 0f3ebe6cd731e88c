"""Outbox: calls on their way from a client's threads to its link's, a batch at a time.

A call joins the batch that is open, and only a batch that begins is posted: the link's thread is
woken once for many calls, and takes them in one step. What one thread asks stays in order: a batch
is of one kind, and who asks for another opens the next.

`add` is for any thread, `Batch.take` for the link's.
"""

import threading
from collections.abc import Callable
from typing import Any, Final

from purgatory.service.client.futures import Answered
from purgatory.service.protocol import Cancel, Complete, Query, Stats, Submit

#: Calls of a message, and of a batch.
CALLS_A_MESSAGE: Final = 512

Request = type[Submit] | type[Complete] | type[Cancel] | type[Query] | type[Stats]
#: What is asked, an item of its `Request` (None for stats), and the future of the answer.
Call = tuple[Any, Answered]


class Outbox:
    """``post``: hands a batch to the link, or raises. ``over``: whether it takes no more."""

    def __init__(self, post: "Callable[[Batch], None]", over: Callable[[], bool]) -> None:
        self._post = post
        self._over = over
        # Guards the fields below and the batches' calls. A finalizer may come back to us in here.
        self.lock = threading.RLock()
        self.open: Batch | None = None  # was posted, and takes calls still
        self.added = 0  # calls, ever

    def add(self, request: Request, item: Any, future: Answered) -> None:
        """Have something asked. Raises what ``post`` raises."""
        with self.lock:
            batch = self.open
            # A forked child must not wait in a batch of its parent's.
            if batch is None or batch.request is not request or self._over():
                self.open = None
                batch = Batch(self, request)
                self._post(batch)
                # Interrupted here, it is a batch without calls.
                self.open = batch
            batch.calls.append((item, future))
            self.added += 1
            if len(batch.calls) >= CALLS_A_MESSAGE:
                self.open = None


class Batch:
    """Calls of one kind."""

    __slots__ = ("_outbox", "calls", "request")

    def __init__(self, outbox: Outbox, request: Request) -> None:
        self._outbox = outbox
        self.request = request
        self.calls: list[Call] = []

    def take(self) -> list[Call]:
        """The calls, to which none is added from now on."""
        with self._outbox.lock:
            if self._outbox.open is self:
                self._outbox.open = None
        return self.calls
