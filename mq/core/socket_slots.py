"""SocketSlots: the sockets of one context that have not ended, each in a numbered slot.

May be called from any thread.  `lock` also guards the decision to terminate the context, so that
a socket is either created before that decision, and stopped by it, or refused.
"""

from collections.abc import Callable, Iterator
from itertools import count
from threading import Event, Lock
from typing import TypeVar

from _purgatory_cpython.locks import new_lock
from _purgatory_cpython.threads import InterruptibleEvent
from mq.core.abstract_socket import AbstractSocket
from mq.errors import ZMQError

SocketT = TypeVar("SocketT", bound=AbstractSocket)

# How many seconds `wait_for_slot` waits for a closed socket to end.
SLOT_WAIT_S = 1.0


class SocketSlots:
    """Slots by number; a number is never used twice."""

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
        """Return the socket that `make` returns for a new number, in its slot.

        `check` is called first, under the lock, and raises if there may be no socket.
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
        except BaseException:  # an interrupt: the caller has nothing that it could close
            if socket is not None:
                socket.close()
            raise

    def wait_for_slot(self) -> bool:
        """Wait until a closed socket has ended; False if none is closed or none ends in time.

        Threads that create and close sockets without ever waiting can outrun the reaper.
        """
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
        """Empty the slot of a socket that has ended.  Called by the reaper."""
        with self.lock:
            del self._sockets[socket.slot]
            waiting = tuple(self._waiting)
        for freed in waiting:
            freed.set()

    def after_fork(self) -> None:
        """Replace the lock, which a thread of the parent may hold, and disown the sockets."""
        self.lock = new_lock()
        self._waiting.clear()
        for socket in self:
            socket.disown()
