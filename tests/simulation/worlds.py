"""Worlds: the kinds that the command runs: services, steered jobs, threads of one process."""

from typing import Protocol

from tests.simulation.inprocess.shrink import shrink as shrink_threads
from tests.simulation.inprocess.simulation import ThreadSettings
from tests.simulation.inprocess.simulation import simulate as simulate_threads
from tests.simulation.shrink import shrink
from tests.simulation.simulation import Settings, Verdict, simulate
from tests.simulation.steering.repeat_world import simulate as simulate_repeats
from tests.simulation.steering.simulation import SteeredSettings
from tests.simulation.steering.simulation import simulate as simulate_steered


class Worlds(Protocol):
    """Worlds of one kind, each made from a seed."""

    def run(self, seed: int, *, with_history: bool = False) -> Verdict:
        """Run the world of a seed."""

    def shrink(self, verdict: Verdict) -> tuple[Verdict, str]:
        """Return a smaller failure of a seed, with its history, and what it is made of."""


class ServiceWorlds:
    """A server, its clients and faults."""

    def __init__(self, seconds: float) -> None:
        self._settings = Settings(seconds=seconds)

    def run(self, seed: int, *, with_history: bool = False) -> Verdict:
        """See `Worlds`."""
        return simulate(seed, self._settings, with_history=with_history)

    def shrink(self, verdict: Verdict) -> tuple[Verdict, str]:
        """See `Worlds`."""
        smallest, found = shrink(verdict, self._settings)
        return (
            smallest,
            f"{found.seconds:g} seconds, faults: {', '.join(found.kinds or ()) or 'none'}",
        )


class SteeredWorlds:
    """A server, workers, and a program that steers its jobs."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, seed: int, *, with_history: bool = False) -> Verdict:
        """See `Worlds`: each fourth world has repeats instead, and no workers."""
        if seed % 4 == 3:
            return simulate_repeats(seed, with_history=with_history)
        return simulate_steered(seed, SteeredSettings(self._seconds), with_history=with_history)

    def shrink(self, verdict: Verdict) -> tuple[Verdict, str]:
        """See `Worlds`: each fault that the failure can do without goes."""
        if verdict.seed % 4 == 3:
            return simulate_repeats(verdict.seed, with_history=True), "repeats, and no workers"
        kinds = verdict.kinds
        for kind in verdict.kinds:
            fewer = tuple(one for one in kinds if one != kind)
            settings = SteeredSettings(self._seconds, fewer)
            kinds = fewer if simulate_steered(verdict.seed, settings).violation else kinds
        settings = SteeredSettings(self._seconds, kinds)
        smallest = simulate_steered(verdict.seed, settings, with_history=True)
        return smallest, f"faults: {', '.join(kinds) or 'none'}"


class ThreadWorlds:
    """A timer or a purgatory, and threads that use it."""

    def __init__(self) -> None:
        self._settings = ThreadSettings()

    def run(self, seed: int, *, with_history: bool = False) -> Verdict:
        """See `Worlds`."""
        return simulate_threads(seed, self._settings, with_history=with_history)

    def shrink(self, verdict: Verdict) -> tuple[Verdict, str]:
        """See `Worlds`."""
        smallest, found = shrink_threads(verdict, self._settings)
        return smallest, f"up to {found.threads} threads, and {found.calls} calls of each"
