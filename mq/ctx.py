"""Ctx: what the sockets of a context share: their slots, the addresses, the reaper.

Who may call it: any thread.  Locks, both leaves: the slot lock guards `_sockets`, `_terminating`
and `_reaper`; the endpoint lock guards addresses and pending connections.  They are never held
together, and nothing that could block or call back is done under either.  Finalizers take neither.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from errno import EADDRINUSE, EINVAL, EMFILE, ENOENT
from threading import Event, Lock
from typing import TYPE_CHECKING

from mq.command import Command, ShutDown, Stop, StopReaper
from mq.constants import ContextOption
from mq.errors import ContextTerminated, MailboxClosed, ZMQError
from mq.reaper import Reaper

if TYPE_CHECKING:
    from mq.message import Part
    from mq.pipe import Pipe
    from mq.sockets.base import SocketBase

FORKED = "the socket belongs to the process this one was forked from"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A bound address, and what a peer must know of the socket there, as it was at the bind."""

    socket: SocketBase
    hwms: tuple[int, int]
    wants_routing_id: bool
    routing_id: bytes


@dataclass(slots=True)
class Pending:
    """A connection made before its bind.  Nobody owns its bound end, whose commands it keeps."""

    socket: SocketBase
    connect_pipe: Pipe
    bind_pipe: Pipe
    hwms: tuple[int, int]
    wants_routing_id: bool
    commands: list[Command] = field(default_factory=list)


class Ctx:
    """The context beneath `mq.Context`."""

    def __init__(self, io_threads: int = 1) -> None:
        if io_threads < 0:
            raise ZMQError(EINVAL)
        self._slot_lock = Lock()
        self._endpoint_lock = Lock()
        self._sockets: set[SocketBase] = set()
        self._terminating = False
        self._reaper: Reaper | None = None
        self._finished = Event()
        self._endpoints: dict[str, Endpoint] = {}
        self._pending: dict[str, list[Pending]] = {}
        self._waiting: dict[Pipe, Pending] = {}  # by its bound end
        self._no_more_pending = False
        self.foreign = False
        self.blocky = True
        self._options = {
            int(ContextOption.IO_THREADS): io_threads,
            int(ContextOption.MAX_SOCKETS): 1023,
            int(ContextOption.THREAD_PRIORITY): -1,
            int(ContextOption.THREAD_SCHED_POLICY): -1,
            int(ContextOption.MAX_MSGSZ): 2**31 - 1,
        }
        _contexts.add(self)

    # Options

    def get(self, option: int) -> int:
        """A context option."""
        if option == _BLOCKY:
            return int(self.blocky)
        if option == ContextOption.SOCKET_LIMIT:
            return 65535
        if option == ContextOption.MSG_T_SIZE:
            return 64
        if option not in self._options:
            raise ZMQError(EINVAL)
        return self._options[option]

    def set(self, option: int, value: int) -> None:
        """Set a context option."""
        if option == _BLOCKY:
            self.blocky = bool(value)
        elif option in _IGNORED:
            pass
        elif option not in self._options or value < (option == ContextOption.MAX_SOCKETS):
            raise ZMQError(EINVAL)
        else:
            self._options[option] = value

    # Sockets

    def create_socket(self, make: Callable[[Ctx, Reaper], SocketBase]) -> SocketBase:
        """Make a socket and give it a slot.  EMFILE when none is left, ETERM when terminating."""
        if self.foreign:
            raise ContextTerminated(msg=FORKED)
        try:
            with self._slot_lock:
                if self._terminating:
                    raise ContextTerminated
                if len(self._sockets) >= self._options[ContextOption.MAX_SOCKETS]:
                    raise ZMQError(EMFILE)
                if self._reaper is None:
                    self._reaper = Reaper(self)
                    self._reaper.start()
                socket = make(self, self._reaper)
                self._sockets.add(socket)
        except OSError as exc:
            raise ZMQError(exc.errno or EMFILE) from exc
        return socket

    def destroy_socket(self, socket: SocketBase) -> None:
        """Free a finished socket's slot; called by the reaper."""
        with self._slot_lock:
            self._sockets.discard(socket)
            self._stop_reaper_when_idle()

    def _stop_reaper_when_idle(self) -> None:
        if self._terminating and not self._sockets and self._reaper is not None:
            self._reaper.mailbox.send(StopReaper(self._reaper))

    # The end

    def shut_down(self) -> None:
        """Fail every call on every socket, closing excepted.  Idempotent."""
        if self.foreign:
            return
        with self._slot_lock:
            if self._terminating:
                return
            self._terminating = True
            for socket in self._sockets:
                socket.mailbox.send(Stop(socket))
            if self._reaper is None:
                self._finished.set()
            self._stop_reaper_when_idle()
        self._drop_pending()

    def shut_down_later(self) -> None:
        """Let the reaper shut the context down: for a finalizer, which may take no lock."""
        reaper = self._reaper
        if reaper is None or self.foreign or self._terminating:
            return
        try:
            reaper.mailbox.send(ShutDown(reaper))
        except MailboxClosed:
            pass  # terminated meanwhile

    def terminate(self) -> None:
        """Shut down, and wait until every socket is closed and finished.

        Interrupted, it may be called again.  In a forked child it returns at once.
        """
        if self.foreign:
            return
        self.shut_down()
        self._finished.wait()

    def finish(self) -> None:
        """All is done; the reaper's last word."""
        self._finished.set()

    @property
    def terminating(self) -> bool:
        """Whether `shut_down` or `terminate` was called."""
        return self._terminating

    @property
    def finished(self) -> bool:
        """Whether all sockets are gone after `shut_down`."""
        return self._finished.is_set()

    # Addresses

    def bind(self, address: str, endpoint: Endpoint) -> list[Pending]:
        """Register `address`; returns the connections that waited for it, which are the caller's.

        Their commands come to the caller's mailbox from now on.  EADDRINUSE when it is taken.
        """
        with self._endpoint_lock:
            if address in self._endpoints:
                raise ZMQError(EADDRINUSE)
            self._endpoints[address] = endpoint
            pending = self._pending.pop(address, [])
            for waiting in pending:
                self._hand_over(waiting, endpoint.socket)
        return pending

    def connect(self, address: str, pending: Pending, own_id: Part) -> Endpoint | None:
        """The endpoint at `address`, its sequence number raised; None: `pending` waits for it.

        Whoever waits names itself by `own_id` first of all: it cannot know who will want it.
        """
        with self._endpoint_lock:
            endpoint = self._endpoints.get(address)
            if endpoint is not None:
                # With the look-up under one lock: the socket cannot go in between.
                endpoint.socket.inc_seqnum()
                return endpoint
            if self._no_more_pending:
                raise ContextTerminated
            if not pending.connect_pipe.conflate:
                pending.connect_pipe.write(own_id)
                pending.connect_pipe.flush()
            self._pending.setdefault(address, []).append(pending)
            self._waiting[pending.bind_pipe] = pending
            return None

    def unbind(self, address: str, socket: SocketBase) -> None:
        """Free `address`; its connections stay.  ENOENT when `socket` has not bound it."""
        with self._endpoint_lock:
            endpoint = self._endpoints.get(address)
            if endpoint is None or endpoint.socket is not socket:
                raise ZMQError(ENOENT)
            del self._endpoints[address]

    def unbind_all(self, socket: SocketBase) -> None:
        """Free all addresses of `socket`."""
        with self._endpoint_lock:
            mine = [a for a, e in self._endpoints.items() if e.socket is socket]
            for address in mine:
                del self._endpoints[address]

    def withdraw(self, address: str, socket: SocketBase) -> None:
        """Give the pending connections of `socket` to `address` back to it."""
        with self._endpoint_lock:
            for waiting in self._pending.pop(address, []):
                if waiting.socket is socket:
                    waiting.bind_pipe.set_nodelay()
                    self._hand_over(waiting, socket)
                else:
                    self._pending.setdefault(address, []).append(waiting)

    def send_to_pending(self, pipe: Pipe, command: Command) -> None:
        """Keep `command` for whoever will own `pipe`, or send it to who just came to."""
        with self._endpoint_lock:
            if pipe.mailbox is None:
                self._waiting[pipe].commands.append(command)
            else:
                pipe.mailbox.send(command)

    def _drop_pending(self) -> None:
        # Nobody will bind any more: give each end to its connecting socket, which then can end.
        with self._endpoint_lock:
            self._no_more_pending = True
            for pending in self._pending.values():
                for waiting in pending:
                    waiting.bind_pipe.set_nodelay()
                    self._hand_over(waiting, waiting.socket)
            self._pending.clear()

    def _hand_over(self, waiting: Pending, socket: SocketBase) -> None:
        del self._waiting[waiting.bind_pipe]
        waiting.bind_pipe.mailbox = socket.mailbox
        for command in waiting.commands:
            socket.mailbox.send(command)

    # Fork

    def disown(self) -> None:
        """In a forked child: refuse everything, wait for nothing."""
        self.foreign = True
        self._terminating = True
        self._finished = Event()
        self._finished.set()
        for socket in list(self._sockets):
            socket.disown()


_BLOCKY = 70
_IGNORED = {
    ContextOption.THREAD_AFFINITY_CPU_ADD,
    ContextOption.THREAD_AFFINITY_CPU_REMOVE,
    ContextOption.THREAD_NAME_PREFIX,
}
_contexts: weakref.WeakSet[Ctx] = weakref.WeakSet()


def _disown_after_fork() -> None:
    for ctx in list(_contexts):
        ctx.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_after_fork)
