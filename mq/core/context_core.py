"""ContextCore: options, slots, endpoints and reaper of one context.

`mq.context.Context` is the handle of a program. Any thread.

How a context ends: under one hold of the slot lock, `term` forbids further sockets and sends every
socket `Stop`. Then it sends the reaper `Term`, and waits for `ReapDone`.

Lock order: the term lock, then the slot lock, then those of `mq.core.endpoints`.
"""

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from threading import Event, Lock
from typing import TypeVar
from weakref import WeakValueDictionary

from _purgatory_cpython import at_exit, fork
from _purgatory_cpython.locks import new_lock
from _purgatory_cpython.threads import InterruptibleEvent
from mq.constants import ContextOption, Errno, SocketOption
from mq.core.endpoints import Endpoints
from mq.core.options import check_int
from mq.core.own import AbstractSocket
from mq.core.reaper import Reaper
from mq.errors import ContextTerminated, MailboxClosed, ZMQError
from mq.pipes.commands import Adopt, Command, ReapDone, Stop, Term
from mq.queues.mailbox import Mailbox

SocketT = TypeVar("SocketT", bound=AbstractSocket)

# How long `wait_for_slot` waits.
SLOT_WAIT_S = 1.0

_BLOCKY = int(SocketOption.BLOCKY)  # a context's option that pyzmq lists among a socket's
_IPV6 = int(SocketOption.IPV6)

_DEFAULTS = {
    int(ContextOption.IO_THREADS): 1,
    int(ContextOption.MAX_SOCKETS): 1023,
    int(ContextOption.MAX_MSGSZ): 2**31 - 1,
    int(ContextOption.THREAD_NAME_PREFIX): 0,
    _BLOCKY: 1,
    _IPV6: 0,
}
#: The least value of each option that can be set.
_MINIMUM = dict.fromkeys((*_DEFAULTS, ContextOption.THREAD_SCHED_POLICY), 0) | {
    ContextOption.MAX_SOCKETS: 1,
    ContextOption.THREAD_NAME_PREFIX: -(2**31),
    ContextOption.THREAD_PRIORITY: 0,
}
# THREAD_PRIORITY, which is only set, has the number of SOCKET_LIMIT.
_READ_ONLY = {int(ContextOption.SOCKET_LIMIT): 65535, int(ContextOption.MSG_T_SIZE): 64}

#: Contexts by the `underlying` of their handles.
live_contexts: "WeakValueDictionary[int, ContextCore]" = WeakValueDictionary()
_reaper_numbers = count(1)


class SocketSlots:
    """The open sockets of one context, by number; a number is never used twice.

    `lock` also guards `Termination.begun`.
    """

    def __init__(self) -> None:
        self.lock: Lock = new_lock()
        self._waiting: set[Event] = set()  # of threads that wait until a slot is freed
        self._sockets: dict[int, AbstractSocket] = {}
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._sockets)

    def __iter__(self) -> Iterator[AbstractSocket]:
        return iter(list(self._sockets.values()))

    def create(self, check: Callable[[], None], make: Callable[[int], SocketT]) -> SocketT:
        """Put what `make` returns for a new number into a slot.

        Calls `check` first, under the lock: it raises to refuse a socket.
        """
        socket = None
        try:
            with self.lock:
                check()
                socket = make(next(self._numbers))
                self._sockets[socket.slot] = socket
            return socket
        except OSError as error:
            raise ZMQError(error.errno) from error
        except BaseException:  # an interrupt: the caller holds no handle to close
            if socket is not None:
                socket.close()
            raise

    def wait_for_slot(self) -> bool:
        """Wait until a closed socket has ended; False if none is, or does in time."""
        freed = InterruptibleEvent()
        try:
            with self.lock:
                if not any(socket.closed for socket in self._sockets.values()):
                    return False
                self._waiting.add(freed)
            return freed.wait(SLOT_WAIT_S)
        finally:
            self._waiting.discard(freed)

    def free(self, socket: AbstractSocket) -> None:
        """Empty the slot of an ended socket. For the reaper."""
        with self.lock:
            del self._sockets[socket.slot]
            waiting = tuple(self._waiting)
        for freed in waiting:
            freed.set()

    def after_fork(self) -> None:
        """Replace the lock, and disown the sockets."""
        self.lock = new_lock()
        self._waiting.clear()
        for socket in self:
            socket.disown()


class Termination:
    """Ends one context; owns its reaper."""

    def __init__(self, slots: SocketSlots, endpoints: Endpoints) -> None:
        self.begun: bool = False  # no further socket; written under the slot lock
        self.finished: bool = False
        self._slots = slots
        self._endpoints = endpoints
        self._term_lock = new_lock()  # held by the thread that waits in `term`
        # The owner of closed sockets; made with the first socket, under the slot lock.
        self.reaper: Reaper | None = None
        self._reaper_done: Mailbox[Command] | None = None  # libzmq's slot 0
        self._stopped = False  # all sockets and the reaper have been told

    def start_reaper(self, name: str) -> None:
        """Start the reaper, without a thread at the interpreter's exit. Under the slot lock."""
        if self.reaper is None:
            self._reaper_done = Mailbox()
            self.reaper = Reaper(self, name)
        if not sys.is_finalizing():
            self.reaper.start()

    @property
    def has_sockets(self) -> bool:
        """Whether a socket has not ended yet."""
        return len(self._slots) > 0

    def report_reaper_done(self) -> None:
        """Let `term` return. For the reaper, once the last socket has ended."""
        assert self._reaper_done is not None
        self._reaper_done.send(ReapDone(self))

    def term(self) -> None:
        """Fail all sockets, then wait until each is closed and ended.

        Repeatable, and from several threads. Does not wait at the interpreter's exit.
        """
        if sys.is_finalizing():
            self._stop_each_socket()
            self.begun = self.finished = True
            return
        self.stop_sockets()
        with self._term_lock:
            if not self.finished and self.reaper is not None:
                self._wait_for_reaper(self.reaper)
            self.finished = True

    def _wait_for_reaper(self, reaper: Reaper) -> None:
        assert self._reaper_done is not None
        reaper.start()  # an interrupt may have come before
        self._reaper_done.head()  # the command stays: an interrupted caller may call again
        reaper.join()
        self._reaper_done.close()

    def request_term(self) -> None:
        """Have the reaper terminate the context. For finalizers: no lock, no wait."""
        if self.reaper is not None:
            _send_unless_closed(self.reaper, Stop(self.reaper))

    def stop_sockets(self) -> None:
        """Fail all sockets, and tell the reaper to end after them. Idempotent."""
        with self._slots.lock:
            if self._stopped:
                return
            self.begun = True
            self._stop_each_socket()
            if self.reaper is not None:
                self._endpoints.cancel_all(self.reaper)
                _send_unless_closed(self.reaper, Term(self.reaper))
            self._stopped = True  # last: interrupted before, all is done again

    def _stop_each_socket(self) -> None:
        for socket in self._slots:
            socket.mailbox.send(Stop(socket))

    def after_fork(self) -> None:
        """Replace the lock."""
        self._term_lock = new_lock()


def _send_unless_closed(reaper: Reaper, command: Command) -> None:
    with suppress(MailboxClosed):  # the reaper has ended, perhaps after an interrupt
        reaper.mailbox.send(command)


class ContextCore:
    """The context behind its handles."""

    def __init__(self, io_threads: int) -> None:
        self._options = dict(_DEFAULTS)
        self._cpus: set[int] = set()  # that threads may run on: remembered and ignored
        self.set(ContextOption.IO_THREADS, io_threads)
        self.endpoints: Endpoints = Endpoints()
        self.slots: SocketSlots = SocketSlots()
        self.termination: Termination = Termination(self.slots, self.endpoints)
        self._reaper_name = f"mq-reaper-{next(_reaper_numbers)}"
        self.forked: bool = False
        live_contexts[id(self)] = self
        fork.register(self)
        at_exit.register_locks(self)

    # -- options -----------------------------------------------------------------------------

    def set(self, option: int, value: int) -> None:
        """Set an option; EINVAL if unknown or out of range."""
        option, value = int(option), check_int(value)
        if option == ContextOption.THREAD_AFFINITY_CPU_ADD and value >= 0:
            self._cpus.add(value)
        elif option == ContextOption.THREAD_AFFINITY_CPU_REMOVE and value in self._cpus:
            self._cpus.discard(value)
        elif option in _MINIMUM and value >= _MINIMUM[option]:
            self._options[option] = int(value > 0) if option in (_BLOCKY, _IPV6) else value
        else:
            raise ZMQError(Errno.EINVAL)

    def get(self, option: int) -> int:
        """Read an option; EINVAL if unknown."""
        value = _READ_ONLY.get(int(option), self._options.get(int(option)))
        if value is None:
            raise ZMQError(Errno.EINVAL)
        return value

    @property
    def blocky(self) -> bool:
        """Whether sockets linger for ever unless told otherwise."""
        return bool(self._options[_BLOCKY])

    # -- sockets -----------------------------------------------------------------------------

    def create_socket(self, factory: "Callable[[ContextCore, int], SocketT]") -> SocketT:
        """Return a socket in a slot of its own.

        ETERM while the context terminates, EFAULT after, EMFILE when no slot or descriptor is left,
        and none becomes free soon.
        """
        while True:
            try:
                return self.slots.create(self._prepare_for_socket, partial(factory, self))
            except ZMQError as error:
                if error.errno != errno.EMFILE or not self.slots.wait_for_slot():
                    raise

    def _prepare_for_socket(self) -> None:
        if self.termination.finished or self.forked:
            raise ZMQError(Errno.EFAULT)
        if self.termination.begun:
            raise ContextTerminated
        if len(self.slots) >= self._options[ContextOption.MAX_SOCKETS]:
            raise ZMQError(errno.EMFILE)
        self.termination.start_reaper(self._reaper_name)

    @property
    def reaper(self) -> Reaper:
        """The reaper; the first socket starts it."""
        reaper = self.termination.reaper
        assert reaper is not None
        return reaper

    def reap(self, socket: AbstractSocket) -> None:
        """Hand a closed socket to the reaper. Takes no lock: safe in finalizers."""
        reaper = self.termination.reaper
        if reaper is not None and not self.forked:
            _send_unless_closed(reaper, Adopt(reaper, socket))

    def destroy_socket(self, socket: AbstractSocket) -> None:
        """Free the slot of an ended socket. For the reaper."""
        self.reaper.forget(socket)
        self.slots.free(socket)

    # -- the end -----------------------------------------------------------------------------

    def term(self) -> None:
        """See `Termination`."""
        if self.forked:
            self.termination.finished = True
        else:
            self.termination.term()

    def after_fork(self) -> None:
        """Disown everything in a forked child; mailboxes disown themselves."""
        self.forked = True
        self.termination.after_fork()
        self.slots.after_fork()

    def __repr__(self) -> str:
        return f"<ContextCore with {len(self.slots)} sockets>"


def find_socket(address: int) -> AbstractSocket | None:
    """Return the socket that handles call `address`; None once it has ended."""
    for ctx in list(live_contexts.values()):
        for socket in ctx.slots:
            if id(socket) == address:
                return socket
    return None
