"""SimulatedThread: has the world run the steps of a loop, when something comes and when it is time.

Between what wakes it and its step some time passes, mostly microseconds, now and then much more: so
threads come before and after each other in all orders.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.platform import Loop
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.world import NS_PER_S

# Nanoseconds until a thread runs that was woken; one in PREEMPTED_ONE_IN has to wait for longer.
_USUAL_NS: Final = 50_000
_PREEMPTED_NS: Final = 20_000_000
_PREEMPTED_ONE_IN: Final = 200


class SimulatedThread:
    """Runs `loop` on a machine while `is_alive`."""

    def __init__(self, machine: Machine, loop: Loop, is_alive: Callable[[], bool]) -> None:
        self._machine = machine
        self._world = machine.world
        self._loop = loop
        self._is_alive = is_alive
        self._running = False  # started, and not ended
        self._planned_ns = -1  # when the next step is planned; -1: none is
        self._stepping = False
        self._woken = False  # during the step

    def start(self) -> None:
        """Begin to run."""
        self._running = True
        self.wake()

    def is_alive(self) -> bool:
        """Tell whether it runs."""
        return self._running and self._is_alive()

    def join(self, timeout: float | None = None) -> None:
        """Let the world go on until the thread has ended."""
        self._world.run_until(lambda: not self.is_alive(), 1e9 if timeout is None else timeout)

    def wake(self) -> None:
        """Have a step run soon."""
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
        """Run a step, unless another one was planned instead."""
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
