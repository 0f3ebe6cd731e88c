"""SocketWaiters: the operations of one socket that wait in an event loop.

The loop watches the socket's descriptor, which is edge-triggered: so the events are read after
every operation, and in the next turn of the loop while one waits. For the loop's thread.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import WeakValueDictionary

from mq import socket as blocking_socket
from mq.constants import PollEvent, SocketOption
from mq.errors import Again, ZMQError
from mq.sockets import SocketBase

IN = int(PollEvent.POLLIN)
OUT = int(PollEvent.POLLOUT)

Future = asyncio.Future[Any]


class SocketOperation:
    """A future, and the call for the result; the call raises `Again` instead of blocking."""

    __slots__ = ("call", "future", "timer")

    def __init__(self, future: Future, call: Callable[[], Any]) -> None:
        self.future = future
        self.call = call
        self.timer: asyncio.TimerHandle | None = None

    @property
    def is_over(self) -> bool:
        """Whether the future is done, or never will be: its loop is closed."""
        return self.future.done() or self.future.get_loop().is_closed()

    def attempt(self) -> bool:
        """Call; False if it would block."""
        try:
            result = self.call()
        except Again:
            return False
        except Exception as error:  # noqa: BLE001 - the future's to report
            self.future.set_exception(error)
        else:
            self.future.set_result(result)
        return True

    def expire(self) -> None:
        """Raise `Again` from the future."""
        if not self.future.done():
            self.future.set_exception(Again())


class DescriptorCopy:
    """A descriptor of the same file: a loop has one reader and one writer for each number."""

    def __init__(self, descriptor: int) -> None:
        self.fd = os.dup(descriptor)

    def close(self) -> None:
        """Close the copy. Idempotent."""
        fd, self.fd = self.fd, -1
        if fd != -1:
            os.close(fd)

    def __del__(self) -> None:  # its loop was closed
        if hasattr(self, "fd"):
            self.close()


class SocketWaiters:
    """The waiting operations of one socket, of all handles."""

    def __init__(self, core: SocketBase) -> None:
        self._core = core
        self.receiving: deque[SocketOperation] = deque()
        self.sending: deque[SocketOperation] = deque()
        self.has_handle = False  # of asyncio and no shadow, which unwatches when it is closed
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop watching the descriptor
        self._fd = -1  # the descriptor that is watched
        self._copy: DescriptorCopy | None = None  # of a blocking socket, which may close any time
        self._scheduled_in: asyncio.AbstractEventLoop | None = None  # where `_run_scheduled` is due

    def enqueue(self, queue: deque[SocketOperation], operation: SocketOperation) -> None:
        """Let an operation wait in one of the two queues. ENOTSOCK or ETERM."""
        self._watch(asyncio.get_running_loop())
        queue.append(operation)
        operation.future.add_done_callback(lambda _: self._remove(queue, operation))
        self.schedule()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            return
        fd = self._core.get(SocketOption.FD)  # first: raises if the socket is closed
        assert isinstance(fd, int)
        self.unwatch()
        self._copy = None if self.has_handle else DescriptorCopy(fd)
        self._fd = fd if self._copy is None else self._copy.fd
        loop.add_reader(self._fd, self._handle_events)
        self._loop = loop

    def unwatch(self) -> None:
        """Watch the descriptor no more."""
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._fd)
        if self._copy is not None:
            self._copy.close()

    def _remove(self, queue: deque[SocketOperation], operation: SocketOperation) -> None:
        if operation.timer is not None:
            operation.timer.cancel()
        with suppress(ValueError):  # it is done
            queue.remove(operation)
        # A handle unwatches when it closes.
        if not (self.has_handle or self.receiving or self.sending):
            self.unwatch()

    def schedule(self) -> None:
        """Look at the events in the next turn of the loop, if an operation waits."""
        # An operation may have consumed the edge.
        loop = self._loop
        if loop is None or loop.is_closed() or self._scheduled_in is loop:
            return
        if not (self.receiving or self.sending):
            return
        loop.call_soon(self._run_scheduled)
        self._scheduled_in = loop

    def _run_scheduled(self) -> None:
        self._scheduled_in = None
        self._handle_events()

    def _handle_events(self) -> None:
        progress = True
        while progress and (self.receiving or self.sending):
            try:
                events = self._core.events()
            except ZMQError as error:
                self._fail(error)
                return
            progress = bool(events & IN and _advance(self.receiving))
            progress |= bool(events & OUT and _advance(self.sending))

    def _fail(self, error: ZMQError) -> None:
        self.unwatch()
        for operation in [*self.receiving, *self.sending]:
            if not operation.is_over:
                operation.future.set_exception(error)

    def cancel(self) -> None:
        """Cancel the operations that wait: the socket is being closed."""
        self.unwatch()
        for operation in [*self.receiving, *self.sending]:
            with suppress(RuntimeError):  # the operation's loop is closed
                operation.future.cancel()


#: By the number of the socket.
_waiters: "WeakValueDictionary[int, SocketWaiters]" = WeakValueDictionary()


def waiters_of(socket: blocking_socket.Socket) -> SocketWaiters:
    """Return the waiters of a socket, the same for all handles."""
    found = _waiters.get(socket.underlying)
    if found is None:
        found = _waiters[socket.underlying] = SocketWaiters(socket._core)
    return found


def _advance(queue: deque[SocketOperation]) -> bool:
    # Let the first operation that waits try; True if it is done.
    while queue and queue[0].is_over:
        queue.popleft()
    return bool(queue) and queue[0].attempt() and bool(queue.popleft())
