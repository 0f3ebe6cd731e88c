"""Plots as SVG inside a page: drawn by matplotlib, coloured by the page's style sheet.

Every plot is drawn twice, for a wide and for a narrow window; the style sheet shows one. Text
stays text, and colours are variables, so that light and dark pages share one drawing.

No window system is asked for (no pyplot). The style is set for the time of a drawing, in a global
of matplotlib: draw in one thread at a time.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that stand for variables of the style sheet, and are found again in the drawing.
INK: Final = "#0a0b01"
FAINT: Final = "#0a0b02"
COMPLETED: Final = "#0a0b03"
EXPIRED: Final = "#0a0b04"
CANCELLED: Final = "#0a0b05"
SERIES: Final = ("#0a0b11", "#0a0b12", "#0a0b13", "#0a0b14", "#0a0b15", "#0a0b16")
_VARIABLES: Final = {
    INK: "--ink",
    FAINT: "--faint",
    COMPLETED: "--completed",
    EXPIRED: "--expired",
    CANCELLED: "--cancelled",
    **{colour: f"--series-{number}" for number, colour in enumerate(SERIES, 1)},
}
_POINTS: Final = 72
_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.family": ["sans-serif"],
    "font.size": 11,
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "grid.color": FAINT,
    "grid.alpha": 0.45,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 2,
}


class Canvas(NamedTuple):
    """Where a painter draws: a figure, and whether it is for a narrow window."""

    figure: Figure
    narrow: bool

    def axes(self) -> Axes:
        """The only axes of a plot."""
        return self.figure.add_subplot()

    @property
    def name_length(self) -> int:
        """How many characters a name on an axis may have."""
        return 16 if self.narrow else 32


Painter = Callable[[Canvas], None]


def draw(
    plot_id: str, painter: Painter, *, height: int = 300, narrow_height: int | None = None
) -> str:
    """Two SVG elements, classes `wide` and `narrow`; heights in CSS pixels.

    `plot_id` keeps the names inside apart from those of other plots of the page.
    """
    wide = _svg(f"{plot_id}-wide", painter, (760, height), narrow=False)
    small = _svg(f"{plot_id}-narrow", painter, (350, narrow_height or height), narrow=True)
    return wide + small


def _svg(svg_id: str, painter: Painter, size: tuple[int, int], *, narrow: bool) -> str:
    with mpl.rc_context({**_STYLE, "svg.hashsalt": svg_id}), _quiet():
        figure = Figure((size[0] / _POINTS, size[1] / _POINTS), layout="constrained")
        figure.patch.set_visible(False)
        painter(Canvas(figure, narrow))
        for axes in figure.axes:
            axes.patch.set_visible(False)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _inline(text.getvalue(), "narrow" if narrow else "wide")


def _quiet() -> warnings.catch_warnings[None]:
    """Names may hold letters that matplotlib's own font lacks; the browser has another."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


# What an SVG element inside a page does without: prologue, comments, ids that nothing refers to,
# a style sheet that would apply to the whole page, and fonts that are not the page's.
_NEEDLESS: Final = re.compile(
    r"""<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>"""
    r"""|(?<=<g) id="[^"]*"|\ font-family:[^;"]*;?""",
    re.DOTALL,
)
_ROOT: Final = re.compile(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>")
_COLOUR: Final = re.compile("|".join(_VARIABLES))


def _inline(svg: str, css_class: str) -> str:
    """An SVG document as an element of a page; it says nothing to those who do not see it."""
    svg = _NEEDLESS.sub("", svg)
    svg = _ROOT.sub(rf'<svg class="{css_class}" \1 aria-hidden="true" focusable="false">', svg, 1)
    svg = svg.replace("xlink:href=", "href=")
    svg = _COLOUR.sub(lambda found: f"var({_VARIABLES[found[0]]})", svg)
    return re.sub(r"\s*\n\s*", "\n", svg).strip()
