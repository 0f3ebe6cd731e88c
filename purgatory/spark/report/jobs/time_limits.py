"""The effect of time limits of attempts."""

from typing import Final

from purgatory.spark.report.content import EndCounts, Kind, TimeLimitEffect
from purgatory.spark.report.histograms import quantiles

_SECOND, _MINUTE, _HOUR = 1000, 60_000, 3_600_000
_ROUND: Final = (
    *(100, 200, 500),
    *(n * _SECOND for n in (1, 2, 3, 5, 10, 15, 20, 30, 45)),
    *(n * _MINUTE for n in (1, 2, 3, 5, 10, 15, 20, 30, 45)),
    *(n * _HOUR for n in (1, 2, 3, 4, 6, 8, 12, 24)),
)
# Shares of the successful attempts within the limits to try.
_SHARES: Final = (0.99, 0.999, 1.0)
# A limit leaves so much room above the longest successful attempt.
_ROOM: Final = 1.25


def round_limit(ms: float) -> int:
    """Return the shortest round limit of `ms` or more; days beyond a day."""
    day = 24 * _HOUR
    return next((limit for limit in _ROUND if limit >= ms), int(-(-ms // day)) * day)


def effect_of_time_limit(kind: Kind, runs: EndCounts, limit_ms: int) -> TimeLimitEffect:
    """Return the effect of a limit on the last attempts, by their durations."""
    longer = [row for row in runs if row.value > limit_ms]
    cut = sum(row.done for row in longer)
    saved = sum((row.value - limit_ms) * (row.dead + row.cancelled) for row in longer)
    return TimeLimitEffect(kind, limit_ms, cut, saved)


def limits_to_try(runs: EndCounts) -> list[int]:
    """Return round limits for nearly all successful attempts, ascending."""
    of_done = quantiles_of_done(runs, _SHARES)
    return sorted({round_limit(value) for value in of_done})


def limit_above_all(runs: EndCounts) -> int | None:
    """Return a round limit with room above each successful attempt, or None."""
    longest = quantiles_of_done(runs, (1.0,))
    return round_limit(_ROOM * longest[0]) if longest else None


def quantiles_of_done(runs: EndCounts, shares: tuple[float, ...]) -> tuple[int, ...]:
    """Return quantiles of the successful attempts; see `histograms.quantiles`."""
    return quantiles(runs, lambda row: row.done, shares)
