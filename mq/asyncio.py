"""Sockets for asyncio: send, recv and poll return futures, and wait through the socket's FD.

Who may call it: the thread of a running event loop; a socket serves one loop at a time.

The descriptor is edge-triggered.  So whenever it speaks, the socket's events are asked for, every
operation that can go on does, and only when none can is the descriptor waited for again.
"""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop, Future
from collections import deque
from collections.abc import Callable
from errno import ENOTSOCK
from typing import Any

import mq
from mq.constants import DONTWAIT, POLLIN, POLLOUT
from mq.errors import Again, ZMQError
from mq.poller import zmq_poll

_DONTWAIT = int(DONTWAIT)


class _Waiting:
    """An operation that waits for its turn."""

    __slots__ = ("attempt", "future", "is_poll")

    def __init__(
        self, future: Future[Any], attempt: Callable[[], Any], *, is_poll: bool = False
    ) -> None:
        self.future = future
        self.attempt = attempt
        self.is_poll = is_poll


class Socket(mq.Socket):
    """A `mq.Socket` whose operations return futures.  `Socket(other)` gives a socket this plain."""

    _recv_futures: deque[_Waiting]
    _send_futures: deque[_Waiting]
    _loop: AbstractEventLoop | None = None  # where our reader is registered
    _fd = -1
    _plain_face: mq.Socket | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._recv_futures = deque()
        self._send_futures = deque()
        super().__init__(*args, **kwargs)

    def close(self, linger: int | None = None) -> None:
        """Close the socket; what waits is cancelled."""
        if not self.closed:
            for waiting in [*self._recv_futures, *self._send_futures]:
                waiting.future.cancel()
            self._recv_futures.clear()
            self._send_futures.clear()
            self._watch_descriptor()
        super().close(linger)

    # Operations

    def send(
        self,
        data: Any,
        flags: int = 0,
        copy: bool = True,
        track: bool = False,
        routing_id: int | None = None,
        group: str | None = None,
    ) -> Any:
        """As `mq.Socket.send`."""
        plain = self._plain()
        return self._start_send(
            lambda: plain.send(data, flags | _DONTWAIT, copy, track, routing_id, group), flags
        )

    def send_multipart(
        self, msg_parts: Any, flags: int = 0, copy: bool = True, track: bool = False, **kw: Any
    ) -> Any:
        """As `mq.Socket.send_multipart`."""
        plain = self._plain()
        return self._start_send(
            lambda: plain.send_multipart(
                msg_parts, flags | _DONTWAIT, copy=copy, track=track, **kw
            ),
            flags,
        )

    def recv(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """As `mq.Socket.recv`."""
        plain = self._plain()
        return self._start_recv(
            lambda: plain.recv(flags | _DONTWAIT, copy=copy, track=track), flags
        )

    def recv_into(self, buffer: Any, /, *, nbytes: int = 0, flags: int = 0) -> Any:
        """As `mq.Socket.recv_into`."""
        plain = self._plain()
        return self._start_recv(
            lambda: plain.recv_into(buffer, nbytes=nbytes, flags=flags | _DONTWAIT), flags
        )

    def recv_multipart(self, flags: int = 0, copy: bool = True, track: bool = False) -> Any:
        """As `mq.Socket.recv_multipart`."""
        plain = self._plain()
        return self._start_recv(
            lambda: plain.recv_multipart(flags | _DONTWAIT, copy=copy, track=track), flags
        )

    def poll(self, timeout: float | None = None, flags: int = int(POLLIN)) -> Any:
        """As `mq.Socket.poll`."""
        if self.closed:
            raise ZMQError(ENOTSOCK)
        poller = Poller()
        poller.register(self, flags)
        return _then(poller.poll(timeout), lambda events: dict(events).get(self, 0))

    def _deserialize(self, recvd: Any, load: Callable[[Any], Any]) -> Any:
        return _then(recvd, load)

    def _plain(self) -> mq.Socket:
        """The same socket without futures, whose methods call each other."""
        if self._plain_face is None:
            self._plain_face = mq.Socket.shadow(self.underlying)
        self._plain_face.copy_threshold = self.copy_threshold
        return self._plain_face

    # Waiting

    def _start_recv(self, attempt: Callable[[], Any], flags: int) -> Future[Any]:
        timeout_ms = self.underlying.options.rcvtimeo
        return self._start(self._recv_futures, attempt, flags, timeout_ms)

    def _start_send(self, attempt: Callable[[], Any], flags: int) -> Future[Any]:
        timeout_ms = self.underlying.options.sndtimeo
        return self._start(self._send_futures, attempt, flags, timeout_ms)

    def _start(
        self,
        queue: deque[_Waiting],
        attempt: Callable[[], Any],
        flags: int,
        timeout_ms: int,
    ) -> Future[Any]:
        loop = asyncio.get_running_loop()
        waiting = _Waiting(loop.create_future(), attempt)
        # Nobody overtakes who waits already, unless he asked not to wait.
        if (not queue or flags & _DONTWAIT) and self._try(waiting, last=bool(flags & _DONTWAIT)):
            return waiting.future
        self._enqueue(queue, waiting)
        if timeout_ms >= 0:
            timer = loop.call_later(timeout_ms / 1000, _time_out, waiting.future)
            waiting.future.add_done_callback(lambda _: timer.cancel())
        self._go_on()
        return waiting.future

    def _enqueue(self, queue: deque[_Waiting], waiting: _Waiting) -> None:
        queue.append(waiting)

        def forget(_: Future[Any]) -> None:
            if waiting in queue:
                queue.remove(waiting)
            self._watch_descriptor()

        waiting.future.add_done_callback(forget)

    def watch(self, flags: int) -> Future[Any]:
        """A future done as soon as one of the events `flags` is there; cancel it to stop."""
        future = asyncio.get_running_loop().create_future()
        base = self.underlying
        queue = self._recv_futures if flags & POLLIN else self._send_futures

        def attempt() -> int:
            events = base.events() & flags
            if not events:
                raise Again
            return events

        self._enqueue(queue, _Waiting(future, attempt, is_poll=True))
        self._go_on()
        return future

    def _try(self, waiting: _Waiting, *, last: bool = False) -> bool:
        """Attempt; whether the future is done.  The last attempt takes Again for the answer."""
        future = waiting.future
        if future.done():
            return True
        try:
            result = waiting.attempt()
        except Again as exc:
            if last:
                future.set_exception(exc)
            return last
        except Exception as exc:  # noqa: BLE001 - whatever it is, it belongs to who awaits
            future.set_exception(exc)
            return True
        future.set_result(result)
        return True

    def _go_on(self) -> None:
        """Let every operation go on that can."""
        if self.closed:
            return
        progress = True
        while progress and (self._recv_futures or self._send_futures):
            progress = False
            for queue in (self._recv_futures, self._send_futures):
                while queue and self._try(queue[0]):
                    queue.popleft()
                    progress = True
                for waiting in list(queue)[1:]:  # a poll does not wait for its turn
                    if waiting.is_poll and self._try(waiting):
                        queue.remove(waiting)
        self._watch_descriptor()

    def _on_readable(self) -> None:
        if self.closed:
            return
        try:
            self.underlying.events()  # hears all commands, and silences the descriptor
        except ZMQError:
            pass  # the operations will say so themselves
        self._go_on()
        self._go_on_again()

    def _go_on_again(self) -> None:
        # What came while we were at it gives no second signal.
        if self._loop is None or self.closed:
            return
        try:
            events = self.underlying.events()
        except ZMQError:
            return
        wanted = (POLLIN if self._recv_futures else 0) | (POLLOUT if self._send_futures else 0)
        if events & wanted:
            self._loop.call_soon(self._on_readable)

    def _watch_descriptor(self) -> None:
        """Have a reader in the running loop exactly while something waits."""
        wanted = bool(self._recv_futures or self._send_futures) and not self.closed
        if not wanted:
            self._unwatch_descriptor()
            return
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._unwatch_descriptor()
            self._loop, self._fd = loop, self.underlying.mailbox.fileno()
            loop.add_reader(self._fd, self._on_readable)

    def _unwatch_descriptor(self) -> None:
        loop, self._loop = self._loop, None
        if loop is not None and not loop.is_closed():
            loop.remove_reader(self._fd)


def _time_out(future: Future[Any]) -> None:
    if not future.done():
        future.set_exception(Again())


def _then(source: Future[Any], load: Callable[[Any], Any]) -> Future[Any]:
    """A future for what `load` makes of `source`'s result; cancelling it cancels `source`."""
    target: Future[Any] = asyncio.get_running_loop().create_future()

    def finish(done: Future[Any]) -> None:
        if target.done():
            return
        if done.cancelled():
            target.cancel()
            return
        try:
            target.set_result(load(done.result()))
        except Exception as exc:  # noqa: BLE001 - it belongs to who awaits
            target.set_exception(exc)

    def pass_cancellation(done: Future[Any]) -> None:
        if done.cancelled() and not source.done():
            source.cancel()

    target.add_done_callback(pass_cancellation)
    if source.done():
        finish(source)
    else:
        source.add_done_callback(finish)
    return target


class Poller(mq.Poller):
    """A `mq.Poller` whose `poll` returns a future."""

    def poll(self, timeout: float | None = None) -> Any:
        """As `mq.Poller.poll`."""
        loop = asyncio.get_running_loop()
        future: Future[Any] = loop.create_future()
        items = list(self.sockets)
        try:
            ready = zmq_poll(items, 0)
        except ZMQError as exc:
            future.set_exception(exc)
            return future
        if ready or timeout == 0:
            future.set_result(ready)
            return future
        _Poll(loop, future, items, timeout)
        return future


class _Poll:
    """One poll under way: watches all its items until one of them is ready, or the time is up."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        future: Future[Any],
        items: list[tuple[Any, int]],
        timeout: float | None,
    ) -> None:
        self._loop = loop
        self._future = future
        self._items = items
        self._watches: list[Future[Any]] = []
        self._descriptors: list[tuple[int, int]] = []
        self._timer = None
        if timeout is not None and timeout >= 0:
            self._timer = loop.call_later(timeout / 1000, self._finish)
        future.add_done_callback(lambda _: self._stop())
        for item, flags in items:
            self._watch(item, flags)

    def _watch(self, item: Any, flags: int) -> None:
        if isinstance(item, mq.Socket):
            socket = item if isinstance(item, Socket) else Socket(item)
            watch = socket.watch(flags)
            self._watches.append(watch)
            watch.add_done_callback(self._on_watch)
            return
        fd = item if isinstance(item, int) else item.fileno()
        self._descriptors.append((fd, flags))
        if flags & POLLIN:
            self._loop.add_reader(fd, self._finish)
        if flags & POLLOUT:
            self._loop.add_writer(fd, self._finish)

    def _on_watch(self, watch: Future[Any]) -> None:
        if self._future.done():
            return
        if watch.cancelled():
            self._future.cancel()  # the socket was closed
        else:
            self._finish()

    def _finish(self) -> None:
        if self._future.done():
            return
        try:
            self._future.set_result(zmq_poll(self._items, 0))
        except ZMQError as exc:
            self._future.set_exception(exc)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for watch in self._watches:
            if watch.done() and not watch.cancelled():
                watch.exception()  # seen
            watch.cancel()
        for fd, flags in self._descriptors:
            if flags & POLLIN:
                self._loop.remove_reader(fd)
            if flags & POLLOUT:
                self._loop.remove_writer(fd)


class Context(mq.Context):
    """A `mq.Context` whose sockets are asyncio's."""

    _socket_class = Socket
    _instance = None
