"""Shrinks a failure: to fewer threads, and fewer calls of each, in which a promise is broken, too.

The same seed with other settings is another world, so the smaller failure may be another one.
"""

from collections.abc import Iterator

from tests.simulation.inprocess.simulation import ThreadSettings, simulate
from tests.simulation.simulation import Verdict


def shrink(verdict: Verdict, settings: ThreadSettings) -> tuple[Verdict, ThreadSettings]:
    """Return a smallest failure of the seed of `verdict`, which failed with `settings`."""
    for smaller in _smaller(settings):
        if simulate(verdict.seed, smaller).violation:
            settings = smaller
            break
    return simulate(verdict.seed, settings, with_history=True), settings


def _smaller(settings: ThreadSettings) -> Iterator[ThreadSettings]:
    for threads in range(1, settings.threads + 1):
        for calls in range(2, settings.calls, 3):
            yield ThreadSettings(threads, calls)
