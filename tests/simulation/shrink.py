"""Shrinks a failure: to fewer kinds of faults, and a shorter run, that still break a promise."""

from dataclasses import replace

from tests.simulation.simulation import Settings, Verdict, simulate

# A run is made shorter in steps of this share, down to so many seconds.
_SHORTER = 0.7
_SHORTEST_S = 1.0


def shrink(verdict: Verdict, settings: Settings) -> tuple[Verdict, Settings]:
    """Return a smaller failure of the seed of `verdict`, which failed with `settings`."""
    settings = replace(settings, kinds=verdict.kinds)
    for kind in verdict.kinds:
        fewer = tuple(each for each in settings.kinds or () if each != kind)
        verdict, settings = _try(verdict, settings, replace(settings, kinds=fewer))
    while settings.seconds > _SHORTEST_S:
        shorter = replace(settings, seconds=settings.seconds * _SHORTER)
        verdict, found = _try(verdict, settings, shorter)
        if found is settings:
            break
        settings = found
    return simulate(verdict.seed, settings, with_history=True), settings


def _try(verdict: Verdict, settings: Settings, smaller: Settings) -> tuple[Verdict, Settings]:
    """Return what came of smaller settings if that failed, too; what was given otherwise."""
    found = simulate(verdict.seed, smaller)
    return (found, smaller) if found.violation else (verdict, settings)
