"""AcceptGate: accepts no connection while too many exist, or come at a time.

Each connection takes a descriptor and about 100 KB, and ZeroMQ accepts all. A connection closed by
its peer counts until the requests are read. Without a free descriptor, ZeroMQ retries without a
pause, which takes a core; the gate logs this, once a minute.

Unbinding would end all connections. So the kernel drops packets at the listening socket (see
`router_socket`); new peers retry, at first after a second. Linux and TCP only; network thread
alone.
"""

import os
import resource
import sys
import time
from collections.abc import Callable
from typing import Final

from purgatory.service.rare_log import CANNOT_ACCEPT, RareLog
from purgatory.service.server.network.flood_gates import FloodGates
from purgatory.service.server.network.router_socket import drop_arrivals, take_arrivals

#: Connections take 1 / MEMORY_SHARE of memory; the estimate for a connection.
MEMORY_SHARE: Final = 8
CONNECTION_BYTES: Final = 100_000
# Seconds between counts, at least.
_COUNT_S: Final = 0.1
# Descriptors of files, threads, and peers before their hello.
_OTHERS: Final = 128
# Left to the process for other uses.
_LEFT: Final = 32
#: The network thread is late after so many seconds with unread frames.
BEHIND_S: Final = 0.05
#: Then so many connections may come in a window of so many seconds.
MAX_ARRIVALS: Final = 30
WINDOW_S: Final = 1.0
#: Seconds between looks for a free descriptor, at least and at most.
CHECK_S: Final = 1.0
IDLE_CHECK_S: Final = 5.0


def most_descriptors(max_clients: int, max_memory: int) -> int:
    """Return the limit of open descriptors; see `Config`."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = sys.maxsize if soft == resource.RLIM_INFINITY else soft - _LEFT
    clients = max_clients + max_clients // 8
    if max_memory:
        clients = min(clients, max_memory // MEMORY_SHARE // CONNECTION_BYTES)
    return min(clients + _OTHERS, allowed)


def open_descriptors() -> int:
    """Return how many descriptors are open; 0: unknown."""
    try:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # often: without an object for each
    except FileNotFoundError:
        return 0
    except OSError:  # no descriptor is left
        return sys.maxsize


class AcceptGate:
    """Closed while `count()` exceeds `most`, or too many connections come at a time.

    `listener`: the listening descriptor; negative: unknown, all peers are accepted. `descriptor`:
    any other open descriptor. `gates` count arrivals, and know whether memory is full.

    A socket reads its connections by turns, closed ones too, so a peer that reconnects often delays
    all. So while the network thread is late, few connections are accepted, and none while memory is
    full. Otherwise any number may come, as after a restart.
    """

    def __init__(
        self,
        listener: int,
        most: int,
        descriptor: int,
        gates: FloodGates,
        *,
        now: Callable[[], float] = time.monotonic,
        count: Callable[[], int] = open_descriptors,
    ) -> None:
        self._listener = listener
        self._most = most
        self._descriptor = descriptor
        self._gates = gates
        self._now = now
        self._count = count
        self._next_look = self._next_count = self._caught_up = self._window = now()
        self._before = 0  # arrivals before the window
        self._log = RareLog(CANNOT_ACCEPT, now)
        self._is_full = False
        self.is_open: bool = True

    def check(self, *, behind: bool) -> None:
        """Open or close the gate. `behind`: whether frames are unread."""
        now = self._now()
        if now >= self._next_look:
            self._next_look = now + CHECK_S
            self._look_for_descriptor()
        if self._listener < 0:
            return
        if now >= self._next_count:
            self._next_count = now + _COUNT_S
            self._check_count(self._count())
        is_late = self._is_late(now, behind=behind)
        are_many = self._are_many(self._gates.arrivals, now)
        is_open = not (self._is_full or (is_late and (are_many or self._gates.is_memory_full)))
        if is_open != self.is_open:
            self._turn(is_open=is_open)

    def _look_for_descriptor(self) -> None:
        try:
            os.close(os.dup(self._descriptor))
        except OSError as error:
            self._log.add(error.strerror or str(error))

    def _check_count(self, count: int) -> None:
        if not self._is_full and count > self._most:
            self._log.add(f"{count} descriptors are open; expected at most {self._most}")
            self._is_full = True
        # Not after the first end: all waiting peers would come at once.
        elif self._is_full and count <= self._most - self._most // 8:
            self._is_full = False

    def _is_late(self, now: float, *, behind: bool) -> bool:
        if not behind:
            self._caught_up = now
        return now - self._caught_up > BEHIND_S

    def _are_many(self, arrivals: int, now: float) -> bool:
        if now >= self._window + WINDOW_S:
            self._window, self._before = now, arrivals
        return arrivals - self._before > MAX_ARRIVALS

    def _turn(self, *, is_open: bool) -> None:
        self.is_open = is_open
        try:
            (take_arrivals if is_open else drop_arrivals)(self._listener)
        except OSError as error:  # a system without filters
            self._log.add(error.strerror or str(error))
