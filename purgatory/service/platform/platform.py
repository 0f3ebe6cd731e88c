"""Platform: clocks, chance, sockets, queues and threads, as servers and clients take them.

They take these from here alone, so that all of them can be replaced: `purgatory.simulation` runs a
server and its clients in one thread, on machines of which nothing is real. Any thread.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, Final, Protocol

import zmq

from mq import Mailbox
from purgatory.service.platform.boot_time import boot_ns
from purgatory.service.platform.doorbell import Doorbell


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
    """A thread that runs a `Loop`: what `threading.Thread` has of it."""

    def start(self) -> None:
        """Begin to run."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end, for so many seconds."""

    def is_alive(self) -> bool:
        """Tell whether it runs."""


class Platform(Protocol):
    """The machine, as the service sees it."""

    def monotonic(self) -> float:
        """Return seconds of a clock that never goes back."""

    def monotonic_ns(self) -> int:
        """Return nanoseconds of that clock."""

    def boot_ns(self) -> int:
        """Return nanoseconds since boot; that the machine was suspended counts, too."""

    def new_id(self) -> str:
        """Return 32 hexadecimal digits that were never returned before."""

    def uniform(self, low: float, high: float) -> float:
        """Return a random number between these."""

    def mailbox(self) -> Mailbox[Any]:
        """Make a mailbox."""

    def doorbell(self) -> Doorbell:
        """Make a doorbell."""

    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        """Make a context for sockets."""

    def thread(self, loop: RunnableLoop, name: str) -> LoopThread:
        """Make a thread that runs a loop, not started."""

    def wait(self, done: Callable[[], bool], seconds: float | None) -> float | None:
        """Let time pass until `done`, for so many seconds at most, where no thread would.

        Returns for how long is still to be waited: all of it where threads run.
        """


class RealPlatform:
    """The machine that the program runs on."""

    monotonic = staticmethod(time.monotonic)
    monotonic_ns = staticmethod(time.monotonic_ns)
    boot_ns = staticmethod(boot_ns)
    uniform = staticmethod(random.uniform)

    def new_id(self) -> str:
        """Return the digits of a UUID."""
        return uuid.uuid4().hex

    def mailbox(self) -> Mailbox[Any]:
        """Make a mailbox with a descriptor."""
        return Mailbox()

    def doorbell(self) -> Doorbell:
        """Make a doorbell for descriptors."""
        return Doorbell()

    def context(self) -> "zmq.Context[zmq.Socket[bytes]]":
        """Make a context of ZeroMQ."""
        return zmq.Context()

    def thread(self, loop: RunnableLoop, name: str) -> LoopThread:
        """Make a daemon thread."""
        return threading.Thread(target=loop.run, name=name, daemon=True)

    def wait(self, done: Callable[[], bool], seconds: float | None) -> float | None:
        """Do nothing: threads run by themselves."""
        del done
        return seconds


#: The platform of all that is not told otherwise.
REAL_PLATFORM: Final = RealPlatform()
