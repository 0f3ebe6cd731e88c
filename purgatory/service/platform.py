"""Platform: clocks, chance, sockets, queues and threads of servers and clients.

Tests replace it, as `purgatory.testing` does. Any thread.
"""

import math
import random
import select
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

import zmq

from _purgatory_cpython.green_threads import refuse_green_threads
from _purgatory_cpython.threads import InterruptibleThread
from mq import Mailbox

CAN_LEND: Final = sys.platform == "linux"
#: A program takes a lease for shorter by this share, as the server's clock may be faster: systems
#: correct a clock's speed by at most 500 parts in a million.
CLOCK_ERROR: Final = 0.001
# Most seconds that epoll_wait(2) and poll(2) sleep: 24 days.
_LONGEST_S: Final = 2e6


class Doorbell:
    """The descriptors that wake a client's I/O thread; callers may borrow them.

    A caller that receives its answer itself waits for the descriptors, while the I/O thread sleeps.
    Without epoll nothing is lent. `sleep` is for the I/O thread, `ready` for one thread at a time.
    """

    can_lend: bool = CAN_LEND

    def __init__(self) -> None:
        refuse_green_threads(RuntimeError)  # which removes epoll
        self._descriptors = select.epoll() if sys.platform == "linux" else _Poll()
        self._bell = self._descriptors  # an epoll contains the others, unless lent
        if sys.platform == "linux":
            self._bell = select.epoll()
            self._bell.register(self._descriptors.fileno(), select.EPOLLIN)

    def register(self, descriptor: int) -> None:
        """Add a descriptor."""
        self._descriptors.register(descriptor, select.POLLIN)

    def unregister(self, descriptor: int) -> None:
        """Remove a descriptor."""
        self._descriptors.unregister(descriptor)

    def sleep(self, seconds: float | None) -> None:
        """Wait until an unlent descriptor is readable, `seconds` at most (None: for ever).

        A sleep of more than 23 days may end early.
        """
        self._bell.poll(None if seconds is None else min(seconds, _LONGEST_S))

    def ready(self, seconds: float = 0.0) -> list[int]:
        """Return the readable descriptors, after at most `seconds`."""
        return [descriptor for descriptor, _ in self._descriptors.poll(seconds)]

    def lend(self) -> None:
        """Let `sleep` sleep, whatever descriptor is readable. Only where `CAN_LEND`."""
        self._bell.modify(self._descriptors.fileno(), 0)

    def take_back(self) -> None:
        """End `lend`. Idempotent."""
        self._bell.modify(self._descriptors.fileno(), select.POLLIN)

    def close(self) -> None:
        """Close what the doorbell has opened."""
        self._bell.close()
        self._descriptors.close()


class _Poll:
    """The part of an epoll that `Doorbell` needs, by poll(2)."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.unregister = self._poll.unregister

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        return self._poll.poll(None if seconds is None else math.ceil(1000 * seconds))

    def fileno(self) -> int:
        return -1

    def modify(self, descriptor: int, events: int) -> None:
        """Do nothing; see `CAN_LEND`."""

    def close(self) -> None:
        """Do nothing."""


class Loop(Protocol):
    """The work of a thread: sleep, `step`, again and again."""

    def sleep_seconds(self) -> float | None:
        """Return for how long to sleep if nothing comes; None: without end."""

    def step(self) -> None:
        """Do all present work, without sleeping."""

    def finished(self) -> bool:
        """Tell whether no step is left to do."""

    def shut_down(self) -> None:
        """Release what is left; called last, once."""


class RunnableLoop(Loop, Protocol):
    """A loop that sleeps by itself."""

    def run(self) -> None:
        """Sleep and step until finished; the target of a thread."""


class LoopThread(Protocol):
    """A thread running a `Loop`, as `threading.Thread`."""

    def start(self) -> None:
        """Begin to run."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""

    def is_alive(self) -> bool:
        """Tell whether it runs."""


class WakeableThread(LoopThread, Protocol):
    """A thread that sleeps for its loop, unless the loop does."""

    def wake(self) -> None:
        """Run a step soon, unless the loop sleeps by itself."""


class RunningThread(InterruptibleThread):
    """A real thread, whose loop sleeps by itself."""

    def wake(self) -> None:
        """Do nothing: what the loop sleeps on wakes the thread."""


#: Returns nanoseconds since boot, with time asleep where the system can.
boot_ns: Final[Callable[[], int]] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if sys.platform == "linux"
    else time.monotonic_ns
)


class Platform:
    """The real machine."""

    #: This clock never goes back.
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    monotonic_ns: Callable[[], int] = staticmethod(time.monotonic_ns)
    boot_ns: Callable[[], int] = staticmethod(boot_ns)
    uniform: Callable[[float, float], float] = staticmethod(random.uniform)

    def new_id(self) -> str:
        """Return 32 hexadecimal digits, new each time."""
        return uuid.uuid4().hex

    def mailbox(self) -> Mailbox[Any]:
        """Make a mailbox, with a descriptor."""
        return Mailbox()

    def doorbell(self) -> Doorbell:
        """Make a doorbell for descriptors."""
        return Doorbell()

    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        """Make a context for sockets."""
        return zmq.Context()

    def thread(self, loop: RunnableLoop, name: str) -> WakeableThread:
        """Make a daemon thread for a loop, not started."""
        refuse_green_threads(RuntimeError)
        return RunningThread(target=loop.run, name=name, daemon=True)

    def wait(self, done: Callable[[], bool], seconds: float | None) -> float | None:
        """Let time pass until `done`, for at most `seconds`, where no real thread runs.

        Returns how many seconds are left to wait: here all.
        """
        del done
        return seconds


REAL_PLATFORM: Final = Platform()
