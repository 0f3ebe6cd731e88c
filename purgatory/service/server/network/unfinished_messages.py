"""UnfinishedMessages: cuts off peers that never end a message, or send nothing.

ZeroMQ keeps the frames of an unfinished message without a bound. So the bytes that the kernel has
received are compared with those of complete messages, as in `FloodGates`: the difference is an
unfinished message, or waits in ZeroMQ's queue. While no connection is accepted, those with an
unfinished handshake are closed early: ZeroMQ waits ten seconds. Linux and TCP only; watchdog's
thread alone.
"""

import contextlib
import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final

from purgatory.service.machine_memory import resident_bytes
from purgatory.service.rare_log import RareLog
from purgatory.service.server.network.flood_gates import MOST_UNREAD, FloodGates
from purgatory.service.server.network.router_socket import end_connection, received_bytes

_CUT_OFF: Final = "cut off a peer that has sent %s, and no message that is complete"
# Growth of the process, in bytes, until a look at the connections; while memory is full.
_STEP_BYTES: Final = 8 << 20
_FULL_STEP_BYTES: Final = 1 << 20
# The kernel's buffers of a connection.
_KERNEL_BYTES: Final = 16 << 20
# Least bytes of a handshake (64 of a greeting, and a command), and its seconds.
_HANDSHAKE_BYTES: Final = 90
_HANDSHAKE_S: Final = 1.0
# Seconds between returns of freed memory, which the C library keeps, while memory is full.
_RETURN_S: Final = 0.5
# The next look is soon if this share more would be too much, or so many times the last growth.
_NEAR: Final = 8
_FORESIGHT: Final = 16
# A connection with less is not cut off: it takes more by itself.
_LEAST_BYTES: Final = 4096


class UnfinishedMessages:
    """Cuts off peers at `port` by what they have sent since their last message.

    Always beyond `most` messages of `message_bytes`. While the process takes more than `max_memory`
    bytes (0: unlimited), the largest senders; others with much unread are left unread until their
    messages are taken. `is_crowded`: whether no connection is accepted.
    """

    def __init__(
        self,
        port: int,
        gates: FloodGates,
        *,
        most: int,
        message_bytes: int,
        max_memory: int,
        is_crowded: Callable[[], bool],
        resident: Callable[[], int] = resident_bytes,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._port = port
        self._gates = gates
        self._drains = 0  # of the gates, at the last look
        self._most_bytes = most * message_bytes + _KERNEL_BYTES
        self._max_memory = max_memory
        self._resident = resident
        self._is_crowded = is_crowded
        self._now = now
        self._next_handshakes = 0.0
        self._unfinished_handshakes: set[int] = set()  # descriptors
        self._log = RareLog(_CUT_OFF, now)
        self._last_resident: int = resident()
        self._least_resident: int = self._last_resident  # since the last look at connections
        # At that look, by descriptor: bytes received and unfinished; bytes handed over.
        self._before: dict[int, tuple[int, int]] = {}
        self._handed_before: dict[int, int] = {}
        self._has_cut = False
        self._next_return = 0.0

    def look(self) -> bool:
        """Look at memory; if grown, at connections. Return whether to look again soon."""
        if self._is_crowded() and self._now() >= self._next_handshakes:
            self._look_at_handshakes()
        resident = self._resident()
        if self._has_cut or (self._is_full(resident) and self._now() >= self._next_return):
            self._has_cut, self._next_return = False, self._now() + _RETURN_S
            _give_back_memory()
            resident = self._resident()
        growth = max(0, resident - self._last_resident)
        self._last_resident = resident
        self._least_resident = min(self._least_resident, resident)
        is_full = self._gates.is_memory_full = self._is_full(resident)
        if resident - self._least_resident >= (_FULL_STEP_BYTES if is_full else _STEP_BYTES):
            self._least_resident = resident
            self._look_at_connections(is_full=is_full)
        return self._is_full(resident + resident // _NEAR + _FORESIGHT * growth)

    def _is_full(self, resident: int) -> bool:
        return 0 < self._max_memory < resident

    def _look_at_handshakes(self) -> None:
        """End connections whose handshake was unfinished at two looks."""
        self._next_handshakes = self._now() + _HANDSHAKE_S
        found = _received_bytes(self._port)
        unfinished = {each for each, received in found if received < _HANDSHAKE_BYTES}
        for descriptor in unfinished & self._unfinished_handshakes:
            end_connection(descriptor)
        self._unfinished_handshakes = unfinished - self._unfinished_handshakes

    def _look_at_connections(self, *, is_full: bool) -> None:
        before, self._before = self._before, {}
        gates = self._gates
        handed = gates.taken()
        silent: dict[int, int] = {}
        # With empty queues, unread bytes are a message on its way.
        are_behind = not gates.is_drained and self._drains == gates.drains
        for descriptor, received in _received_bytes(self._port):
            was_received, unfinished = before.get(descriptor, (0, 0))
            if received < was_received:  # another connection got the descriptor
                was_received, unfinished = 0, 0
            came = received - was_received
            told = handed.get(descriptor, 0) - self._handed_before.get(descriptor, 0)
            unfinished = max(0, came - told) if told else unfinished + came
            self._before[descriptor] = received, unfinished
            if unfinished > self._most_bytes:
                self._cut_off(descriptor, unfinished)
            elif is_full and not told and unfinished > _LEAST_BYTES:
                silent[descriptor] = unfinished
            elif is_full and unfinished > _LEAST_BYTES and are_behind:
                gates.close(descriptor, unfinished)
        self._handed_before, self._drains = handed, gates.drains
        self._cut_off_largest(silent)

    def _cut_off_largest(self, silent: dict[int, int]) -> None:
        """End the largest senders, with half of the bytes."""
        left = sum(silent.values()) / 2
        for descriptor, size in sorted(silent.items(), key=lambda item: -item[1]):
            if left <= 0:
                return
            self._cut_off(descriptor, size)
            left -= size

    def _cut_off(self, descriptor: int, size: int) -> None:
        self._log.add(f"{size} bytes")
        self._has_cut = True
        self._before.pop(descriptor, None)
        end_connection(descriptor)


def looks_at_peers(
    address: str,
    gates: FloodGates,
    *,
    message_bytes: int,
    max_memory: int,
    is_crowded: Callable[[], bool],
) -> list[Callable[[], bool | None]]:
    """Return the watchdog's calls; none where it cannot look."""
    if sys.platform != "linux" or not address.startswith("tcp:"):
        return []
    unfinished = UnfinishedMessages(
        int(address.rpartition(":")[2]),
        gates,
        most=MOST_UNREAD,
        message_bytes=message_bytes,
        max_memory=max_memory,
        is_crowded=is_crowded,
    )
    return [unfinished.look]


def _received_bytes(port: int) -> Iterator[tuple[int, int]]:
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208  # without an object for each
        descriptor = int(name)
        received = received_bytes(descriptor, port)
        if received >= 0:
            yield descriptor, received


def _give_back_memory() -> None:
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).malloc_trim(0)
