"""The HTML elements and the style sheet of a page that needs no other file.

All text arguments are escaped.
"""

import html
import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Final

from purgatory.spark.report import formatting
from purgatory.spark.report.content import Advice
from purgatory.spark.report.page.charts import COLOURS, Chart, LegendEntry
from purgatory.spark.report.tables import Figure
from purgatory.trace.validation import OUTCOMES

_MAX_LENGTH: Final = 1000
_SHORT_NAME: Final = 16  # of a name that is not broken
# An option of a command, not to be broken after its dashes.
_OPTION: Final = re.compile(r"(?<=\s)--[a-z][a-z-]*")

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
    """Make a section, folded on a phone."""
    head = f"<summary><h2>{escape(title)}</h2></summary>"
    return f'<section><details class="section">{head}{"".join(parts)}</details></section>'


def details(title: str, content: str) -> str:
    """Make a part that a click opens."""
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def paragraph(content: str, css: str = "") -> str:
    """Make a paragraph of text."""
    marked = f' class="{css}"' if css else ""
    return f"<p{marked}>{escape(content)}</p>"


def advice_list(advice: Iterable[Advice], tag: str = "ol") -> str:
    """Make a list of advice."""
    items = (
        f"<li><strong>{escape(what)}</strong> {escape(why)}{_command(command)}</li>"
        for what, why, command in advice
    )
    return f'<{tag} class="advice">{"".join(items)}</{tag}>'


def _command(command: str) -> str:
    whole = _OPTION.sub(r'<span class="whole">\g<0></span>', html.escape(command))
    return f" <code>{whole}</code>" if command else ""


def figure(chart: Chart) -> str:
    """Make a figure of a chart."""
    label = escape(f"{chart.title}. {chart.alternative}")
    link = f" {csv_link(chart.data)}" if chart.data is not None else ""
    return (
        f"<figure><figcaption>{escape(chart.title)}{link}</figcaption>"
        f'{_legend(chart.legend)}<div role="img" aria-label="{label}">{chart.svg}</div></figure>'
    )


def csv_link(data: Figure) -> str:
    """Make a link that holds and saves the data of a figure."""
    # A name may contain a lone surrogate, which cannot be encoded.
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
    # The style sheet hides what is not checked.
    return f'<label><input type="checkbox" class="{number}"{checked}>{swatch}</label>'


def table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], data: Figure | None = None
) -> str:
    """Make a table; its first column has the names of the rows.

    In a narrow window each row is a block.
    """
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in heads)
    rows = list(rows)
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
    css = "" if any(len(first) > _SHORT_NAME for first, *_ in rows) else ' class="short"'
    return (
        f"<table{css}><caption>{escape(title)}{link}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _lines(cell: str) -> str:
    lines = "<br>".join(map(escape, cell.split("\n")))
    return f"<span>{lines}</span>" if "\n" in cell else lines


def escape(content: str) -> str:
    """Escape text, and replace unprintable characters."""
    return html.escape(formatting.name(content, _MAX_LENGTH), quote=True)


_LIGHT: Final = """
  --paper: #ffffff; --panel: #f2f4f7; --ink: #1b1f24; --soft: #59626d; --faint: #c3cad3;
  --completed: #0072b2; --failed: #8a6d00; --expired: #d55e00; --cancelled: #7a828c;
  --series-0: #1b1f24; --series-1: #0072b2; --series-2: #d55e00;
  --series-3: #00805d; --series-4: #b0568f; --series-5: #8a6d00;
"""
_DARK: Final = """
  --paper: #14171b; --panel: #1e2329; --ink: #e8ebef; --soft: #a3adb8; --faint: #4a535e;
  --completed: #56b4e9; --failed: #e0c341; --expired: #f0883e; --cancelled: #9aa4af;
  --series-0: #e8ebef; --series-1: #56b4e9; --series-2: #f0883e;
  --series-3: #2fbf94; --series-4: #de8fc0; --series-5: #e0c341;
"""
_MAX_KINDS: Final = 22  # the total, twenty, and the others

_ELEMENTS: Final = """
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 860px; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.75rem 0 .75rem; padding-top: .75rem;
  border-top: 1px solid var(--faint); }
.section > summary h2 { display: inline; border: 0; }
p { margin: .5rem 0 1rem; max-width: 44rem; overflow-wrap: anywhere; }
.times, .small { color: var(--soft); }
.small { font-size: .875rem; }
.note { border-left: 4px solid var(--expired); padding: .25rem .75rem; background: var(--panel); }
.todo { background: var(--panel); border-radius: .5rem; padding: .75rem 1rem; margin: 1rem 0; }
.todo h2 { border: 0; margin: 0; padding: 0; }
.todo p { margin: .25rem 0; font-size: 1.1rem; }
.advice { margin: .25rem 0; padding-left: 1.4rem; overflow-wrap: anywhere; }
.advice li { margin: .5rem 0; max-width: 44rem; }
.advice strong { display: block; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem;
  margin: 1rem 0; }
.cards div { border: 1px solid var(--faint); border-radius: .5rem; padding: .6rem .9rem;
  display: flex; flex-direction: column-reverse; justify-content: flex-end; }
.cards dt { color: var(--soft); font-size: .875rem; }
.cards dd { margin: 0; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
figure { margin: 1.5rem 0; break-inside: avoid; }
figcaption, caption { font-weight: 600; text-align: left; overflow-wrap: anywhere; }
.csv { font-weight: 400; font-size: .8rem; color: var(--soft); margin-left: .35rem; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .25rem 0;
  padding: 0; font-size: .875rem; overflow-wrap: anywhere; }
.legend label { cursor: pointer; }
.legend input { margin: 0 .35rem 0 0; vertical-align: middle; accent-color: var(--soft); }
.swatch { display: inline-block; width: 1rem; height: .65rem; margin-right: .35rem;
  border-radius: 2px; vertical-align: middle; }
svg { display: block; width: 100%; height: auto; }
svg text { font-family: inherit; font-size: 12px; fill: var(--ink); paint-order: stroke;
  stroke: var(--paper); stroke-width: 4px; stroke-linejoin: round; }
svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; }
svg .soft { fill: var(--soft); }
svg .grid { stroke: var(--faint); stroke-width: .6; opacity: .6; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
svg .line.range { stroke: var(--faint); }
svg .dot { stroke: var(--paper); stroke-width: 1; }
.box.range, .swatch.range { fill: var(--faint); background: var(--faint); }
.heat { fill: var(--completed); background: var(--completed); }
svg path.now { stroke: var(--expired); stroke-width: 2; stroke-dasharray: 6 4; }
svg path.candidate { stroke: var(--soft); stroke-width: 1; }
svg path.proposed { stroke: var(--series-3); stroke-width: 2; }
svg text.now { fill: var(--expired); }
svg text.proposed { fill: var(--series-3); font-weight: 600; }
.swatch.now { background: var(--expired); }
.swatch.candidate { background: var(--soft); }
.swatch.proposed { background: var(--series-3); }
.dot.chosen { fill: var(--series-3); }
.swatch.chosen { background: var(--series-3); }
svg.narrow { display: none; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums;
  width: 100%; margin: 1.25rem 0 1.5rem; }
caption { padding-bottom: .25rem; }
th, td { padding: .3rem .35rem; text-align: right; border-bottom: 1px solid var(--panel); }
td { white-space: nowrap; vertical-align: baseline; }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom;
  border-bottom-color: var(--faint); }
th:first-child { text-align: left; overflow-wrap: anywhere; }
tbody th { font-weight: 500; min-width: 6rem; }
.short tbody th, .whole { white-space: nowrap; }
summary { cursor: pointer; padding: .25rem 0; }
"""
# Sections are open in a wide window.
_OPEN: Final = """
  .section::details-content { content-visibility: visible; block-size: auto; }
  .section > summary { pointer-events: none; list-style: none; }
  .section > summary::-webkit-details-marker { display: none; }
  .section > summary h2 { display: block; border-top: 1px solid var(--faint); }
"""
_NARROW: Final = """
  svg.wide { display: none; }
  svg.narrow { display: block; }
  .section > summary { padding: .7rem 0; border-top: 1px solid var(--faint); }
  .section > summary h2 { margin: 0; padding: 0; font-size: 1.05rem; }
"""
# Rows of tables become blocks, so that nothing scrolls sideways.
_STACKED: Final = """
  table, caption, tbody, tr, th, td { display: block; }
  thead { position: absolute; clip-path: inset(50%); height: 1px; width: 1px; overflow: hidden; }
  tr { border-bottom: 1px solid var(--faint); padding: .4rem 0; }
  th, td { border: 0; padding: .1rem 0; min-width: 0; }
  tbody th { font-weight: 650; }
  td { display: flex; justify-content: space-between; gap: 1rem; white-space: normal; }
  td::before { content: attr(data-head); color: var(--soft); text-align: left; }
"""
# Paper is white, opens nothing by clicks, and saves no data.
_PRINT: Final = """
  main { max-width: none; padding: 0; }
  .csv, .legend input, .legend label:has(input:not(:checked)) { display: none; }
  h2, caption { break-after: avoid; }
  body { font-size: 13px; }
  table { font-size: 11px; }
  th, td { padding: .2rem .25rem; }
  tr, .advice li { break-inside: avoid; }
  details::details-content { content-visibility: visible; block-size: auto; }
"""


def _series() -> str:
    rules = [
        f".line.c{n} {{ stroke: var(--series-{n}); }} .dot.c{n} {{ fill: var(--series-{n}); }} "
        f".swatch.c{n} {{ background: var(--series-{n}); }}"
        for n in range(COLOURS)
    ]
    dashes = ("", "8 4", "2 3", "8 3 2 3")
    rules += [f".line.d{n} {{ stroke-dasharray: {dashes[n]}; }}" for n in (1, 2, 3)]
    rules += [
        f".swatch.d{n} {{ mask: repeating-linear-gradient(90deg, #000 0 {on}px, #0000 0 {of}px); }}"
        for n, on, of in ((1, 5, 8), (2, 2, 4), (3, 5, 6))
    ]
    rules += [f".{o} {{ fill: var(--{o}); background: var(--{o}); }}" for o in OUTCOMES]
    rules += [
        f"figure:has(input.k{n}:not(:checked)) svg .k{n} {{ display: none; }}"
        for n in range(_MAX_KINDS)
    ]
    return "\n".join(rules)


# The colours are distinguishable with colour blindness, too (after Okabe and Ito), and have
# contrast against both backgrounds.
STYLE: Final = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
{_ELEMENTS}
{_series()}
@media print, screen and (min-width: 601px) {{ {_OPEN} }}
@media screen and (max-width: 600px) {{ {_NARROW} }}
@media screen and (max-width: 800px) {{ {_STACKED} }}
@media print {{ {_PRINT} }}
"""
