"""proxy and device: pass messages on between two sockets, until the context ends.

Who may call it: the thread that uses the sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mq.constants import DONTWAIT, EAGAIN, SNDMORE
from mq.errors import ContextTerminated, ZMQError
from mq.poller import POLLIN, POLLOUT, Poller

if TYPE_CHECKING:
    from mq.socket import Socket

#: Messages passed on in one direction before the other is looked at.
_BURST = 1000


def proxy(frontend: Socket, backend: Socket, capture: Socket | None = None) -> None:
    """Pass messages on both ways, and a copy of each to `capture`.

    Never returns; raises ContextTerminated when the context ends, ENOTSOCK when a socket closes.
    A message is only taken when the other side has room for it.
    """
    poller = Poller()
    poller.register(frontend, POLLIN)
    if backend is not frontend:
        poller.register(backend, POLLIN)
    while True:
        ready = dict(poller.poll())
        moved = 0
        for source, target in ((frontend, backend), (backend, frontend)):
            if ready.get(source, 0) & POLLIN:
                moved += _pass_on(source, target, capture)
        if not moved:
            _await_room(frontend, backend, ready)


def _await_room(frontend: Socket, backend: Socket, ready: dict[Any, int]) -> None:
    """Wait for room behind what can be read, or for something to read on the other side."""
    poller = Poller()
    for source, target in ((frontend, backend), (backend, frontend)):
        flags = POLLOUT if ready.get(target, 0) & POLLIN else POLLIN
        poller.register(source, flags)
        del target
    poller.poll()


def _pass_on(source: Socket, target: Socket, capture: Socket | None) -> int:
    for moved in range(_BURST):
        if source is not target and not target.underlying.events() & POLLOUT:
            return moved
        try:
            _pass_on_message(source, target, capture)
        except ContextTerminated:
            raise
        except ZMQError as exc:
            if exc.errno == EAGAIN:
                return moved
            raise
    return _BURST


def _pass_on_message(source: Socket, target: Socket, capture: Socket | None) -> None:
    flags = int(DONTWAIT)
    while True:
        frame = source.recv(flags, copy=False)
        more = int(SNDMORE) if frame.more else 0
        if capture is not None:
            capture.send(frame, more, copy=False)
        target.send(frame, more, copy=False)
        if not more:
            return
        flags = 0


def device(device_type: int, frontend: Socket, backend: Socket | None = None) -> None:
    """A proxy under its old name; the type makes no difference, and one socket may be both ends."""
    del device_type
    proxy(frontend, frontend if backend is None else backend)
