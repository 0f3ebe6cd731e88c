"""Platform: clocks, chance, sockets, queues and threads, as servers and clients take them.

Code of the service takes all of the machine from here, so tests can replace the machine:
`purgatory.testing` runs a server and its clients in one thread, on machines of which nothing
is real. Any thread.
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

from _purgatory_cpython.gevent import refuse_gevent
from _purgatory_cpython.threads import InterruptibleThread
from mq import Mailbox

#: Whether descriptors can be lent on this system.
CAN_LEND: Final = sys.platform == "linux"
#: A program takes a lease for shorter by this share, as the server's clock may be faster than its
#: own: systems correct the speed of a clock by at most 500 parts in a million.
CLOCK_ERROR: Final = 0.001


class Doorbell:
    """The descriptors that wake the I/O thread of a client, lent to callers now and then.

    A caller that receives its answer itself waits for the descriptors instead of the I/O thread.
    That thread sleeps on meanwhile: the descriptors are lent and returned without waking it. This
    needs epoll; where there is none, nothing is lent. `sleep` is for the I/O thread, `ready` for
    one thread at a time.
    """

    #: Whether callers may be lent the descriptors.
    can_lend: bool = CAN_LEND

    def __init__(self) -> None:
        refuse_gevent(RuntimeError)  # which removes epoll
        self._descriptors = select.epoll() if sys.platform == "linux" else _Poll()
        self._bell = self._descriptors  # has the others, unless they are lent
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
        """Wait until a descriptor is readable and not lent, `seconds` at most (None: for ever)."""
        self._bell.poll(seconds)

    def ready(self, seconds: float = 0.0) -> list[int]:
        """Return the readable descriptors, after at most `seconds` if none exist yet."""
        return [descriptor for descriptor, _ in self._descriptors.poll(seconds)]

    def lend(self) -> None:
        """Let `sleep` sleep, whatever descriptor is readable. Only where `CAN_LEND`."""
        self._bell.modify(self._descriptors.fileno(), 0)

    def take_back(self) -> None:
        """End `lend`: a descriptor that is readable by now ends the sleep. Idempotent."""
        self._bell.modify(self._descriptors.fileno(), select.POLLIN)

    def close(self) -> None:
        """Close what it has opened itself."""
        self._bell.close()
        self._descriptors.close()


class _Poll:
    """What `Doorbell` needs of an epoll, by poll(2)."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self.register = self._poll.register
        self.unregister = self._poll.unregister

    def poll(self, seconds: float | None) -> list[tuple[int, int]]:
        """Wait for at most so many seconds."""
        return self._poll.poll(None if seconds is None else math.ceil(1000 * seconds))

    def fileno(self) -> int:
        """Return no descriptor."""
        return -1

    def modify(self, descriptor: int, events: int) -> None:
        """Do nothing; see `CAN_LEND`."""

    def close(self) -> None:
        """Do nothing."""


class Loop(Protocol):
    """What a thread of the service does: `step` again and again, after it has slept."""

    def sleep_seconds(self) -> float | None:
        """Return for how long to sleep, if nothing comes; None: until something comes."""

    def step(self) -> None:
        """Do what there is to do; does not sleep."""

    def finished(self) -> bool:
        """Tell whether no step is left to do."""

    def shut_down(self) -> None:
        """Release what is left; called once, last."""


class RunnableLoop(Loop, Protocol):
    """A loop that sleeps by itself."""

    def run(self) -> None:
        """Sleep and step until it is finished; the target of a real thread."""


class LoopThread(Protocol):
    """A thread running a `Loop`: what `threading.Thread` has of it."""

    def start(self) -> None:
        """Begin to run."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, for so many seconds."""

    def is_alive(self) -> bool:
        """Tell whether it runs."""


#: Returns nanoseconds since boot; time asleep counts where the system has such a clock.
boot_ns: Final[Callable[[], int]] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME)
    if sys.platform == "linux"
    else time.monotonic_ns
)


class Platform:
    """The machine that the program runs on, as the service sees it."""

    #: Returns seconds of a clock that never goes back.
    monotonic: Callable[[], float] = staticmethod(time.monotonic)
    #: Returns nanoseconds of that clock.
    monotonic_ns: Callable[[], int] = staticmethod(time.monotonic_ns)
    #: Returns nanoseconds since boot; that the machine was suspended counts, too.
    boot_ns: Callable[[], int] = staticmethod(boot_ns)
    #: Returns a random number between two others.
    uniform: Callable[[float, float], float] = staticmethod(random.uniform)

    def new_id(self) -> str:
        """Return 32 hexadecimal digits that were never returned before."""
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

    def thread(self, loop: RunnableLoop, name: str) -> LoopThread:
        """Make a daemon thread running a loop, not started."""
        refuse_gevent(RuntimeError)
        return InterruptibleThread(target=loop.run, name=name, daemon=True)

    def wait(self, done: Callable[[], bool], seconds: float | None) -> float | None:
        """Let time pass until `done`, for so many seconds at most, where no thread would.

        Returns for how long is still to be waited: all of it, for threads run by themselves.
        """
        del done
        return seconds


#: The platform of all that is not told otherwise.
REAL_PLATFORM: Final = Platform()
