"""AcceptGate: lets no connection in while there are too many, or come too many at a time.

Each connection takes a descriptor and about 100 KB, whatever its peer says, and ZeroMQ accepts all
that come. One that its peer has closed counts, too, until its requests have been read. And when no
descriptor is left, ZeroMQ tries to accept again without a pause, which takes a core.

To unbind would end all connections that have come that way. So the kernel is told to drop what
arrives at the listening socket (see `packet_filter`). What is connected goes on. Peers that are not
try again by themselves, at first after a second. Linux and TCP only; used by the network thread
alone.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from purgatory.service.server.sockets.packet_filter import drop_arrivals, take_arrivals
from purgatory.service.server.sockets.rare_log import CANNOT_ACCEPT, RareLog

if TYPE_CHECKING:
    Router = zmq.Socket[bytes]

#: Connections take no more than that share of the memory, by this estimate of one that sends what
#: is not read at once.
MEMORY_SHARE: Final = 8
CONNECTION_BYTES: Final = 100_000
# Seconds between two checks, at least.
_CHECK_S: Final = 0.1
# Descriptors beside those of clients: files, those of threads, and peers before their hello.
_OTHERS: Final = 128
# As many are left to the process, for what it opens now and then.
_LEFT: Final = 32
# The milliseconds that libzmq may take to report what it did in `bind`.
_REPORT_MS: Final = 1000


def most_descriptors(max_clients: int, max_memory: int) -> int:
    """Return how many descriptors a server's process may have open; see `Config` for the limits."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = sys.maxsize if soft == resource.RLIM_INFINITY else soft - _LEFT
    clients = max_clients + max_clients // 8
    if max_memory:
        clients = min(clients, max_memory // MEMORY_SHARE // CONNECTION_BYTES)
    return min(clients + _OTHERS, allowed)


def open_descriptors() -> int:
    """Return how many descriptors this process has open; 0 where the system does not tell."""
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # often: without an object for each
    except FileNotFoundError:
        return 0
    except OSError:  # there is none left to look
        return sys.maxsize


def bind(router: "Router", address: str) -> int:
    """Bind a socket; returns the descriptor that listens, -1 if none is known. Raises ZMQError."""
    monitor = router.get_monitor_socket(zmq.EVENT_LISTENING)
    try:
        router.bind(address)
        is_tcp = address.startswith("tcp:") and monitor.poll(_REPORT_MS)
        return int(recv_monitor_message(monitor)["value"]) if is_tcp else -1
    finally:
        router.disable_monitor()
        monitor.close(0)


class AcceptGate:
    """Closed while `count()` is more than `most`, or too many come at a time.

    `listener`: the descriptor that listens.
    """

    def __init__(
        self,
        listener: int,
        most: int,
        *,
        now: Callable[[], float] = time.monotonic,
        count: Callable[[], int] = open_descriptors,
    ) -> None:
        self._listener = listener
        self._most = most
        self._now = now
        self._count = count
        self._next_check = now()
        self._log = RareLog(CANNOT_ACCEPT, now)
        self._is_full = False
        self.is_open: bool = True

    def check(self, *, crowded: bool = False) -> None:
        """Count, if it is time, and open or close it. `crowded`: too many come at a time."""
        now = self._now()
        if now >= self._next_check:
            self._next_check = now + _CHECK_S
            self._check_count(self._count())
        self._turn(is_open=not (self._is_full or crowded))

    def _check_count(self, count: int) -> None:
        if not self._is_full and count > self._most:
            self._log.add(f"{count} descriptors are open; expected at most {self._most}")
            self._is_full = True
        # Not with the first that is closed: then all that wait come at once.
        elif self._is_full and count <= self._most - self._most // 8:
            self._is_full = False

    def _turn(self, *, is_open: bool) -> None:
        if is_open == self.is_open:
            return
        self.is_open = is_open
        try:
            (take_arrivals if is_open else drop_arrivals)(self._listener)
        except OSError as error:  # a system without filters: then it accepts all, as before
            self._log.add(error.strerror or str(error))
