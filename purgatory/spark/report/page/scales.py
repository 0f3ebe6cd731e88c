"""The scales of plots: where a value is on an axis, and the ticks. Pure; any thread may call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final, NamedTuple

from purgatory.spark.report import formatting
from purgatory.spark.report.histograms import bin_width_ms

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
# Round durations, about three in each power of ten.
_ROUND: Final = (
    *(0, 1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2, 5, 12)),
    *(n * 10**power * _DAY for power in range(12) for n in (1, 2, 5)),
)
# A scale is logarithmic if the largest value is so many times the smallest.
_SPANS_DECADES: Final = 30


class Scale(NamedTuple):
    """An axis from `low` to `high`, with ticks of values and labels.

    `log`: logarithmic, of 1 + value, so that 0 has a place.
    """

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a value is, 0 to 1; values outside are moved to the ends."""
        low, high, at = map(self._position, (self.low, self.high, value))
        return min(1.0, max(0.0, (at - low) / ((high - low) or 1)))

    def _position(self, value: float) -> float:
        return log10(1 + value) if self.log else value


def names(labels: Sequence[str]) -> Scale:
    """Give each name a row of its own."""
    return Scale(-0.5, len(labels) - 0.5, [*enumerate(labels)])


def counts(highest: float, ticks: int = 5) -> Scale:
    """Show counts from 0, with grouped digits."""
    step = _round_step(highest / ticks)
    last = max(1, ceil(highest / step))
    return Scale(0, last * step, [(n * step, formatting.number(n * step)) for n in range(last + 1)])


def rates(values: Iterable[float]) -> Scale:
    """Show rates by powers of ten; place a value by its `rate`."""
    powers = [rate(value) for value in values if value > 0] or [0.0]
    low, high = floor(min(powers)), ceil(max(powers))
    high = max(high, low + 1)
    steps = range(low, high + 1, 1 + (high - low) // 6)
    return Scale(low, high, [(n, formatting.number(10.0**n)) for n in steps])


def rate(value: float) -> float:
    """Return the power of ten that a rate is; a rate of 0 is at the bottom of every scale."""
    return log10(value) if value > 0 else -99.0


def percent() -> Scale:
    """Show percents from 0 to 100."""
    return Scale(0, 100, [(n, f"{n} %") for n in range(0, 101, 25)])


def times(edges: Sequence[int], *, narrow: bool) -> Scale:
    """Show times from the first to the last of `edges`, Unix ms, with ticks at round ones.

    If the ticks have times of day, the day is shown only at its first tick.
    """
    width = bin_width_ms(edges[-1] - edges[0], 3 if narrow else 6)
    ticks = [*range(-(-edges[0] // width) * width, edges[-1] + 1, width)]
    labels = [formatting.utc_time(tick, width) for tick in ticks]
    days = [label.partition(" ")[0] for label in labels]
    for place, (before, day) in enumerate(pairwise(days), 1):
        if before == day != labels[place]:
            labels[place] = labels[place].removeprefix(day)
    shown = [label.strip().replace(" ", "\n") for label in labels]
    return Scale(edges[0], edges[-1], [*zip(ticks, shown, strict=True)])


def durations(values: Iterable[float], *, narrow: bool) -> Scale:
    """Show durations; logarithmic if they span decades. Ticks are round."""
    present = sorted({0.0, *values})
    high = present[-1] or 1.0
    low = next((value for value in present if value), high)
    if high < _SPANS_DECADES * low:
        return _linear(high, narrow=narrow)
    # Down to 0 only if what is there is small; else the smallest value is at the left.
    low = 0 if low <= 2 else low
    inside = [tick for tick in _ROUND if low <= tick <= high * 1.05]
    most = 4 if narrow else 8
    ticks = inside[:: -(-len(inside) // most)]
    return Scale(low, high * 1.15, [(n, formatting.duration(n) if n else "0") for n in ticks], True)


def _linear(high: float, *, narrow: bool) -> Scale:
    step = bin_width_ms(ceil(high), 4 if narrow else 6)
    ticks = range(0, ceil(high) + 1, step)
    return Scale(0, high * 1.08, [(n, formatting.duration(n) if n else "0") for n in ticks])


def _round_step(step: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten, 1 at least."""
    if step <= 1:
        return 1
    power: float = 10.0 ** floor(log10(step))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= step)
