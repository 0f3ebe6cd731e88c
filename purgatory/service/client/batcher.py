"""CallBatcher: hands calls from a client's threads to its I/O thread, a batch at a time.

A call joins the open batch; only a new batch is posted. So the I/O thread is woken once for many
calls, and takes them at once. A batch holds calls of one kind, and a call of another kind opens the
next one: the calls of one thread stay in order.

Any thread may use `add` and `wait_for_room`; `CallBatch.take` and `set_finished_calls` are for the
I/O thread.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final, TypeVar

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.job_messages import EndDead, Finish, Keep, ReadDead, Work
from purgatory.service.protocol import (
    Acknowledge,
    Cancel,
    Complete,
    Extend,
    Fail,
    Query,
    ReadOperations,
    Stats,
    Submit,
    Unread,
)
from timingwheel.lowlevel import new_hot_condition

#: Calls in one message, and in one batch, at most.
CALLS_PER_MESSAGE: Final = 512
#: High-water mark: more calls than this may not be unsent when a batch is opened.
BACKLOG: Final = 50_000

RequestType = (
    type[Submit]
    | type[Complete]
    | type[Fail]
    | type[Cancel]
    | type[Extend]
    | type[Query]
    | type[Stats]
    | type[Unread]
    | type[Acknowledge]
    | type[Work]
    | type[Keep]
    | type[Finish]
    | type[ReadDead]
    | type[EndDead]
    | type[ReadOperations]
)
#: An item of the request (None for stats, fields of those that have several), and its reply.
Call = tuple[Any, ReplyFuture[Any]]

_I = TypeVar("_I")


def in_messages(items: Iterable[_I]) -> Iterator[list[_I]]:
    """Yield items in portions, each of as many as a message may name."""
    rest = iter(items)
    while portion := list(islice(rest, CALLS_PER_MESSAGE)):
        yield portion


class CallBatcher:
    """The calls that are not sent yet, and the backpressure on callers.

    `post` hands a batch to the I/O thread, or raises. `is_closed` tells whether it takes no more.
    `send_now` sends a call at once, or returns False.
    `backlog` is the number of unsent calls at which `wait_for_room` blocks.
    """

    def __init__(
        self,
        post: "Callable[[CallBatch], None]",
        is_closed: Callable[[], bool],
        send_now: Callable[[RequestType, Any, ReplyFuture[Any]], bool],
        backlog: int = BACKLOG,
    ) -> None:
        self._post = post
        self._is_closed = is_closed
        self._send_now = send_now
        self._backlog = backlog
        # Guards `open_batch`, `calls_added` and the calls of the batches. Re-entrant, as a
        # finalizer that runs while it is held may make a call.
        self.lock: threading.RLock = threading.RLock()
        self.open_batch: CallBatch | None = None  # posted, and still takes calls
        self.calls_added: int = 0  # since the start
        # Calls that were sent or failed, since the start. Written by the I/O thread, under the lock
        # of the condition, which is re-entrant for the same reason, and a leaf lock.
        self._finished_calls = 0
        self._room = new_hot_condition()
        self._waiting = 0  # callers, for room

    def add(self, request: RequestType, item: Any, future: ReplyFuture[Any]) -> None:
        """Send a call, or add it to the open batch or a new one. Raises what `post` raises."""
        with self.lock:
            batch = self.open_batch
            if batch is None and self._send_now(request, item, future):
                self.calls_added += 1
                return
            # A forked child must not add to a batch of its parent's.
            if batch is None or batch.request is not request or self._is_closed():
                self.open_batch = None
                batch = CallBatch(self, request)
                self._post(batch)
                # An interrupt here leaves an empty batch.
                self.open_batch = batch
            batch.calls.append((item, future))
            self.calls_added += 1
            if len(batch.calls) >= CALLS_PER_MESSAGE:
                self.open_batch = None

    def has_room(self) -> bool:
        """Tell whether a batch may be opened now: the backlog is not full, or all is closed."""
        return self.calls_added - self._finished_calls <= self._backlog or self._is_closed()

    def wait_for_room(self) -> None:
        """Block the caller until the backlog is no longer full, or the I/O thread has ended."""
        with self._room:
            self._waiting += 1
            try:
                self._room.wait_for(self.has_room)
            finally:
                self._waiting -= 1

    def set_finished_calls(self, count: int) -> None:
        """Note how many calls were sent or failed since the start, and wake blocked callers.

        The I/O thread calls it once more after it has closed its mailbox: that ends all waits.
        """
        with self._room:
            self._finished_calls = count
            if self._waiting and self.has_room():
                self._room.notify_all()


class CallBatch:
    """Calls of one kind."""

    __slots__ = ("_batcher", "calls", "request")

    def __init__(self, batcher: CallBatcher, request: RequestType) -> None:
        self._batcher = batcher
        self.request: RequestType = request
        self.calls: list[Call] = []

    def take(self) -> list[Call]:
        """Close the batch and return its calls. Called by the I/O thread."""
        with self._batcher.lock:
            if self._batcher.open_batch is self:
                self._batcher.open_batch = None
        return self.calls
