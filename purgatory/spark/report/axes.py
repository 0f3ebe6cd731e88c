"""The axes of plots: names, counts, times and durations.

Call from one thread at a time, see `svg`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from matplotlib.ticker import MaxNLocator

from purgatory.spark.report import formatting
from purgatory.spark.report.aggregates import bin_width_ms

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from purgatory.spark.report.svg import Canvas

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
# Round durations, about three in each power of ten.
_ROUND: Final = (
    *(0, 1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2, 5, 12)),
    *(n * 10**power * _DAY for power in range(12) for n in (1, 2, 5)),
)


def names_axis(axes: Axes, names: Sequence[str]) -> None:
    """Label the vertical axis with names, from top to bottom."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(visible=False, axis="y")


def counts_axis(axes: Axes, *, vertical: bool) -> None:
    """Make an axis show counts from 0, with grouped digits."""
    axis = axes.yaxis if vertical else axes.xaxis
    axis.set_major_locator(MaxNLocator(5 if vertical else 4))
    axis.set_major_formatter(lambda value, _: formatting.number(value))
    if vertical:
        axes.set_ylim(bottom=0)


def time_axis(axes: Axes, edges: Sequence[int], canvas: Canvas) -> None:
    """Make the horizontal axis show times, with ticks at round ones.

    `edges` are in Unix ms; the axis goes from the first to the last. If the ticks have times of
    day, the day is shown only at its first tick.
    """
    width = bin_width_ms(edges[-1] - edges[0], 3 if canvas.narrow else 6)
    ticks = [*range(-(-edges[0] // width) * width, edges[-1] + 1, width)]
    labels = [formatting.utc_time(tick, width) for tick in ticks]
    days = [label.partition(" ")[0] for label in labels]
    for place, (before, day) in enumerate(pairwise(days), 1):
        if before == day != labels[place]:
            labels[place] = labels[place].removeprefix(day)
    axes.set_xticks(ticks, [label.strip().replace(" ", "\n") for label in labels])
    axes.set_xlim(edges[0], edges[-1])


def duration_axis(
    axes: Axes, values: Iterable[float], canvas: Canvas, *, at_values: bool = False
) -> None:
    """Make the horizontal axis show durations, logarithmic but with 0.

    Ticks are round or `at_values`. If there are too many ticks, shows only every second, third ...
    of them.
    """
    present = sorted(set(values))
    low, high = present[0], present[-1]
    inside = [tick for tick in _ROUND if low * 0.8 <= tick <= high * 1.25]
    wanted = present if at_values or not inside else inside
    most = 4 if canvas.narrow or at_values else 8
    ticks = wanted[:: -(-len(wanted) // most)]
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xticks(ticks, [formatting.duration(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low * 0.75 if low else -0.1, high * 1.33 + 0.1)


def duration_steps(axes: Axes, highest_ms: float) -> None:
    """Make the vertical axis show durations, with round steps from 0."""
    step = bin_width_ms(int(highest_ms) + 1, 6)
    ticks = [*range(0, int(highest_ms) + step, step)]
    axes.set_yticks(ticks, [formatting.duration(tick) if tick else "0" for tick in ticks])
    axes.set_ylim(0, highest_ms * 1.05 or 1)
