"""The HTML elements of a page that needs no other file.

All text arguments are escaped here. Pure functions; any thread may call.
"""

from __future__ import annotations

import html
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from purgatory.spark.report import formatting
from purgatory.spark.report.page.stylesheet import STYLE

if TYPE_CHECKING:
    from purgatory.spark.report.advice import Advice
    from purgatory.spark.report.figures import Figure
    from purgatory.spark.report.page.chart import Chart, LegendEntry

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


def paragraph(content: str, css: str = "") -> str:
    """Make a paragraph of text."""
    marked = f' class="{css}"' if css else ""
    return f"<p{marked}>{escape(content)}</p>"


def advice_list(advice: Iterable[Advice], tag: str = "ol") -> str:
    """Make a list of things to do or to know, each with its reason."""
    items = (f"<li><strong>{escape(a.what)}</strong> {escape(a.why)}</li>" for a in advice)
    return f'<{tag} class="advice">{"".join(items)}</{tag}>'


def figure(chart: Chart) -> str:
    """Make a figure of a chart, with its legend, text alternative and data."""
    label = escape(f"{chart.title}. {chart.alternative}")
    link = f" {csv_link(chart.data)}" if chart.data is not None else ""
    return (
        f"<figure><figcaption>{escape(chart.title)}{link}</figcaption>"
        f'{_legend(chart.legend)}<div role="img" aria-label="{label}">{chart.svg}</div></figure>'
    )


def csv_link(data: Figure) -> str:
    """Make a link that saves the data of a figure; the link itself holds the data."""
    # A lone surrogate, which a name may contain, cannot be encoded.
    encoded = b64encode(data.csv().encode("utf-8", "replace")).decode()
    return (
        f'<a class="csv" download="{escape(data.name)}.csv" '
        f'href="data:text/csv;charset=utf-8;base64,{encoded}">CSV</a>'
    )


def _legend(entries: Sequence[LegendEntry]) -> str:
    items = "".join(f"<li>{_legend_entry(entry)}</li>" for entry in entries)
    return f'<ul class="legend">{items}</ul>' if entries else ""


def _legend_entry(entry: LegendEntry) -> str:
    swatch = f'<span class="swatch {entry.css}"></span>{escape(formatting.name(entry.label))}'
    if entry.shown is None:
        return swatch
    number = entry.css.partition(" ")[0]
    checked = " checked" if entry.shown else ""
    # The style sheet hides what is not checked, so that the page needs no script.
    return f'<label><input type="checkbox" class="{number}"{checked}>{swatch}</label>'


def table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], data: Figure | None = None
) -> str:
    """Make a table; its first column has the names of the rows.

    A cell may have several lines. In a narrow window each row is a block, with a line for each cell
    that its head begins.
    """
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heads)
    body = "".join(
        f'<tr><th scope="row">{escape(formatting.name(first))}</th>'
        + "".join(
            f'<td data-head="{escape(of)}">{_lines(cell)}</td>'
            for of, cell in zip(heads[1:], rest, strict=True)
        )
        + "</tr>"
        for first, *rest in rows
    )
    link = f" {csv_link(data)}" if data is not None else ""
    return (
        f"<table><caption>{escape(title)}{link}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _lines(cell: str) -> str:
    lines = "<br>".join(map(escape, cell.split("\n")))
    return f"<span>{lines}</span>" if "\n" in cell else lines


def escape(content: str) -> str:
    """Escape text for HTML, and replace unprintable characters."""
    return html.escape(formatting.name(content, _MAX_LENGTH), quote=True)
