"""Process: a running program on a machine: threads, queues, sockets, open files.

A process is the `Platform` of its program. Once it is killed, nothing it does has an effect, not
even the rest of a step.

The world runs the steps of its threads mostly microseconds after a wake-up, now and then much
later: so threads run in all orders.
"""

from collections.abc import Callable
from typing import Any, Final

from mq import Mailbox
from purgatory.service.platform import Doorbell, Loop, Platform
from purgatory.testing.world.descriptors import Descriptors
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.queues import SimulatedDoorbell, SimulatedMailbox
from purgatory.testing.world.sockets import SimulatedContext
from purgatory.testing.world.world import NS_PER_S, World

# Seconds that a program waits for ever.
_LONGEST_WAIT_S: Final = 86_400.0
# Nanoseconds from wake-up to step; one in PREEMPTED_ONE_IN is longer.
_USUAL_NS: Final = 50_000
_PREEMPTED_NS: Final = 20_000_000
_PREEMPTED_ONE_IN: Final = 200


class Process(Platform):
    """A process on a machine in a `network`."""

    def __init__(self, machine: Machine, network: SimulatedNetwork) -> None:
        self.machine = machine
        self.world: World = machine.world
        self.alive: bool = True
        self.descriptors: Descriptors = Descriptors()
        self.handles = machine.disk.open_handles()
        self._network = network
        self._doorbell: SimulatedDoorbell | None = None  # without a thread yet
        self._contexts: list[SimulatedContext] = []

    def kill(self) -> None:
        """End the process as SIGKILL does: connections end, written data stays."""
        self.alive = self.handles.alive = False
        for context in self._contexts:
            context.destroy()

    def monotonic(self) -> float:
        return self.machine.monotonic_ns() / 1e9

    def monotonic_ns(self) -> int:
        return self.machine.monotonic_ns()

    def boot_ns(self) -> int:
        return self.machine.boot_ns()

    def new_id(self) -> str:
        return f"{self.world.random.getrandbits(128):032x}"

    def uniform(self, low: float, high: float) -> float:
        return self.world.random.uniform(low, high)

    def mailbox(self) -> Mailbox[Any]:
        return SimulatedMailbox(self.descriptors)

    def doorbell(self) -> Doorbell:
        """Make a doorbell for the next thread."""
        self._doorbell = SimulatedDoorbell(self.descriptors)
        return self._doorbell

    def context(self) -> Any:
        context = SimulatedContext(self.machine.name, self.descriptors, self._network)
        self._contexts.append(context)
        return context

    def thread(self, loop: Loop, name: str) -> "SimulatedThread":
        """Make a thread for a loop; the last doorbell wakes it."""
        del name
        thread = SimulatedThread(self.machine, loop, self._is_alive)
        if self._doorbell is not None:
            self._doorbell.wake = thread.wake
            self._doorbell = None
        return thread

    def _is_alive(self) -> bool:
        return self.alive

    def wait(self, done: Callable[[], bool], seconds: float | None) -> float | None:
        self.world.run_until(done, _LONGEST_WAIT_S if seconds is None else seconds)
        return 0.0


class SimulatedThread:
    """Runs `loop` on a machine while `is_alive`."""

    def __init__(self, machine: Machine, loop: Loop, is_alive: Callable[[], bool]) -> None:
        self._machine = machine
        self._world = machine.world
        self._loop = loop
        self._is_alive = is_alive
        self._running = False  # started, and not ended
        self._planned_ns = -1  # of the next step; -1: none
        self._stepping = False
        self._woken = False  # during the step

    def start(self) -> None:
        """Begin to run."""
        self._running = True
        self.wake()

    def is_alive(self) -> bool:
        """Tell whether the thread runs."""
        return self._running and self._is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Let time pass until the thread has ended."""
        self._world.run_until(lambda: not self.is_alive(), 1e9 if timeout is None else timeout)

    def wake(self) -> None:
        """Run a step soon."""
        self._woken = True
        if self._running and not self._stepping:
            self._plan(self._latency_ns())

    def _latency_ns(self) -> int:
        draw = self._world.random.random()
        if draw * _PREEMPTED_ONE_IN < 1.0:
            return int(draw * _PREEMPTED_ONE_IN * _PREEMPTED_NS)
        return int(draw * _USUAL_NS)

    def _plan(self, delay_ns: int) -> None:
        at_ns = self._world.now_ns + delay_ns
        if 0 <= self._planned_ns <= at_ns:
            return
        self._planned_ns = at_ns
        self._world.after(delay_ns, lambda: self._run(at_ns))

    def _run(self, planned_ns: int) -> None:
        if planned_ns != self._planned_ns or not self.is_alive():
            return
        self._planned_ns = -1
        asleep_ns = self._machine.awake_at_ns - self._world.now_ns
        if asleep_ns > 0:  # the machine is suspended
            self._plan(asleep_ns)
            return
        self._step()

    def _step(self) -> None:
        self._stepping = True
        self._woken = False
        try:
            if not self._loop.finished():
                self._loop.step()
        finally:
            self._stepping = False
        if not self._is_alive():
            return
        if self._loop.finished():
            self._running = False
            self._loop.shut_down()
            return
        seconds = 0.0 if self._woken else self._loop.sleep_seconds()
        if seconds is not None:
            self._plan(int(seconds * NS_PER_S) + self._latency_ns())
