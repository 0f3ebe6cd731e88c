"""ContextCore: what the sockets of one context share - options, slots, endpoints, the reaper.

`mq.context.Context` is the handle a program holds; handles, sockets and the reaper refer to this.
May be called from any thread.  `mq.core.termination` says how a context ends.
"""

import errno
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from weakref import WeakValueDictionary

from _purgatory_cpython import fork
from mq.constants import ContextOption, Errno, SocketOption
from mq.core.abstract_socket import AbstractSocket
from mq.core.endpoints import Endpoints
from mq.core.reaper import Reaper
from mq.core.socket_slots import SocketSlots, SocketT
from mq.core.termination import Termination
from mq.errors import ContextTerminated, MailboxClosed, ZMQError
from mq.pipes.commands import Adopt

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

_READ_ONLY = {int(ContextOption.SOCKET_LIMIT): 65535, int(ContextOption.MSG_T_SIZE): 64}
_WRITE_ONLY = {
    int(ContextOption.THREAD_PRIORITY),
    int(ContextOption.THREAD_AFFINITY_CPU_ADD),
    int(ContextOption.THREAD_AFFINITY_CPU_REMOVE),
}

#: Contexts by the number that their handles call `underlying`.
live_contexts: "WeakValueDictionary[int, ContextCore]" = WeakValueDictionary()
_reaper_numbers = count(1)


class ContextCore:
    """The context behind its handles."""

    def __init__(self, io_threads: int) -> None:
        self._options = dict(_DEFAULTS)
        self.set(ContextOption.IO_THREADS, io_threads)
        self.endpoints: Endpoints = Endpoints()
        self.slots: SocketSlots = SocketSlots()
        self.termination: Termination = Termination(self.slots, self.endpoints)
        self._reaper_name = f"mq-reaper-{next(_reaper_numbers)}"
        self.forked: bool = False
        live_contexts[id(self)] = self
        fork.register(self)

    # -- options -----------------------------------------------------------------------------

    def set(self, option: int, value: int) -> None:
        """Set an option; EINVAL if there is no such option or the value is out of range."""
        option = int(option)
        minimum = 1 if option == ContextOption.MAX_SOCKETS else 0
        if option in _WRITE_ONLY:
            return
        if option not in self._options or value < minimum:
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

    @property
    def blocky(self) -> bool:
        """Whether sockets linger for ever unless told otherwise."""
        return bool(self._options[_BLOCKY])

    # -- sockets -----------------------------------------------------------------------------

    def create_socket(self, factory: "Callable[[ContextCore, int], SocketT]") -> SocketT:
        """Return a socket in a slot of its own.

        ETERM while the context terminates, EFAULT after, EMFILE when no slot or descriptor is left
        and no closed socket gives one back soon.
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
        """The root of the own tree; there is one as soon as there was a socket."""
        reaper = self.termination.reaper
        assert reaper is not None
        return reaper

    def reap(self, socket: AbstractSocket) -> None:
        """Hand a closed socket to the reaper.  Takes no lock: finalizers may call this."""
        reaper = self.termination.reaper
        if reaper is not None and not self.forked:
            # After an interrupt a second time: the first may have been its end, and the reaper's.
            with suppress(MailboxClosed):
                reaper.mailbox.send(Adopt(reaper, socket))

    def destroy_socket(self, socket: AbstractSocket) -> None:
        """Free the slot of a socket that has ended.  Called by the reaper."""
        self.reaper.forget(socket)
        self.slots.free(socket)

    # -- the end -----------------------------------------------------------------------------

    def term(self) -> None:
        """End the context: fail all its sockets, then wait until each was closed and has ended."""
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
    """Return the socket whose handles call it `address`, unless it has ended."""
    for ctx in list(live_contexts.values()):
        for socket in ctx.slots:
            if id(socket) == address:
                return socket
    return None
