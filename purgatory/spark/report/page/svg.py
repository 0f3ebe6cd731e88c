"""Draws plots as SVG elements of a page; the page's style sheet colours them.

Each plot is drawn twice, for a wide and for a narrow window; the style sheet shows one of them.
Text stays text, and elements have classes instead of colours, so that light and dark pages and
print share one drawing. Pure; any thread may call.
"""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from purgatory.spark.report import formatting

if TYPE_CHECKING:
    from purgatory.spark.report.page.scales import Scale

_WIDTHS: Final = {False: 760, True: 350}  # CSS pixels, by narrow
_LINE: Final = 16  # from one line of text to the next
_LETTER: Final = 6.7  # width of an average letter
_RIGHT: Final = 14

Painter = Callable[[bool], "Plot"]
"""Makes the plot of a wide window, or of a narrow one (True)."""


def draw(painter: Painter) -> str:
    """Draw two SVG elements, of classes `wide` and `narrow`."""
    return painter(False).svg("wide") + painter(True).svg("narrow")


def text_width(text: str) -> float:
    """Estimate the width of a text in pixels; letters of East Asia are twice as wide."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return _LETTER * (len(text) + wide)


def element(tag: str, content: str = "", **attributes: object) -> str:
    """Make an SVG element; `content` is markup. An underscore in a name stands for a dash."""
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(_number(value))}"'
        for name, value in attributes.items()
    )
    return f"<{tag}{written}>{content}</{tag}>" if content else f"<{tag}{written}/>"


def title(text: str) -> str:
    """Make the text that a pointer shows over an element."""
    return f"<title>{_escaped(text)}</title>"


def _number(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


def _escaped(text: str) -> str:
    return html.escape(formatting.name(text, 200), quote=False)


class Plot:
    """A plot with two axes, of `height` pixels.

    `down`: the vertical axis grows downwards, for rows of names. `top`: lines of text above the
    plot. `heads`: titles of the axes, horizontal and vertical.
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
        top: int = 0,
    ) -> None:
        self._size = (_WIDTHS[narrow], height)
        self._x, self._y, self._heads, self._down = x, y, heads, down
        lines = max((label.count("\n") for _, label in x.ticks), default=0) + 1
        self.left = 12 + max((text_width(label) for _, label in y.ticks), default=0)
        self.right = float(self._size[0] - _RIGHT)
        self.top = 8.0 + _LINE * (top + bool(heads[1]))
        self.bottom = float(height - 8 - _LINE * (lines + bool(heads[0])))
        self._parts: list[str] = []

    def x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        return self.left + self._x.place(value) * (self.right - self.left)

    def y(self, value: float) -> float:
        """Return the vertical position of a value."""
        place = self._y.place(value)
        return self.top + (place if self._down else 1 - place) * (self.bottom - self.top)

    def add(self, *elements: str) -> None:
        """Add elements above those before."""
        self._parts += elements

    def line(self, points: Iterable[tuple[float, float]], css: str, *, steps: bool = False) -> None:
        """Add a line through points, or steps that change at each point."""
        places = [(self.x(x), self.y(y)) for x, y in points]
        if not places:
            return
        (first_x, first_y), *rest = places
        turn = "H{x:.1f}V{y:.1f}" if steps else "L{x:.1f},{y:.1f}"
        path = "".join(turn.format(x=x, y=y) for x, y in rest)
        self.add(element("path", d=f"M{first_x:.1f},{first_y:.1f}{path}", class_=f"line {css}"))

    def dot(self, x: float, y: float, css: str, tip: str = "") -> None:
        """Add a dot with a text that a pointer shows."""
        self.add(
            element("circle", title(tip), cx=self.x(x), cy=self.y(y), r=4.5, class_=f"dot {css}")
        )

    def box(
        self,
        x: tuple[float, float],
        y: tuple[float, float],
        css: str,
        tip: str = "",
        **more: object,
    ) -> None:
        """Add a filled rectangle between two values of each axis."""
        left, right = sorted(map(self.x, x))
        top, bottom = sorted(map(self.y, y))
        size = {"x": left, "y": top, "width": right - left, "height": bottom - top}
        self.add(element("rect", title(tip) if tip else "", **size, class_=f"box {css}", **more))

    def text(self, x: float, y: float, text: str, css: str = "") -> None:
        """Add a text at a position in pixels; class `end` or `middle` aligns it."""
        self.add(element("text", _escaped(text) or " ", x=x, y=y, class_=css))

    def markers(self, marks: Sequence[tuple[float, str, str]]) -> None:
        """Add vertical lines with labels above the plot: value, label, class.

        A label that has no room on one line goes to the next.
        """
        ends: list[float] = []
        for value, label, css in sorted(marks):
            x, width = self.x(value), text_width(label)
            left = min(max(2, x - width / 2), self._size[0] - 2 - width)
            line = next((n for n, end in enumerate(ends) if left > end + 6), len(ends))
            ends[line : line + 1] = [left + width]
            y = 12 + _LINE * line
            self.add(element("path", d=f"M{x:.1f},{y + 4:.1f}V{self.bottom:.1f}", class_=css))
            self.text(left + width / 2, y, label, f"middle {css}")

    def svg(self, css: str) -> str:
        """Return the plot as an element that screen readers skip."""
        width, height = self._size
        inside = self._axes() + "".join(self._parts)
        return element(
            "svg",
            inside,
            class_=css,
            viewBox=f"0 0 {width} {height}",
            aria_hidden="true",
            focusable="false",
        )

    def _axes(self) -> str:
        """Draw grid lines, the names of ticks, and the titles of axes."""
        plot, before = self._parts, len(self._parts)
        for value, label in self._x.ticks:
            x = self.x(value)
            self.add(element("path", d=f"M{x:.1f},{self.top:.1f}V{self.bottom:.1f}", class_="grid"))
            for number, part in enumerate(label.split("\n"), 1):
                self.text(x, self.bottom + number * _LINE, part, self._alignment(x, part))
        for value, label in self._y.ticks:
            y = self.y(value)
            if not self._down:
                path = f"M{self.left:.1f},{y:.1f}H{self.right:.1f}"
                self.add(element("path", d=path, class_="grid"))
            self.text(self.left - 6, y + 4, label, "end")
        if self._heads[0]:
            middle = (self.left + self.right) / 2
            self.text(middle, self._size[1] - 6, self._heads[0], "middle soft")
        if self._heads[1]:
            self.text(4, self.top - 8, self._heads[1], "soft")
        axes = "".join(plot[before:])
        del plot[before:]
        return axes

    def _alignment(self, x: float, label: str) -> str:
        """Align a tick's name in the middle, unless it would leave the drawing."""
        return "end" if x + text_width(label) / 2 > self._size[0] else "middle"
