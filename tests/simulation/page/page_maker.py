"""The page of one history: one HTML file, complete in itself, without scripts.

All that comes from the history is escaped. Pure; any thread.
"""

from collections.abc import Mapping
from html import escape
from typing import Final

from tests.simulation.page.marks import KINDS, Mark, marks_of
from tests.simulation.page.stylesheet import STYLE
from tests.simulation.page.timeline import SIZES, draw

# Lines of the history that are on the page; the end tells most.
_LAST_LINES: Final = 2000
_SHOWN_LINES: Final = 40
_KEPT: Final = "Every promise was kept."


def make_page(
    title: str, history: list[str], violation: str = "", figures: Mapping[str, object] | None = None
) -> str:
    """Make the page of a history; `violation` is empty if every promise was kept."""
    marks = marks_of(history)
    drawings = "".join(draw(marks, violation, size) for size in SIZES)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="broken">{escape(violation)}</p>' if violation else f"<p>{_KEPT}</p>",
        _figures(figures or {}),
        f"<figure style='margin: 1rem 0'>{_legend(marks)}{drawings}</figure>",
        _lines(history),
    ]
    head = (
        f'<meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style>"
    )
    body = "\n".join(parts)
    html = f'<html lang="en"><head>{head}</head>\n<body><main>{body}</main></body></html>'
    return f"<!DOCTYPE html>\n{html}\n"


def _figures(figures: Mapping[str, object]) -> str:
    items = "".join(f"<li>{escape(f'{name}: {value}')}</li>" for name, value in figures.items())
    return f'<ul class="soft">{items}</ul>' if items else ""


def _legend(marks: list[Mark]) -> str:
    """Return the kinds of marks that occur, and what they stand for."""
    found = {mark.kind for mark in marks}
    items = "".join(
        f'<li><span class="swatch {kind}"></span>{what}</li>'
        for kind, what in KINDS.items()
        if kind in found
    )
    return f"<ul>{items}</ul>"


def _lines(history: list[str]) -> str:
    """Return the last lines, of which those before the end are folded in."""
    last, earlier = history[-_SHOWN_LINES:], history[-_LAST_LINES:-_SHOWN_LINES]
    shown = f"<h2>The last lines</h2>{_pre(last)}"
    if not earlier:
        return shown
    summary = f"<summary>{len(earlier):,} lines before</summary>"
    return f"{shown}<details>{summary}{_pre(earlier)}</details>"


def _pre(lines: list[str]) -> str:
    return f"<pre>{escape(chr(10).join(lines))}</pre>"
