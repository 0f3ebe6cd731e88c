"""Draws charts as SVG elements of a page, with matplotlib.

The page's style sheet colours them. Each chart is drawn twice, for a wide and for a narrow window;
the style sheet shows one of them. Text stays text, and colours are CSS variables, so that light and
dark pages share one drawing.

Uses no window system (no pyplot). A drawing sets its style in matplotlib's global state: draw in
one thread at a time.
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

# Placeholder colours: replaced in the finished drawing by variables of the style sheet.
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
    """What a painter draws on: a figure, wide or narrow."""

    figure: Figure
    narrow: bool

    def axes(self) -> Axes:
        """Add the axes of a chart that has only these."""
        return self.figure.add_subplot()

    @property
    def name_length(self) -> int:
        """The maximum number of characters of a name on an axis."""
        return 16 if self.narrow else 32


Painter = Callable[[Canvas], None]


def draw(
    plot_id: str, painter: Painter, *, height: int = 300, narrow_height: int | None = None
) -> str:
    """Draw two SVG elements, of classes `wide` and `narrow`.

    Heights are in CSS pixels. `plot_id` makes ids inside the drawing unique on the page.
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
    """Ignore warnings about characters that matplotlib's font lacks; browsers have other fonts."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


# Parts that an SVG element inside a page must not or need not have: prologue, comments, ids without
# a reference, a style sheet that would apply to the whole page, fonts other than the page's.
_NEEDLESS: Final = re.compile(
    r"""<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>"""
    r"""|(?<=<g) id="[^"]*"|\ font-family:[^;"]*;?""",
    re.DOTALL,
)
_ROOT: Final = re.compile(r"<svg [^>]*?(viewBox=\"[^\"]*\")[^>]*>")
_COLOUR: Final = re.compile("|".join(_VARIABLES))


def _inline(svg: str, css_class: str) -> str:
    """Turn an SVG document into an element that screen readers skip."""
    svg = _NEEDLESS.sub("", svg)
    svg = _ROOT.sub(rf'<svg class="{css_class}" \1 aria-hidden="true" focusable="false">', svg, 1)
    svg = svg.replace("xlink:href=", "href=")
    svg = _COLOUR.sub(lambda found: f"var({_VARIABLES[found[0]]})", svg)
    return re.sub(r"\s*\n\s*", "\n", svg).strip()
