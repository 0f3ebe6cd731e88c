"""Timeline: a drawing of marks, a lane for each part of the world, time from left to right. Pure.

What is near in time and alike is one mark, so that a drawing has as many marks as it has room for,
however long the history is.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree as ET

from tests.simulation.page.marks import Mark, lanes_of

# Lines of the history that the title of one mark shows.
_MAX_LINES: Final = 12
_STEPS: Final = (1.0, 2.0, 5.0)
_LANE: Final = 26
_TOP: Final = 22
_BOTTOM: Final = 8
# Marks of one kind within so much of the width are one mark.
_NEAR: Final = 5


@dataclass(frozen=True, slots=True)
class Size:
    """Of a drawing: its width, that of the names of lanes, and about how many ticks it has."""

    name: str
    width: int
    names: int
    ticks: int


#: For a desk and paper, and for a phone.
SIZES: Final = (Size("wide", 1100, 110, 10), Size("narrow", 380, 84, 4))


def draw(marks: list[Mark], violation: str, size: Size) -> str:
    """Return an SVG element of a history that ends with `violation`, if that is not empty."""
    lanes = lanes_of(marks)
    height = _TOP + _LANE * len(lanes) + _BOTTOM
    svg = ET.Element(
        "svg",
        {"class": size.name, "viewBox": f"0 0 {size.width} {height}", "role": "img"},
    )
    ET.SubElement(svg, "title").text = "What happened, over time"
    end_s = max((mark.at_s for mark in marks), default=0.0) or 1.0
    scale = (size.width - size.names - 14) / end_s
    _draw_axis(svg, size, end_s, scale, height)
    for row, lane in enumerate(lanes):
        y = _TOP + _LANE * row + _LANE // 2
        _line(svg, "lane", (size.names, y), (size.width, y))
        _text(svg, lane, (size.names - 6, y + 4), "end")
        for x, together in _groups([mark for mark in marks if mark.lane == lane], scale):
            _draw_mark(svg, size.names + x, y, together)
    if violation:
        _draw_violation(svg, size.names + end_s * scale, height, violation)
    return ET.tostring(svg, encoding="unicode")


def _draw_axis(svg: ET.Element, size: Size, end_s: float, scale: float, height: int) -> None:
    for at_s in _ticks(end_s, size.ticks):
        x = size.names + at_s * scale
        _line(svg, "grid", (x, _TOP - 4), (x, height))
        _text(svg, f"{at_s:g} s", (x, 12), "soft start" if at_s == 0 else "soft middle")


def _ticks(end_s: float, count: int) -> list[float]:
    """Return about so many round times up to the end, but none close to it."""
    power = 1e-9
    while True:
        for step in _STEPS:
            width = step * power
            if end_s / width <= count:
                return [round(n * width, 9) for n in range(int(end_s / width * 0.98) + 1)]
        power *= 10


def _groups(marks: list[Mark], scale: float) -> Iterator[tuple[float, list[Mark]]]:
    """Yield marks of one lane that are drawn as one, with their place."""
    found: dict[tuple[int, str], list[Mark]] = {}
    for mark in marks:
        found.setdefault((int(mark.at_s * scale / _NEAR), mark.kind), []).append(mark)
    for together in found.values():
        yield together[0].at_s * scale, together


def _draw_mark(svg: ET.Element, x: float, y: float, marks: list[Mark]) -> None:
    kind = marks[0].kind
    group = ET.SubElement(svg, "g", {"class": f"mark {kind}"})
    ET.SubElement(group, "title").text = _title(marks)
    if kind == "fault":
        place = f"rotate(45 {x:.1f} {y:.1f})"
        _square(group, x, y, 4.5).set("transform", place)
    elif kind == "state":
        _square(group, x, y, 4)
    else:
        # Requests above their lane, answers below it, outcomes on it and larger.
        shift = {"asked": -6, "answered": 6}.get(kind, 0)
        radius = 2.5 if shift or kind in {"synced", "handler"} else 4
        attributes = {"cx": f"{x:.1f}", "cy": f"{y + shift:.1f}", "r": f"{radius:g}"}
        ET.SubElement(group, "circle", attributes)


def _title(marks: list[Mark]) -> str:
    lines = [mark.line for mark in marks[:_MAX_LINES]]
    if len(marks) > _MAX_LINES:
        lines.append(f"and {len(marks) - _MAX_LINES} more")
    return "\n".join(lines)


def _draw_violation(svg: ET.Element, x: float, height: int, violation: str) -> None:
    group = ET.SubElement(svg, "g", {"class": "mark violation"})
    ET.SubElement(group, "title").text = violation
    _line(group, "", (x, 0), (x, height))
    _text(group, "\N{MULTIPLICATION X}", (x, 14), "middle")


def _square(parent: ET.Element, x: float, y: float, half: float) -> ET.Element:
    side = f"{2 * half:g}"
    attributes = {"x": f"{x - half:.1f}", "y": f"{y - half:.1f}", "width": side, "height": side}
    return ET.SubElement(parent, "rect", attributes)


def _line(
    parent: ET.Element, name: str, start: tuple[float, float], end: tuple[float, float]
) -> None:
    (x1, y1), (x2, y2) = start, end
    places = {"x1": f"{x1:.1f}", "y1": f"{y1:.1f}", "x2": f"{x2:.1f}", "y2": f"{y2:.1f}"}
    ET.SubElement(parent, "line", {"class": name, **places})


def _text(parent: ET.Element, text: str, place: tuple[float, float], name: str) -> None:
    x, y = place
    attributes = {"class": name, "x": f"{x:.1f}", "y": f"{y:.1f}"}
    ET.SubElement(parent, "text", attributes).text = text
