"""Process: what a running program has of a machine: threads, queues, sockets, open files.

It is the `Platform` of the program in it. When it is killed nothing of it happens any more, also if
that is in the middle of a step: what the step still does has no effect.
"""

from collections.abc import Callable
from typing import Any, Final

from mq import Mailbox
from purgatory.service.platform import Doorbell, Loop, Platform
from purgatory.testing.world.descriptors import Descriptors
from purgatory.testing.world.loop_thread import SimulatedThread
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.queues import SimulatedDoorbell, SimulatedMailbox
from purgatory.testing.world.sockets import SimulatedContext

# Seconds that a program waits that waits for ever.
_LONGEST_WAIT_S: Final = 86_400.0


class Process(Platform):
    """A process on a machine that has a `network`."""

    def __init__(self, machine: Machine, network: SimulatedNetwork) -> None:
        self.machine = machine
        self.world = machine.world
        self.alive: bool = True
        self.descriptors: Descriptors = Descriptors()
        self.handles = machine.disk.open_handles()
        self._network = network
        self._doorbell: SimulatedDoorbell | None = None  # made, and no thread for it yet
        self._contexts: list[SimulatedContext] = []

    def kill(self) -> None:
        """End it as SIGKILL does: its connections end, what it has written stays."""
        self.alive = self.handles.alive = False
        for context in self._contexts:
            context.destroy()

    def monotonic(self) -> float:
        """Return seconds of the machine's monotonic clock."""
        return self.machine.monotonic_ns() / 1e9

    def monotonic_ns(self) -> int:
        """Return nanoseconds of that clock."""
        return self.machine.monotonic_ns()

    def boot_ns(self) -> int:
        """Return nanoseconds since the machine was booted."""
        return self.machine.boot_ns()

    def new_id(self) -> str:
        """Return 32 hexadecimal digits."""
        return f"{self.world.random.getrandbits(128):032x}"

    def uniform(self, low: float, high: float) -> float:
        """Return a random number between these."""
        return self.world.random.uniform(low, high)

    def mailbox(self) -> Mailbox[Any]:
        """Make a mailbox."""
        return SimulatedMailbox(self.descriptors)

    def doorbell(self) -> Doorbell:
        """Make a doorbell, for the next thread."""
        self._doorbell = SimulatedDoorbell(self.descriptors)
        return self._doorbell

    def context(self) -> Any:
        """Make a context for sockets."""
        context = SimulatedContext(self.machine.name, self.descriptors, self._network)
        self._contexts.append(context)
        return context

    def thread(self, loop: Loop, name: str) -> SimulatedThread:
        """Make a thread that runs a loop, and is woken by the last doorbell made."""
        del name
        thread = SimulatedThread(self.machine, loop, self._is_alive)
        if self._doorbell is not None:
            self._doorbell.wake = thread.wake
            self._doorbell = None
        return thread

    def _is_alive(self) -> bool:
        return self.alive

    def wait(self, done: Callable[[], bool], seconds: float | None) -> float | None:
        """Let the world go on until `done`."""
        self.world.run_until(done, _LONGEST_WAIT_S if seconds is None else seconds)
        return 0.0
