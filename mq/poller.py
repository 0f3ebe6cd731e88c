"""Poller and select: wait for several sockets and descriptors at once.

Who may call it: one thread at a time, the one that uses the sockets.
"""

from __future__ import annotations

import select as _select
import time
from collections.abc import Iterable
from errno import ENOTSOCK
from typing import Any

from mq.constants import PollEvent
from mq.errors import ZMQError

POLLIN, POLLOUT = int(PollEvent.POLLIN), int(PollEvent.POLLOUT)
#: ZeroMQ's numbers for events, and the system's.
_EVENTS = (
    (POLLIN, _select.POLLIN),
    (POLLOUT, _select.POLLOUT),
    (int(PollEvent.POLLERR), _select.POLLERR),
    (int(PollEvent.POLLPRI), _select.POLLPRI),
)


class Poller:
    """Sockets, descriptors and objects with a `fileno()`, each with the events to watch for."""

    def __init__(self) -> None:
        self.sockets: list[tuple[Any, int]] = []
        self._map: dict[Any, int] = {}

    def __contains__(self, socket: object) -> bool:
        return socket in self._map

    def register(self, socket: Any, flags: int = POLLIN | POLLOUT) -> None:
        """Watch `socket`; registered before, its flags are replaced; flags 0 forget it."""
        if flags:
            if socket in self._map:
                self.sockets[self._map[socket]] = (socket, flags)
            else:
                self._map[socket] = len(self.sockets)
                self.sockets.append((socket, flags))
        elif socket in self._map:
            self.unregister(socket)

    def modify(self, socket: Any, flags: int = POLLIN | POLLOUT) -> None:
        """The same as `register`."""
        self.register(socket, flags)

    def unregister(self, socket: Any) -> None:
        """Forget `socket`; KeyError when it is not known."""
        index = self._map.pop(socket)
        self.sockets.pop(index)
        for other, _ in self.sockets[index:]:
            self._map[other] -= 1

    def poll(self, timeout: float | None = None) -> Any:
        """What is ready within `timeout` milliseconds (None or negative: for ever).

        A list of (socket, events); a descriptor stands for objects that have one.  ENOTSOCK and
        ContextTerminated when a socket is closed or its context ends.
        """
        limit = None if timeout is None or timeout < 0 else timeout / 1000
        return zmq_poll(self.sockets, limit)


def zmq_poll(items: Iterable[tuple[Any, int]], timeout: float | None) -> list[tuple[Any, int]]:
    """As `Poller.poll`, over (socket, events), with a timeout in seconds."""
    sockets, descriptors, poll = _sort(items)
    deadline = None if timeout is None else time.monotonic() + timeout
    wait: float | None = 0
    while True:
        # A socket's descriptor only says that its events must be asked for, so they are asked for
        # at each turn, the first one included.
        ready = dict(poll.poll(wait))
        found = [(s, e) for s, flags in sockets if (e := s.underlying.events() & flags)]
        found += [
            (fd, e) for fd, flags in descriptors.items() if (e := _ours(ready.get(fd, 0)) & flags)
        ]
        remaining = None if deadline is None else deadline - time.monotonic()
        if found or (remaining is not None and remaining <= 0):
            return found
        wait = None if remaining is None else remaining * 1000


def _sort(items: Iterable[tuple[Any, int]]) -> tuple[list[tuple[Any, int]], dict[int, int], Any]:
    sockets, descriptors, poll = [], {}, _select.poll()
    for item, flags in items:
        if hasattr(item, "underlying"):
            if item.closed:
                raise ZMQError(ENOTSOCK)
            sockets.append((item, flags))
            poll.register(item.underlying.mailbox.fileno(), _select.POLLIN)
        else:
            fd = item if isinstance(item, int) else item.fileno()
            descriptors[fd] = flags
            poll.register(fd, _theirs(flags))
    return sockets, descriptors, poll


def _theirs(flags: int) -> int:
    return sum(system for ours, system in _EVENTS if flags & ours)


def _ours(flags: int) -> int:
    # A hang-up is readable (and says so), an error is reported to whoever watches for anything.
    if flags & _select.POLLHUP:
        flags |= _select.POLLIN
    return sum(ours for ours, system in _EVENTS if flags & system)


def select(
    rlist: Iterable[Any], wlist: Iterable[Any], xlist: Iterable[Any], timeout: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    """As `select.select`, for sockets too; `timeout` in seconds."""
    wanted: dict[Any, int] = {}
    for items, flag in ((rlist, POLLIN), (wlist, POLLOUT), (xlist, int(PollEvent.POLLERR))):
        for item in items:
            wanted[item] = wanted.get(item, 0) | flag
    limit = None if timeout is None or timeout < 0 else timeout
    ready = dict(zmq_poll(wanted.items(), limit))
    by_item = {item: ready.get(item) or ready.get(_fd(item)) or 0 for item in wanted}
    return (
        [item for item, events in by_item.items() if events & POLLIN],
        [item for item, events in by_item.items() if events & POLLOUT],
        [item for item, events in by_item.items() if events & PollEvent.POLLERR],
    )


def _fd(item: Any) -> Any:
    return item if isinstance(item, int) or hasattr(item, "underlying") else item.fileno()
