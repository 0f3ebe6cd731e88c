"""Draws plots as SVG elements of a page, each for a wide and for a narrow window.

The page's style sheet colours the elements by class, and shows the suitable drawing.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import ceil, floor, log10
from typing import Final, NamedTuple

from purgatory.spark.report import formatting
from purgatory.spark.report.histograms import bin_width_ms

_WIDTHS: Final = {False: 760, True: 350}  # CSS pixels, by narrow
_LINE: Final = 16  # height of a line of text
_LETTER: Final = 6.7  # width of an average letter
_RIGHT: Final = 14
_MARGIN: Final = 3  # beside a text: widths are estimated

Painter = Callable[[bool], "Plot"]
"""Makes the plot of a wide or, if True, of a narrow window."""

Mark = tuple[float, str, str]
"""A vertical line: place, label and class."""


def draw(painter: Painter) -> str:
    """Draw two SVG elements, `wide` and `narrow`."""
    return painter(False).svg("wide") + painter(True).svg("narrow")


def text_width(text: str) -> float:
    """Estimate a text's width in pixels; an East Asian letter counts double."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return _LETTER * (len(text) + wide)


def element(tag: str, content: str = "", **attributes: object) -> str:
    """Make an SVG element of markup. Underscores in names become dashes."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(_number(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def title(text: str) -> str:
    """Make a text that a pointer shows."""
    return f"<title>{_escaped(text)}</title>"


def _number(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return html.escape(formatting.name(text, 200), quote=False)


class Plot:
    """A plot with two axes, of `height` pixels.

    `heads`: titles of the axes. `down`: the vertical axis grows downwards, for rows of names.
    `marks`: vertical lines with labels; see `markers`.
    """

    def __init__(
        self,
        narrow: bool,
        height: int,
        x: Scale,
        y: Scale,
        *,
        heads: tuple[str, str] = ("", ""),
        down: bool = False,
        marks: Sequence[Mark] = (),
    ) -> None:
        self._size = (_WIDTHS[narrow], height)
        self._x, self._y, self._heads, self._down = x, y, heads, down
        lines = max((label.count("\n") for _, label in x.ticks), default=0) + 1
        self.left: float = 14 + max((text_width(label) for _, label in y.ticks), default=0)
        self.right: float = float(self._size[0] - _RIGHT)
        self._labels = place_labels(
            [(self.x(x), label, css) for x, label, css in marks], self._size[0]
        )
        rows = max((label.row + 1 for label in self._labels), default=0)
        self.top: float = 8.0 + _LINE * (rows + bool(heads[1]))
        self.bottom: float = float(height - 8 - _LINE * (lines + bool(heads[0])))
        self._parts: list[str] = []
        self._add_axes()

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        return self.left + self._x.place(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        place = self._y.place(value)
        return self.top + (place if self._down else 1 - place) * (self.bottom - self.top)

    def line(self, points: Iterable[tuple[float, float]], css: str, *, steps: bool = False) -> None:
        """Add a line, or steps that change at each point."""
        places = [(self.x(x), self.y(y)) for x, y in points]
        if not places:
            return
        (first_x, first_y), *rest = places
        turn = "H{x:.1f}V{y:.1f}" if steps else "L{x:.1f},{y:.1f}"
        path = "".join(turn.format(x=x, y=y) for x, y in rest)
        self._path(f"M{first_x:.1f},{first_y:.1f}{path}", f"line {css}")

    def _path(self, path: str, css: str) -> None:
        self._parts.append(element("path", d=path, class_=css))

    def dot(self, x: float, y: float, css: str, tip: str = "") -> None:
        """Add a dot with a tip."""
        place = {"cx": self.x(x), "cy": self.y(y), "r": 4.5}
        self._parts.append(element("circle", title(tip), **place, class_=f"dot {css}"))

    def box(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        css: str,
        tip: str = "",
        **more: object,
    ) -> None:
        """Add a rectangle between two values of each axis."""
        left, right = sorted(map(self.x, x))
        top, bottom = sorted(map(self.y, y))
        size = {"x": left, "y": top, "width": right - left, "height": bottom - top}
        shown = title(tip) if tip else ""
        self._parts.append(element("rect", shown, **size, class_=f"box {css}", **more))

    def text(self, x: float, y: float, text: str, css: str = "") -> None:
        """Add a text at pixels; class `end` or `middle` aligns."""
        self._parts.append(element("text", _escaped(text) or " ", x=x, y=y, class_=css))

    def markers(self) -> None:
        """Add the marks and their labels."""
        for label in self._labels:
            y = 12 + _LINE * label.row
            self._path(f"M{label.x:.1f},{y - 9:.1f}V{self.bottom:.1f}", label.css)
            css = "end " if label.left < label.x else ""
            self.text(label.x - 4 if css else label.x + 4, y, label.text, css + label.css)

    def svg(self, css: str) -> str:
        """Return the plot, hidden from screen readers."""
        width, height = self._size
        hidden = {"aria_hidden": "true", "focusable": "false"}
        box = f"0 0 {width} {height}"
        return element("svg", "".join(self._parts), class_=css, viewBox=box, **hidden)

    def _add_axes(self) -> None:
        for value, label in self._x.ticks:
            x, parts = self.x(value), label.split("\n")
            self._path(f"M{x:.1f},{self.top:.1f}V{self.bottom:.1f}", "grid")
            # Centred, unless it would leave the drawing.
            half = max(map(text_width, parts)) / 2 + _MARGIN
            middle = max(half, min(x, self._size[0] - half))
            for number, part in enumerate(parts, 1):
                self.text(middle, self.bottom + number * _LINE, part, "middle")
        for value, label in self._y.ticks:
            y = self.y(value)
            if not self._down:
                self._path(f"M{self.left:.1f},{y:.1f}H{self.right:.1f}", "grid")
            self.text(self.left - 6, y + 4, label, "end")
        if self._heads[0]:
            middle = (self.left + self.right) / 2
            self.text(middle, self._size[1] - 6, self._heads[0], "middle soft")
        if self._heads[1]:
            self.text(4, self.top - 8, self._heads[1], "soft")


class Label(NamedTuple):
    """A label at a vertical line `x`, from `left` to `right`, in a `row`."""

    row: int
    left: float
    right: float
    x: float
    text: str
    css: str

    def overlaps(self, other: Label) -> bool:
        """Return whether two labels overlap."""
        return self.row == other.row and self.left < other.right and other.left < self.right

    def is_crossed(self, other: Label) -> bool:
        """Return whether a lower label's line goes through this label."""
        return other.row < self.row and self.left < other.x < self.right


def place_labels(marks: Iterable[Mark], width: int) -> list[Label]:
    """Place labels of vertical lines, in a drawing of a width.

    Labels may be right or left of their lines. The fewest are crossed by a line, or leave the
    drawing.
    """
    sized = sorted((x, text_width(text) + 8, text, css) for x, text, css in marks)
    ways = (_placed(sized, rights) for rights in range(len(sized) + 1))
    return min(ways, key=lambda labels: _faults(labels, width))


def _placed(sized: Sequence[tuple[float, float, str, str]], rights: int) -> list[Label]:
    placed: list[Label] = []
    order = [*range(rights), *reversed(range(rights, len(sized)))]
    for number in order:
        x, size, text, css = sized[number]
        left = x if number < rights else x - size
        rows = (Label(row, left, left + size, x, text, css) for row in range(len(sized)))
        placed.append(next(one for one in rows if _is_free(one, placed)))
    return placed


def _is_free(label: Label, placed: Sequence[Label]) -> bool:
    lowest = max((one.row for one in placed if one.left < label.x < one.right), default=-1)
    return label.row >= lowest and not any(map(label.overlaps, placed))


def _faults(labels: Sequence[Label], width: int) -> int:
    """Count crossed labels; a label outside counts for many."""
    crossed = sum(one.is_crossed(other) for one in labels for other in labels)
    outside = sum(one.left < 0 or one.right > width for one in labels)
    return crossed + len(labels) ** 2 * outside


_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
# Round durations.
_ROUND: Final = (
    *(0, 1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(n * _SECOND for n in (1, 2, 5, 10, 20, 30)),
    *(n * _MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * _HOUR for n in (1, 2, 5, 12)),
    *(n * 10**power * _DAY for power in range(12) for n in (1, 2, 5)),
)
# From this ratio of largest to smallest value, a scale is logarithmic.
_SPANS_DECADES: Final = 30


class Scale(NamedTuple):
    """An axis from `low` to `high`; `log`: logarithmic of 1 + value, so that 0 has a place."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a value is, within 0 to 1."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = (log10(1 + place) for place in (low, high, at))
        return min(1.0, max(0.0, (at - low) / ((high - low) or 1)))


PERCENTS: Final = Scale(0, 100, [(n, f"{n} %") for n in range(0, 101, 25)])


def name_scale(labels: Sequence[str]) -> Scale:
    """Give each name a row."""
    return Scale(-0.5, len(labels) - 0.5, [*enumerate(labels)])


def count_scale(highest: float, ticks: int = 5) -> Scale:
    """Show counts from 0."""
    step = _round_step(highest / ticks)
    last = max(1, ceil(highest / step))
    return Scale(0, last * step, [(n * step, formatting.number(n * step)) for n in range(last + 1)])


def rate_scale(values: Iterable[float]) -> Scale:
    """Show rates by powers of ten; place a value by its `rate`."""
    powers = [rate(value) for value in values if value > 0] or [0.0]
    low, high = floor(min(powers)), ceil(max(powers))
    high = max(high, low + 1)
    steps = range(low, high + 1, 1 + (high - low) // 6)
    return Scale(low, high, [(n, formatting.number(10.0**n)) for n in steps])


def rate(value: float) -> float:
    """Return a rate's power of ten; 0 is at the bottom of every scale."""
    return log10(value) if value > 0 else -99.0


def time_scale(edges: Sequence[int], *, narrow: bool) -> Scale:
    """Show times, Unix ms, from the first to the last of `edges`.

    Only the first tick of a day shows the day.
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


def duration_scale(values: Iterable[float], *, narrow: bool) -> Scale:
    """Show durations; logarithmic if they span decades."""
    present = sorted({0.0, *values})
    high = present[-1] or 1.0
    low = next((value for value in present if value), high)
    if high < _SPANS_DECADES * low:
        step = bin_width_ms(ceil(high), 4 if narrow else 6)
        return Scale(0, high * 1.08, _duration_ticks(range(0, ceil(high) + 1, step)))
    # From 0 only for small values; else from below the smallest.
    low = 0 if low <= 2 else low / 1.1
    inside = [tick for tick in _ROUND if low <= tick <= high * 1.05]
    most = 4 if narrow else 8
    ticks = inside[:: -(-len(inside) // most)]
    return Scale(low, high * 1.15, _duration_ticks(ticks), log=True)


def _duration_ticks(ticks: Iterable[float]) -> list[tuple[float, str]]:
    return [(tick, formatting.duration(tick) if tick else "0") for tick in ticks]


def _round_step(step: float) -> float:
    if step <= 1:
        return 1
    power: float = 10.0 ** floor(log10(step))
    return next(n * power for n in (1, 2, 5, 10) if n * power >= step)
