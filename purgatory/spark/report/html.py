"""The HTML elements of a page that needs no other file.

All text arguments are escaped here. Pure functions; any thread may call.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from purgatory.spark.report import formatting
from purgatory.spark.report.stylesheet import STYLE

if TYPE_CHECKING:
    from purgatory.spark.report.charts import Chart

_MAX_LENGTH: Final = 1000  # characters of one text

_DOCUMENT: Final = """\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""


def document(title: str, parts: Iterable[str]) -> str:
    """Make the whole page."""
    return _DOCUMENT.format(title=escape(title), style=STYLE, body="\n".join(parts))


def section(title: str, parts: Iterable[str]) -> str:
    """Make a section of the page, with a heading."""
    return f"<section><h2>{escape(title)}</h2>{''.join(parts)}</section>"


def details(title: str, content: str) -> str:
    """Make a part that the reader opens with a click."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def paragraph(content: str) -> str:
    """Make a paragraph of text."""
    return f"<p>{escape(content)}</p>"


def figure(chart: Chart) -> str:
    """Make a figure of a chart, with its text alternative."""
    return (
        f'<figure role="img" aria-label="{escape(f"{chart.title}. {chart.alternative}")}">'
        f'<figcaption aria-hidden="true">{escape(chart.title)}</figcaption>{chart.svg}</figure>'
    )


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table; its first column has the names of the rows."""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(formatting.name(first))}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}">'
        f"<table><caption>{escape(title)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def escape(content: str) -> str:
    """Escape text for HTML, and replace unprintable characters."""
    return html.escape(formatting.name(content, _MAX_LENGTH), quote=True)
