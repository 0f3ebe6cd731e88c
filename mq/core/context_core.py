"""ContextCore: what sockets of one context share - slots, endpoints, the reaper - and how it ends.

`mq.context.Context` is the handle a program holds; this is what it, its shadows, the sockets and
the reaper refer to.  Every method may be called from any thread.

Ending: under one hold of the slot lock the context is marked and every socket is sent `stop`, so
that a socket made or closed meanwhile is either among them or refused.  Then the reaper is told to
terminate, and `term` waits for its `done`, which comes when the last socket has been closed and
has ended.

Lock order: the term lock, then the slot lock, then those of `mq.core.endpoints`.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from threading import Condition, Lock
from typing import TypeVar
from weakref import WeakValueDictionary

from mq._cpython import fork
from mq.constants import ContextOption, Errno, SocketOption
from mq.core.abstract_socket import AbstractSocket
from mq.core.endpoints import Endpoints
from mq.core.reaper import Reaper
from mq.errors import ContextTerminated, MailboxClosed, ZMQError
from mq.pipes.commands import Adopt, Command, ReapDone, Stop, Term
from mq.queues.mailbox import Mailbox

SocketT = TypeVar("SocketT", bound=AbstractSocket)

_BLOCKY = int(SocketOption.BLOCKY)  # a context's option that pyzmq lists among a socket's
_IPV6 = int(SocketOption.IPV6)

_DEFAULTS = {
    int(ContextOption.IO_THREADS): 1,
    int(ContextOption.MAX_SOCKETS): 1023,
    int(ContextOption.THREAD_SCHED_POLICY): -1,
    int(ContextOption.MAX_MSGSZ): 2**31 - 1,
    int(ContextOption.THREAD_NAME_PREFIX): 0,
    _BLOCKY: 1,
    _IPV6: 0,
}

# How many seconds `create_socket` waits for a socket that was closed to end, if there is no room.
SLOT_WAIT_S = 1.0

_READ_ONLY = {int(ContextOption.SOCKET_LIMIT): 65535, int(ContextOption.MSG_T_SIZE): 64}
_WRITE_ONLY = {
    int(ContextOption.THREAD_PRIORITY),
    int(ContextOption.THREAD_AFFINITY_CPU_ADD),
    int(ContextOption.THREAD_AFFINITY_CPU_REMOVE),
}

#: Contexts by what their handles call `underlying`.
live_contexts: "WeakValueDictionary[int, ContextCore]" = WeakValueDictionary()
_reaper_numbers = count(1)


class ContextCore:
    """The context proper."""

    def __init__(self, io_threads: int) -> None:
        self._options = dict(_DEFAULTS)
        self.set(ContextOption.IO_THREADS, io_threads)
        self.endpoints = Endpoints()
        self._name = f"mq-reaper-{next(_reaper_numbers)}"
        self._slot_lock = Lock()
        self._slot_freed = Condition(self._slot_lock)  # a socket has ended
        self._term_lock = Lock()  # held by whoever waits for the end
        self._slots: dict[int, AbstractSocket] = {}  # all below under the slot lock
        self._numbers = count(1)  # of slots, never given twice
        self._reaper: Reaper | None = None  # made with the first socket
        self._done: Mailbox[Command] | None = None  # slot 0: where the reaper reports
        self._terminating = False  # no more sockets are made
        self._stopped = False  # all there are, and the reaper, have been told
        self.terminated = False
        self.forked = False
        live_contexts[id(self)] = self
        fork.register(self)

    # -- options -----------------------------------------------------------------------------

    def set(self, option: int, value: int) -> None:
        """Set an option; EINVAL if there is no such option or the value is out of range."""
        option = int(option)
        least = 1 if option == ContextOption.MAX_SOCKETS else 0
        if option in _WRITE_ONLY:
            return
        if option not in self._options or value < least:
            raise ZMQError(Errno.EINVAL)
        if option in (_BLOCKY, _IPV6) and value > 1:
            raise ZMQError(Errno.EINVAL)
        self._options[option] = value

    def get(self, option: int) -> int:
        """Read an option; EINVAL if there is no such option."""
        value = self._options.get(int(option), _READ_ONLY.get(int(option)))
        if value is None:
            raise ZMQError(Errno.EINVAL)
        return value

    # -- sockets -----------------------------------------------------------------------------

    def create_socket(self, factory: "Callable[[ContextCore, int], SocketT]") -> SocketT:
        """Return a socket in a slot of its own.

        ETERM while the context ends, EFAULT after, EMFILE when no slot or descriptor is left and
        none is given back soon by a socket that was closed.
        """
        while True:
            try:
                return self._create(factory)
            except ZMQError as error:
                if error.errno != errno.EMFILE or not self._wait_for_slot():
                    raise

    def _wait_for_slot(self) -> bool:
        # Threads that make and close sockets without ever waiting can outrun the reaper.
        with self._slot_lock:
            before = len(self._slots)
            if not any(socket.closed for socket in self._slots.values()):
                return False
            return self._slot_freed.wait_for(lambda: len(self._slots) < before, SLOT_WAIT_S)

    def _create(self, factory: "Callable[[ContextCore, int], SocketT]") -> SocketT:
        socket = None
        try:
            with self._slot_lock:
                self._check_can_create()
                self._start_reaper()
                socket = factory(self, next(self._numbers))
                self._slots[socket.slot] = socket
            return socket
        except OSError as error:
            raise ZMQError(error.errno) from error
        except BaseException:  # an interrupt: nobody will ever close it
            if socket is not None:
                socket.close()
            raise

    def _check_can_create(self) -> None:
        if self.terminated or self.forked:
            raise ZMQError(Errno.EFAULT)
        if self._terminating:
            raise ContextTerminated
        if len(self._slots) >= self._options[ContextOption.MAX_SOCKETS]:
            raise ZMQError(errno.EMFILE)

    @property
    def has_sockets(self) -> bool:
        """Whether a socket has not ended yet."""
        return bool(self._slots)

    def _start_reaper(self) -> None:
        # Not before the first socket, and never from a finalizer, which may not start threads.
        if self._reaper is None:
            self._done = Mailbox()
            self._reaper = Reaper(self, self._name)
        self._reaper.start()

    def reap(self, socket: AbstractSocket) -> None:
        """Hand a closed socket to the reaper.  Takes no lock: finalizers come here."""
        reaper = self._reaper
        if reaper is not None and not self.forked:
            reaper.mailbox.send(Adopt(reaper, socket))

    def destroy_socket(self, socket: AbstractSocket) -> None:
        """Free the slot of a socket that has ended.  Called by the reaper."""
        assert self._reaper is not None
        self._reaper.forget(socket)
        with self._slot_lock:
            del self._slots[socket.slot]
            self._slot_freed.notify_all()

    def report_reaper_done(self) -> None:
        """Note that the reaper has nothing left to do.  Called in its thread."""
        assert self._done is not None
        self._done.send(ReapDone(self))

    @property
    def reaper(self) -> Reaper:
        """The root of the own tree; there is one as soon as there was a socket."""
        assert self._reaper is not None
        return self._reaper

    @property
    def blocky(self) -> bool:
        """Whether sockets linger for ever unless told otherwise."""
        return bool(self._options[_BLOCKY])

    # -- the end -----------------------------------------------------------------------------

    def term(self) -> None:
        """End the context: fail all its sockets, then wait until each was closed and has ended.

        May be called again after an interrupt, and from several threads.
        """
        if self.forked:
            self.terminated = True
            return
        self.stop_sockets()
        with self._term_lock:
            if not self.terminated and self._reaper is not None:
                assert self._done is not None
                self._reaper.start()
                self._done.recv()
                self._reaper.join()
                self._done.close()
            self.terminated = True

    def request_term(self) -> None:
        """Have the reaper end the context.  Takes no lock and waits for nothing.

        For finalizers: they may run in any thread, the reaper's too, and inside any of our locks.
        """
        if self._reaper is not None:
            _send_unless_closed(self._reaper, Stop(self._reaper))

    def stop_sockets(self) -> None:
        """Fail all sockets and tell the reaper to end when they have.  Idempotent."""
        with self._slot_lock:
            if self._stopped:
                return
            self._terminating = True
            for socket in self._slots.values():
                socket.mailbox.send(Stop(socket))
            reaper = self._reaper
            if reaper is not None:
                self.endpoints.cancel_all(reaper)
                _send_unless_closed(reaper, Term(reaper, 0))
            self._stopped = True  # last: cut short before, it is all done again

    def after_fork(self) -> None:
        """Disown everything in a forked child; mailboxes disown themselves."""
        self.forked = True
        self._slot_lock = Lock()
        self._slot_freed = Condition(self._slot_lock)
        self._term_lock = Lock()
        for socket in list(self._slots.values()):
            socket.disown()

    def __repr__(self) -> str:
        return f"<ContextCore with {len(self._slots)} sockets>"


def find_socket(address: int) -> AbstractSocket | None:
    """Return the socket whose handles call it `address`, unless it has ended."""
    for ctx in list(live_contexts.values()):
        for socket in list(ctx._slots.values()):
            if id(socket) == address:
                return socket
    return None


def _send_unless_closed(reaper: Reaper, command: Command) -> None:
    with suppress(MailboxClosed):  # it has ended meanwhile
        reaper.mailbox.send(command)
