"""Simulation: a timer or a purgatory, threads that use it, from a seed to a verdict."""

import gc
import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.simulation.inprocess.oracle import ThreadOracle
from tests.simulation.inprocess.purgatory_programs import PurgatoryPrograms
from tests.simulation.inprocess.scheduler import Scheduler
from tests.simulation.inprocess.substitutes import substituted
from tests.simulation.inprocess.timer_programs import TimerPrograms
from tests.simulation.inprocess.tracing import tracer
from tests.simulation.simulation import Verdict


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """Of a simulation, beside its seed: how many threads, and calls of each, at most."""

    threads: int = 4
    calls: int = 100


class Programs(Protocol):
    """What the threads of a world do."""

    def start(self) -> list[Callable[[], None]]:
        """Make what is used; returns what further threads are to do."""

    def act(self) -> None:
        """Do one thing."""

    def finish(self) -> None:
        """Check that all is done that is due, and close."""

    def check(self) -> None:
        """Check that nothing is left, once all threads have ended."""


class InProcessWorld:
    """The world of a seed."""

    def __init__(self, seed: int, settings: ThreadSettings, *, with_history: bool = False) -> None:
        self._seed = seed
        self._chance = random.Random(seed)
        self._settings = settings
        self._scheduler = Scheduler(self._chance, with_history=with_history)
        self._scheduler.on_begin = tracer(self._scheduler)
        self._oracle = ThreadOracle(self._scheduler)
        kind = self._chance.choice((TimerPrograms, PurgatoryPrograms))
        self._programs: Programs = kind(self._scheduler, self._oracle)

    def run(self) -> Verdict:
        """Run it to the end, or to the first violation."""
        scheduler = self._scheduler
        start_ns = scheduler.now_ns
        main = threading.Thread(target=self._main, name="main", daemon=True)
        with substituted(scheduler):
            scheduler.run(main)
        return Verdict(
            self._seed,
            scheduler.failure,
            (scheduler.now_ns - start_ns) / 1e9,
            scheduler.decisions,
            len(self._oracle.tasks) + len(self._oracle.waits),
            history=scheduler.history or [],
        )

    def _main(self) -> None:
        """Start the threads, wait for them, and check what is left."""
        others = self._programs.start()
        count = self._chance.randint(1, self._settings.threads)
        callers = [
            threading.Thread(target=self._call, name=f"caller-{n}", daemon=True)
            for n in range(count)
        ]
        for thread in callers:
            thread.start()
        drivers = [threading.Thread(target=each, name="driver", daemon=True) for each in others]
        for thread in drivers:
            thread.start()
        for thread in callers:
            thread.join()
        self._programs.finish()
        for thread in drivers:
            thread.join()
        self._programs.check()

    def _call(self) -> None:
        for _ in range(self._chance.randint(1, self._settings.calls)):
            self._programs.act()


def simulate(
    seed: int, settings: ThreadSettings | None = None, *, with_history: bool = False
) -> Verdict:
    """Run a seed. The log and the cycle collector are turned off meanwhile.

    The collector would call finalizers wherever it happens to run.
    """
    disabled, collects = logging.root.manager.disable, gc.isenabled()
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        return InProcessWorld(seed, settings or ThreadSettings(), with_history=with_history).run()
    finally:
        logging.disable(disabled)
        if collects:
            gc.enable()
