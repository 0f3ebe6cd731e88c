"""Poller and select: waiting for any of several sockets and descriptors.

A poller belongs to the thread of its sockets.
"""

import select as os_select
import sys
from typing import Any

from _purgatory_cpython.real_time import real_seconds
from mq.constants import Errno, PollEvent, SocketOption
from mq.errors import ContextTerminated, ZMQError
from mq.queues.signaler import LONGEST_MS

_IN = int(PollEvent.POLLIN)
_OUT = int(PollEvent.POLLOUT)
_ERR = int(PollEvent.POLLERR)
_PRI = int(PollEvent.POLLPRI)

#: ZeroMQ's events and the system's.
_SYSTEM = {
    _IN: os_select.POLLIN,
    _OUT: os_select.POLLOUT,
    _PRI: os_select.POLLPRI,
    _ERR: os_select.POLLERR | os_select.POLLHUP | os_select.POLLNVAL,
}


class Poller:
    """Waits for events of sockets, descriptors and objects with a `fileno`."""

    def __init__(self) -> None:
        self.sockets: list[tuple[Any, int]] = []
        self._map: dict[Any, int] = {}  # positions in `sockets`

    def __contains__(self, socket: object) -> bool:
        return socket in self._map

    def register(self, socket: Any, flags: int = PollEvent.POLLIN | PollEvent.POLLOUT) -> None:
        """Wait for `flags` on `socket`; 0 unregisters it."""
        if not flags:
            if socket in self._map:
                self.unregister(socket)
        elif socket in self._map:
            self.sockets[self._map[socket]] = (socket, flags)
        else:
            self._map[socket] = len(self.sockets)
            self.sockets.append((socket, flags))

    def modify(self, socket: Any, flags: int = PollEvent.POLLIN | PollEvent.POLLOUT) -> None:
        """See `register`."""
        self.register(socket, flags)

    def unregister(self, socket: Any) -> None:
        """Wait for `socket` no more; KeyError if it is not registered."""
        index = self._map.pop(socket)
        self.sockets.pop(index)
        for later, _ in self.sockets[index:]:
            self._map[later] -= 1

    def poll(self, timeout: float | None = None) -> Any:
        """Wait at most `timeout` ms (None or negative: for ever); see `zmq_poll`."""
        return zmq_poll(self.sockets, -1 if timeout is None or timeout < 0 else int(timeout))


def zmq_poll(sockets: list[tuple[Any, int]], timeout: int = -1) -> list[tuple[Any, int]]:
    """Wait at most `timeout` ms (negative: for ever) for events.

    Returns pairs of socket and events; a descriptor as its number.
    """
    deadline = None if timeout < 0 else real_seconds() + timeout / 1000
    polled = _PollSet(sockets)
    while True:
        # Events first: the descriptors tell of changes since then.
        found = polled.check()
        if found:
            return found
        left = None if deadline is None else deadline - real_seconds()
        if left is not None and left <= 0:
            return []
        polled.wait(left)


class _PollSet:
    """The sockets and descriptors of one `zmq_poll`."""

    def __init__(self, sockets: list[tuple[Any, int]]) -> None:
        self._watched: list[tuple[Any, int]] = []
        self._raw: dict[int, int] = {}  # the flags of descriptors
        for thing, flags in sockets:
            if hasattr(getattr(thing, "_core", None), "events"):
                self._watched.append((thing, int(flags)))
            else:
                fd = descriptor_of(thing)
                self._watched.append((fd, int(flags)))
                self._raw[fd] = self._raw.get(fd, 0) | int(flags)

    def check(self) -> list[tuple[Any, int]]:
        ready = dict(self._poll_of_descriptors().poll(0)) if self._raw else {}
        found: list[tuple[Any, int]] = []
        for thing, flags in self._watched:
            if isinstance(thing, int):
                events = _from_system(ready.get(thing, 0)) & (flags | _ERR)
            else:
                events = thing._core.events() & flags
            if events:
                found.append((thing, events))
        return found

    def wait(self, seconds: float | None) -> None:
        """Wait until a descriptor signals a change.

        ETERM instead of an endless wait at the interpreter's exit.
        """
        if seconds is None and not self._raw and sys.is_finalizing():
            raise ContextTerminated
        poll = self._poll_of_descriptors()
        for thing, _ in self._watched:
            if not isinstance(thing, int):
                poll.register(thing._core.get(SocketOption.FD), os_select.POLLIN)
        poll.poll(None if seconds is None else min(seconds * 1000, LONGEST_MS))

    def _poll_of_descriptors(self) -> os_select.poll:
        poll = os_select.poll()
        for fd, flags in self._raw.items():
            poll.register(fd, _to_system(flags))
        return poll


def descriptor_of(thing: Any) -> int:
    """Return a descriptor's number, or an object's."""
    if isinstance(thing, int):
        return thing
    try:
        descriptor = int(thing.fileno())
    except ValueError as error:
        raise ZMQError(Errno.ENOTSOCK) from error
    except AttributeError:
        raise TypeError(f"a socket or descriptor is required, not {thing!r}") from None
    if descriptor < 0:  # closed, or disowned in a forked child
        raise ZMQError(Errno.ENOTSOCK)
    return descriptor


def _to_system(flags: int) -> int:
    return sum(system for ours, system in _SYSTEM.items() if flags & ours and ours != _ERR)


def _from_system(events: int) -> int:
    return sum(ours for ours, system in _SYSTEM.items() if events & system)


def select(
    rlist: list[Any], wlist: list[Any], xlist: list[Any], timeout: float | None = None
) -> tuple[list[Any], list[Any], list[Any]]:
    """Do as `select.select`, for sockets too; `timeout` in seconds, None for ever."""
    wanted: dict[Any, int] = {}
    for things, flag in ((rlist, _IN), (wlist, _OUT), (xlist, _ERR)):
        for thing in things:
            wanted[thing] = wanted.get(thing, 0) | flag
    milliseconds = -1 if timeout is None or timeout < 0 else int(timeout * 1000)
    found = zmq_poll(list(wanted.items()), milliseconds)
    r, w, x = ([thing for thing, events in found if events & flag] for flag in (_IN, _OUT, _ERR))
    return r, w, x
