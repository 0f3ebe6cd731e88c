"""Sockets for asyncio: send, recv and poll return futures.

A socket belongs to the thread of its event loop, which watches the socket's descriptor. That is
edge-triggered: so the events are read after every operation, and again in the next turn of the loop
while an operation waits.
"""

import asyncio
import os
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from mq import context as blocking_context
from mq import poller as blocking_poller
from mq import socket as blocking_socket
from mq.constants import Errno, Flag, PollEvent, SocketOption
from mq.core.options import check_linger
from mq.errors import Again, ContextTerminated, ZMQError
from mq.sockets import SocketBase
from mq.timeouts import check_timeout

_IN = int(PollEvent.POLLIN)
_OUT = int(PollEvent.POLLOUT)
_DONTWAIT = int(Flag.DONTWAIT)

Future = asyncio.Future[Any]


class _Operation:
    """A future, and the call for its result; None for a poll."""

    __slots__ = ("call", "future", "timer")

    def __init__(self, future: Future, call: Callable[[], Any] | None) -> None:
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
            result = None if self.call is None else self.call()
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


class Poller(blocking_poller.Poller):
    """`poll` returns a future. Takes blocking sockets and descriptors too."""

    def poll(self, timeout: float | None = -1) -> Any:
        """Return a future of pairs of socket and events; `timeout` in ms, None: for ever.

        ENOTSOCK if a socket is closed; if one closes later, the future is cancelled. ValueError for
        NaN.
        """
        check_timeout(timeout)
        loop = asyncio.get_running_loop()
        future: Future = loop.create_future()
        if timeout == 0:
            _resolve(future, lambda: blocking_poller.zmq_poll(self.sockets, 0))
            return future
        operation = _PollOperation(loop, list(self.sockets), future)
        if timeout is not None and timeout > 0:
            timer = loop.call_later(timeout / 1000, operation.check, True)
            future.add_done_callback(lambda _: timer.cancel())
        operation.start()
        return future


class _DescriptorCopy:
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


class _PollOperation:
    """One call of `Poller.poll`: watches sockets in the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sockets: list[tuple[Any, int]], future: Future
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._future = future
        self._undo: list[Callable[[], Any]] = []
        self._waiters: list[_Waiters] = []
        self._watching: dict[int, Future] = {}  # by queue: resolved at its turn with an event
        future.add_done_callback(self._undo_all)

    def start(self) -> None:
        """Watch all sockets and descriptors, and check them once."""
        try:
            for thing, flags in self._sockets:
                self._watch(thing, flags)
        except Exception as error:  # noqa: BLE001 - the future's to report
            self._future.set_exception(error)
            return
        handle = self._loop.call_soon(self.check)
        self._undo.append(handle.cancel)

    def _watch(self, thing: Any, flags: int) -> None:
        if isinstance(thing, blocking_socket.Socket):
            self._watch_socket(_waiters_of(thing), flags)
        else:
            self._watch_descriptor(blocking_poller.descriptor_of(thing), flags)

    def _watch_socket(self, waiters: "_Waiters", flags: int) -> None:
        self._waiters.append(waiters)
        for event, queue in ((_IN, waiters.receiving), (_OUT, waiters.sending)):
            if flags & event:
                self._watch_queue(waiters, queue)
                self._undo.append(partial(self._stop_watching, id(queue)))

    def _watch_queue(self, waiters: "_Waiters", queue: deque[_Operation]) -> None:
        ready: Future = self._loop.create_future()
        waiters.enqueue(queue, _Operation(ready, None))
        ready.add_done_callback(partial(self._on_ready, waiters, queue))
        self._watching[id(queue)] = ready

    def _stop_watching(self, key: int) -> None:
        self._watching[key].cancel()

    def _watch_descriptor(self, descriptor: int, flags: int) -> None:
        copy = _DescriptorCopy(descriptor)
        if flags & _IN:
            self._loop.add_reader(copy.fd, self.check)
            self._undo.append(lambda: self._loop.remove_reader(copy.fd))
        if flags & _OUT:
            self._loop.add_writer(copy.fd, self.check)
            self._undo.append(lambda: self._loop.remove_writer(copy.fd))
        self._undo.append(copy.close)

    def _on_ready(self, waiters: "_Waiters", queue: deque[_Operation], ready: Future) -> None:
        if ready.cancelled():
            self._future.cancel()  # the socket was closed
            return
        ready.exception()  # of a socket that has failed: `check` finds the same
        self.check()
        if not self._future.done():  # another operation has taken the message
            self._watch_queue(waiters, queue)

    def check(self, time_up: bool = False) -> None:
        """Resolve the future if there are events, or time is up."""
        if self._future.done():
            return
        try:
            found = blocking_poller.zmq_poll(self._sockets, 0)
        except Exception as error:  # noqa: BLE001 - the future's to report
            if isinstance(error, ZMQError) and error.errno == Errno.ENOTSOCK:
                self._future.cancel()  # closed meanwhile
            else:
                self._future.set_exception(error)
            return
        if found or time_up:
            self._future.set_result(found)
        for waiters in self._waiters:
            waiters.schedule()  # the check may have consumed the edge that others wait for

    def _undo_all(self, _: Future) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()


class _Waiters:
    """The waiting operations of one socket, whichever handle began them."""

    def __init__(self, core: SocketBase) -> None:
        self._core = core
        self.receiving: deque[_Operation] = deque()
        self.sending: deque[_Operation] = deque()
        self.has_handle = False  # of asyncio and no shadow, which unwatches when it is closed
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop watching the descriptor
        self._fd = -1  # the descriptor that is watched
        self._copy: _DescriptorCopy | None = None  # of a blocking socket, which may close any time
        self._scheduled_in: asyncio.AbstractEventLoop | None = None  # where `_run_scheduled` is due

    def enqueue(self, queue: deque[_Operation], operation: _Operation) -> None:
        """Have an operation wait in one of the two queues. ENOTSOCK or ETERM."""
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
        self._copy = None if self.has_handle else _DescriptorCopy(fd)
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

    def _remove(self, queue: deque[_Operation], operation: _Operation) -> None:
        if operation.timer is not None:
            operation.timer.cancel()
        with suppress(ValueError):  # it is done
            queue.remove(operation)
        # A handle unwatches when it closes.
        if not (self.has_handle or self.receiving or self.sending):
            self.unwatch()

    def schedule(self) -> None:
        """Look at the events again in the next turn of the loop, if an operation waits."""
        # An operation may have consumed the edge that the descriptor would have signalled.
        loop = self._loop
        if loop is None or self._scheduled_in is loop or not (self.receiving or self.sending):
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
            progress = bool(events & _IN and _advance(self.receiving))
            progress |= bool(events & _OUT and _advance(self.sending))

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
_waiters: "WeakValueDictionary[int, _Waiters]" = WeakValueDictionary()


def _waiters_of(socket: blocking_socket.Socket) -> _Waiters:
    found = _waiters.get(socket.underlying)
    if found is None:
        found = _waiters[socket.underlying] = _Waiters(socket._core)
    return found


class Socket(blocking_socket.Socket):
    """As a blocking socket, but send, recv and poll return futures."""

    _poller_class: ClassVar[type[blocking_poller.Poller]] = Poller
    _repr_cls = "zmq.asyncio.Socket"
    _blocking: blocking_socket.Socket
    _waiters: _Waiters
    _recv_futures: deque[_Operation]  # both named as in pyzmq, whose tests look at them
    _send_futures: deque[_Operation]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._blocking = blocking_socket.Socket(shadow=self)
        self._blocking.copy_threshold = self.copy_threshold
        self._waiters = _waiters_of(self)
        self._recv_futures, self._send_futures = self._waiters.receiving, self._waiters.sending
        if not self._shadow:
            self._waiters.has_handle = True

    # -- operations --------------------------------------------------------------------------

    def recv(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """Return a future of the next part."""
        return self._receive("recv", flags, copy=copy, track=track)

    def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """Return a future of the next message, as a list."""
        return self._receive("recv_multipart", flags, copy=copy, track=track)

    def recv_into(self, buffer: Any, /, *, nbytes: int = 0, flags: int = 0) -> Any:
        """Return a future of the size of the next part, written into `buffer`."""
        return self._receive("recv_into", flags, buffer, nbytes=nbytes)

    def send(self, data: Any, flags: int = 0, *args: Any, **kwargs: Any) -> Any:
        """Return a future that is done when the data is queued."""
        return self._send("send", data, flags, *args, **kwargs)

    def send_multipart(self, msg_parts: Any, flags: int = 0, *args: Any, **kwargs: Any) -> Any:
        """Return a future that is done when the parts are queued."""
        return self._send("send_multipart", msg_parts, flags, *args, **kwargs)

    def poll(self, timeout: float | None = None, flags: int = PollEvent.POLLIN) -> Any:
        """Return a future of the present events; `timeout` in ms, None: for ever."""
        if self.closed:
            raise ZMQError(Errno.ENOTSUP)
        poller = Poller()
        poller.register(self, flags)
        return _then(poller.poll(timeout), lambda found: dict(found).get(self, 0))

    def _receive(self, kind: str, flags: int, *args: Any, **kwargs: Any) -> Future:
        receive = getattr(self._blocking, kind)
        return self._submit(
            lambda: receive(*args, flags=int(flags) | _DONTWAIT, **kwargs),
            self._recv_futures,
            flags,
            SocketOption.RCVTIMEO,
        )

    def _send(self, kind: str, data: Any, flags: int, *args: Any, **kwargs: Any) -> Future:
        send = getattr(self._blocking, kind)
        return self._submit(
            lambda: send(data, int(flags) | _DONTWAIT, *args, **kwargs),
            self._send_futures,
            flags,
            SocketOption.SNDTIMEO,
        )

    def _submit(
        self, call: Callable[[], Any], queue: deque[_Operation], flags: int, option: int
    ) -> Future:
        """Make the call at once, or after the operations that wait."""
        loop = asyncio.get_running_loop()
        operation = _Operation(loop.create_future(), call)
        if (not queue or flags & _DONTWAIT) and operation.attempt():
            self._waiters.schedule()
        elif flags & _DONTWAIT:
            operation.expire()
        elif (timeout := self._blocking.get(option)) >= 0:
            operation.timer = loop.call_later(timeout / 1000, operation.expire)
            self._waiters.enqueue(queue, operation)
        elif sys.is_finalizing():  # no thread is left to end the wait
            operation.future.set_exception(ContextTerminated())
        else:
            self._waiters.enqueue(queue, operation)
        return operation.future

    def _deserialize(self, received: Any, load: Callable[[Any], Any]) -> Any:
        return _then(received, load)

    def _with_address(self, call: Callable[[str], None], address: str) -> None:
        super()._with_address(call, address)  # a bind or connect, which processes commands
        self._waiters.schedule()

    def close(self, linger: int | None = None) -> None:
        """Close the socket; cancel the operations that wait. See `mq.Socket` for a bad `linger`."""
        check_linger(linger)
        if not self.closed:
            self._waiters.cancel()
        super().close(linger)


def _advance(queue: deque[_Operation]) -> bool:
    # Let the first operation that waits try; True if it is done.
    while queue and queue[0].is_over:
        queue.popleft()
    return bool(queue) and queue[0].attempt() and bool(queue.popleft())


def _resolve(future: Future, call: Callable[[], Any]) -> None:
    try:
        result = call()
    except Exception as error:  # noqa: BLE001 - the future's to report
        future.set_exception(error)
    else:
        future.set_result(result)


def _then(source: Future, convert: Callable[[Any], Any]) -> Future:
    """Return a future of `convert(result)`; cancelling it cancels the source."""
    future: Future = source.get_loop().create_future()

    def forward(_: Future) -> None:
        if future.done():
            return
        if source.cancelled():
            future.cancel()
        else:
            _resolve(future, lambda: convert(source.result()))

    def cancel(_: Future) -> None:
        if not source.done():
            source.cancel()

    if source.done():
        forward(source)
    else:
        source.add_done_callback(forward)
        future.add_done_callback(cancel)
    return future


class Context(blocking_context.Context[Socket]):
    """A context that makes asyncio sockets."""

    _socket_class = Socket
    _repr_cls = "zmq.asyncio.Context"
    _instance: ClassVar[Any] = None


__all__ = ["Context", "Poller", "Socket"]
