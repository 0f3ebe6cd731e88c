"""Sockets for asyncio: send, recv and poll return futures.

A socket belongs to the thread of its event loop: see `mq.socket_waiters`.
"""

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

from mq import context as blocking_context
from mq import poller as blocking_poller
from mq import socket as blocking_socket
from mq.constants import Errno, Flag, PollEvent, SocketOption
from mq.core.options import check_linger
from mq.errors import Again, ContextTerminated, ZMQError
from mq.socket_waiters import (
    IN,
    OUT,
    DescriptorCopy,
    Future,
    SocketOperation,
    SocketWaiters,
    waiters_of,
)
from mq.timeouts import check_timeout

_DONTWAIT = int(Flag.DONTWAIT)


class Poller(blocking_poller.Poller):
    """`poll` returns a future. Takes blocking sockets and descriptors too."""

    def poll(self, timeout: float | None = -1) -> Any:
        """Return a future of pairs of socket and events; `timeout` in ms, None: for ever.

        ENOTSOCK for a closed socket; if a socket closes later, the future is cancelled. ValueError
        for NaN.
        """
        check_timeout(timeout)
        loop = asyncio.get_running_loop()
        future: Future = loop.create_future()
        operation = _PollOperation(loop, list(self.sockets), future)
        if timeout == 0:
            _resolve(future, operation.present_events)
            return future
        if timeout is not None and timeout > 0:
            timer = loop.call_later(timeout / 1000, operation.check, True)
            future.add_done_callback(lambda _: timer.cancel())
        operation.start()
        return future


class _PollOperation:
    """One call of `Poller.poll`: watches sockets in the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, sockets: list[tuple[Any, int]], future: Future
    ) -> None:
        self._loop = loop
        self._sockets = sockets
        self._future = future
        self._undo: list[Callable[[], Any]] = []
        future.add_done_callback(self._undo_all)

    def start(self) -> None:
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
            self._watch_socket(waiters_of(thing), flags)
        else:
            self._watch_descriptor(blocking_poller.descriptor_of(thing), flags)

    def _watch_socket(self, waiters: SocketWaiters, flags: int) -> None:
        for event, queue in ((IN, waiters.receiving), (OUT, waiters.sending)):
            if flags & event:
                ready: Future = self._loop.create_future()
                waiters.enqueue(queue, SocketOperation(ready, self._attempt))
                ready.add_done_callback(self._on_ready)
                self._undo.append(ready.cancel)

    def _attempt(self) -> None:
        self.check()  # at once: the next operation may take the message
        if not self._future.done():
            raise Again

    def _watch_descriptor(self, descriptor: int, flags: int) -> None:
        copy = DescriptorCopy(descriptor)
        if flags & IN:
            self._loop.add_reader(copy.fd, self.check)
            self._undo.append(lambda: self._loop.remove_reader(copy.fd))
        if flags & OUT:
            self._loop.add_writer(copy.fd, self.check)
            self._undo.append(lambda: self._loop.remove_writer(copy.fd))
        self._undo.append(copy.close)

    def _on_ready(self, ready: Future) -> None:
        if ready.cancelled():
            self._future.cancel()  # the socket was closed
        elif ready.exception() is not None:
            self.check()  # finds the same failure of the socket

    def check(self, time_up: bool = False) -> None:
        if self._future.done():
            return
        try:
            found = self.present_events()
        except Exception as error:  # noqa: BLE001 - the future's to report
            if isinstance(error, ZMQError) and error.errno == Errno.ENOTSOCK:
                self._future.cancel()  # closed meanwhile
            else:
                self._future.set_exception(error)
            return
        if found or time_up:
            self._future.set_result(found)

    def present_events(self) -> list[tuple[Any, int]]:
        try:
            return blocking_poller.zmq_poll(self._sockets, 0)
        finally:  # the poll may have consumed the edge, for which other operations wait
            for thing, _ in self._sockets:
                if isinstance(thing, blocking_socket.Socket):
                    waiters_of(thing).schedule()

    def _undo_all(self, _: Future) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()


class Socket(blocking_socket.Socket):
    """A blocking socket whose send, recv and poll return futures."""

    _poller_class: ClassVar[type[blocking_poller.Poller]] = Poller
    _repr_cls = "zmq.asyncio.Socket"
    _blocking: blocking_socket.Socket
    _waiters: SocketWaiters
    _recv_futures: deque[SocketOperation]  # both named as in pyzmq, whose tests look at them
    _send_futures: deque[SocketOperation]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._blocking = blocking_socket.Socket(shadow=self)
        self._blocking._shadow_obj = None  # no cycle: the last reference gone, the socket closes
        self._blocking.copy_threshold = self.copy_threshold
        self._waiters = waiters_of(self)
        self._recv_futures, self._send_futures = self._waiters.receiving, self._waiters.sending
        if not self._shadow:
            self._waiters.has_handle = True

    def get(self, option: int) -> Any:
        found = super().get(option)
        self._waiters.schedule()  # EVENTS may have consumed the edge
        return found

    getsockopt = get

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
        return self._submit(
            lambda: getattr(self._blocking, kind)(*args, flags=int(flags) | _DONTWAIT, **kwargs),
            self._recv_futures,
            flags,
            SocketOption.RCVTIMEO,
        )

    def _send(self, kind: str, data: Any, flags: int, *args: Any, **kwargs: Any) -> Future:
        return self._submit(
            lambda: getattr(self._blocking, kind)(data, int(flags) | _DONTWAIT, *args, **kwargs),
            self._send_futures,
            flags,
            SocketOption.SNDTIMEO,
        )

    def _submit(
        self, call: Callable[[], Any], queue: deque[SocketOperation], flags: int, option: int
    ) -> Future:
        """Make the call at once, or after the operations that wait.

        The call keeps the handle alive.
        """
        loop = asyncio.get_running_loop()
        operation = SocketOperation(loop.create_future(), call)
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

    def unbind(self, addr: str | bytes) -> None:
        super().unbind(addr)
        self._waiters.schedule()

    def disconnect(self, addr: str | bytes) -> None:
        super().disconnect(addr)
        self._waiters.schedule()

    def close(self, linger: int | None = None) -> None:
        """Close the socket; cancel the operations that wait. `linger`: see `mq.Socket`."""
        check_linger(linger)
        if not self.closed:
            self._waiters.cancel()
        super().close(linger)


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
