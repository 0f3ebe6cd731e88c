"""Worlds: the kinds that the command runs: services, clusters, steered jobs, threads."""

import importlib
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


class ClusterWorlds:
    """Two servers over one database, clients and faults."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def run(self, seed: int, *, with_history: bool = False) -> Verdict:
        """See `Worlds`."""
        # It needs psycopg, whose statements its database reads.
        module = importlib.import_module("tests.simulation.cluster.cluster_simulation")
        verdict: Verdict = module.simulate(seed, self._seconds, with_history=with_history)
        return verdict

    def shrink(self, verdict: Verdict) -> tuple[Verdict, str]:
        """See `Worlds`: a shorter world in which it fails as well."""
        seconds = self._seconds
        while seconds > 2 and self.__class__(seconds / 2).run(verdict.seed).violation:
            seconds /= 2
        smallest = self.__class__(seconds).run(verdict.seed, with_history=True)
        return smallest, f"{seconds:g} seconds"


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
