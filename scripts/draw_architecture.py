#!/usr/bin/env python3
"""Draw the pictures of docs/architecture.md from docs/architecture.txt.

The text has a section for each picture, and a line for each room in it: its name, what it is for,
and after `->` the rooms of the same section that it imports. A room of several modules names them
in brackets. A test compares the text with the imports, and the pictures with the text.

    scripts/draw_architecture.py            # draw
    scripts/draw_architecture.py --update   # write what is really imported into the text, and draw
"""

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEXT = ROOT / "docs" / "architecture.txt"
PICTURES = ROOT / "docs" / "architecture"
LEAVES_AND_ROOF = ("_purgatory_cpython", "mq", "purgatory", "timingwheel")

LINE = re.compile(
    r"    (?P<name>\S+)(?: \[(?P<modules>.*?)\])?  +(?P<purpose>.*?)(?: +->(?P<uses>.*))?"
)


@dataclass
class Room:
    """One box: a folder, a module, or some modules of a package."""

    name: str
    modules: tuple[str, ...]
    purpose: str
    uses: tuple[str, ...]

    def line(self) -> str:
        """Return the line of the text that describes it."""
        modules = "" if self.modules == (self.name,) else f" [{' '.join(self.modules)}]"
        uses = f"  -> {' '.join(self.uses)}" if self.uses else ""
        return f"    {self.name}{modules}  {self.purpose}{uses}"


@dataclass
class Section:
    """One picture: the rooms of `package`, or the packages themselves."""

    title: str
    package: str
    purpose: str
    rooms: list[Room] = field(default_factory=list)

    def text(self) -> str:
        """Return its part of the text."""
        package = f" ({self.package})" if self.package else ""
        return "\n".join(
            [f"{self.title}{package}: {self.purpose}", *(r.line() for r in self.rooms)]
        )


# --- the text ---


def read_text(text: str) -> list[Section]:
    """Parse the text. Raises ValueError for a line that is neither a section nor a room."""
    sections: list[Section] = []
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if heading := re.fullmatch(r"(\w+)(?: \(([\w.]+)\))?: (.*)", line):
            sections.append(Section(heading[1], heading[2] or "", heading[3]))
        elif room := LINE.fullmatch(line):
            modules = tuple((room["modules"] or room["name"]).split())
            uses = tuple((room["uses"] or "").split())
            sections[-1].rooms.append(Room(room["name"], modules, room["purpose"].strip(), uses))
        else:
            raise ValueError(f"docs/architecture.txt: {line!r} is neither a section nor a room")
    return sections


def write_text(sections: list[Section], comment: str) -> str:
    """Return the text of the sections below a comment."""
    return "\n\n".join([comment, *(section.text() for section in sections)]) + "\n"


# --- the imports ---


def read_imports() -> set[tuple[str, str]]:
    """Return the imports among our modules, as pairs of full names: importing, imported."""
    files = {}
    for package in LEAVES_AND_ROOF:
        for path in (ROOT / package).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            files[".".join(parts)] = path
    known = {name.removesuffix(".__init__"): name for name in files}
    return {
        (name, known[imported])
        for name, path in files.items()
        for imported in imported_by(ast.parse(path.read_text(encoding="utf-8")), known)
        if known[imported] != name
    }


def imported_by(tree: ast.Module, known: dict[str, str]) -> Iterator[str]:
    """Yield the modules of ours that a module imports, wherever in it, also for annotations."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module in known:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & known.keys()
            if not names <= known.keys():
                yield node.module


def real_uses(section: Section, imports: set[tuple[str, str]]) -> dict[str, set[str]]:
    """Return which rooms each room of a section imports. Raises ValueError for one not listed."""
    room_of = {module: room.name for room in section.rooms for module in room.modules}
    prefix = f"{section.package}." if section.package else ""

    def room(module: str) -> str | None:
        if not module.startswith(prefix):
            return None
        part = module.removeprefix(prefix).partition(".")[0]
        if part not in room_of:
            raise ValueError(f"docs/architecture.txt: {section.title} lacks {part}")
        return room_of[part]

    uses: dict[str, set[str]] = {room.name: set() for room in section.rooms}
    for importing, imported in imports:
        source, target = room(importing), room(imported)
        if source and target and source != target:
            uses[source].add(target)
    return uses


# --- the picture ---

BOX_WIDTH, BOX_HEIGHT, COLUMN_GAP, ROW_GAP, MARGIN, LANE = 150, 62, 18, 46, 20, 14
LINE_LENGTH = 24  # characters of a purpose in one line of a box
STYLE = """
text { font-family: system-ui, sans-serif; font-size: 11px; fill: #33404d }
.name { font-size: 13px; font-weight: 600; fill: #14202b }
.title { font-size: 15px; font-weight: 600; fill: #14202b }
.page { fill: #f7f9fb } .box { fill: #ffffff; stroke: #7d93a8 }
.arrow { fill: none; stroke: #5d7a96; stroke-width: 1.2 } .head { fill: #5d7a96 }
@media (prefers-color-scheme: dark) {
text { fill: #b8c4d0 } .name, .title { fill: #eef3f8 }
.page { fill: #151a20 } .box { fill: #212933; stroke: #5f7488 }
.arrow { stroke: #8ba7c2 } .head { fill: #8ba7c2 }
}
""".strip()
MARKER = (
    '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker>'
)


def drawn_arrows(uses: dict[str, set[str]]) -> dict[str, set[str]]:
    """Leave out what follows: no arrow from A to C where A leads to B and B to C."""
    below: dict[str, set[str]] = {}

    def reach(room: str, path: tuple[str, ...] = ()) -> set[str]:
        if room in path:
            raise ValueError(f"a circle: {' -> '.join((*path, room))}")
        if room not in below:
            found = (reach(each, (*path, room)) for each in sorted(uses[room]))
            below[room] = uses[room].union(*found)
        return below[room]

    for room in uses:
        reach(room)
    return {
        room: {each for each in used if not any(each in below[other] for other in used)}
        for room, used in uses.items()
    }


def rows_of(arrows: dict[str, set[str]]) -> list[list[str]]:
    """Put each room above all that it uses, and right below the lowest room that uses it."""
    height: dict[str, int] = {}

    def measure(room: str) -> int:
        if room not in height:
            height[room] = max((measure(each) + 1 for each in arrows[room]), default=0)
        return height[room]

    highest = max(map(measure, arrows))
    for room in sorted(arrows, key=measure, reverse=True):
        users = [height[each] for each in arrows if room in arrows[each]]
        height[room] = min(users) - 1 if users else height[room]
    return [[room for room in arrows if height[room] == row] for row in range(highest, -1, -1)]


def with_lanes(rows: list[list[str]], arrows: dict[str, set[str]]) -> list[list[str]]:
    """Cut long arrows: each row that one passes gets a lane `FROM>TO` for it. Changes both."""
    row_of = {room: index for index, row in enumerate(rows) for room in row}
    for source in list(arrows):
        for target in sorted(arrows[source]):
            at = source
            for index in range(row_of[source] + 1, row_of[target]):
                lane = f"{source}>{target}>{index}"
                rows[index].append(lane)
                arrows[at] = (arrows[at] - {target}) | {lane}
                arrows[lane] = {target}
                at = lane
    return rows


def untangled(rows: list[list[str]], arrows: dict[str, set[str]]) -> dict[str, float]:
    """Order each row by where its arrows lead, and return where the middle of each room is."""
    above: dict[str, set[str]] = {room: set() for room in arrows}
    for room, used in arrows.items():
        for each in used:
            above[each].add(room)
    middle = place(rows)
    for sweep in range(8):
        neighbours = above if sweep % 2 == 0 else arrows
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(key=lambda room: mean([middle[n] for n in neighbours[room]], middle[room]))
            middle = place(rows)
    return middle


def mean(values: list[float], otherwise: float) -> float:
    """Return the mean of the values, if there are any."""
    return sum(values) / len(values) if values else otherwise


def place(rows: list[list[str]]) -> dict[str, float]:
    """Return the middle of each room, every row centred."""
    total = max(map(row_width, rows))
    middle = {}
    for row in rows:
        left = MARGIN + (total - row_width(row)) / 2
        for room in row:
            middle[room] = left + width(room) / 2
            left += width(room) + COLUMN_GAP
    return middle


def width(room: str) -> float:
    """Return how wide a box or a lane is."""
    return LANE if ">" in room else BOX_WIDTH


def row_width(row: list[str]) -> float:
    """Return how wide a row of boxes and lanes is."""
    return sum(map(width, row)) + COLUMN_GAP * (len(row) - 1)


def draw(section: Section) -> str:
    """Return the picture of a section as SVG."""
    arrows = drawn_arrows({room.name: set(room.uses) for room in section.rooms})
    rows = with_lanes(rows_of(arrows), arrows)
    caption = f"{section.package or section.title}: {section.purpose}"
    widest = max(map(row_width, rows))
    wide = max(widest, 9.2 * len(caption)) + 2 * MARGIN
    middle = untangled(rows, arrows)
    shift = (wide - widest) / 2 - MARGIN
    middle = {room: at + shift for room, at in middle.items()}
    top = {
        room: 52 + index * (BOX_HEIGHT + ROW_GAP) for index, row in enumerate(rows) for room in row
    }
    high = 52 + len(rows) * (BOX_HEIGHT + ROW_GAP) - ROW_GAP + MARGIN
    size = f'viewBox="0 0 {wide:g} {high:g}" width="{wide:g}"'
    label = f'role="img" aria-label="{escape(caption)}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {label}>',
        f"<style>{STYLE}</style>",
        MARKER,
        f'<rect class="page" width="{wide:g}" height="{high:g}" rx="8"/>',
        f'<text class="title" x="{MARGIN}" y="32">{escape(caption)}</text>',
        *(arrow_path(*ends) for ends in arrow_ends(arrows, middle, top)),
        *(box(room, middle[room.name], top[room.name]) for room in section.rooms),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


Point = tuple[float, float]


def arrow_ends(
    arrows: dict[str, set[str]], middle: dict[str, float], top: dict[str, int]
) -> Iterator[tuple[Point, Point, bool]]:
    """Yield where each piece of an arrow begins and ends, and whether it has a head."""
    coming: dict[str, list[str]] = {room: [] for room in arrows}
    for room, used in arrows.items():
        for each in used:
            coming[each].append(room)
    for room, used in arrows.items():
        leaving = sorted(used, key=middle.__getitem__)
        for index, each in enumerate(leaving):
            start = (port(room, middle, index, len(leaving)), top[room] + BOX_HEIGHT)
            arriving = sorted(coming[each], key=middle.__getitem__)
            end = (port(each, middle, arriving.index(room), len(arriving)), top[each])
            if ">" in each:  # a lane is passed from end to end
                yield start, (middle[each], top[each]), False
                yield (middle[each], top[each]), (middle[each], top[each] + BOX_HEIGHT), False
            else:
                yield start, end, True


def port(room: str, middle: dict[str, float], index: int, count: int) -> float:
    """Return where one of several arrows touches the edge of a box."""
    return middle[room] + (width(room) - 2 * LANE) * ((index + 1) / (count + 1) - 0.5)


def arrow_path(start: Point, end: Point, head: bool) -> str:
    """Return one piece of an arrow, upright at both ends."""
    (x, y), (to_x, to_y) = start, end
    half = (to_y - y) / 2
    curve = f"M{x:.1f} {y:g}C{x:.1f} {y + half:g} {to_x:.1f} {to_y - half:g} {to_x:.1f} {to_y:g}"
    marker = ' marker-end="url(#head)"' if head else ""
    return f'<path class="arrow" d="{curve}"{marker}/>'


def box(room: Room, middle: float, top: float) -> str:
    """Return the box of a room: its name, and what it is for."""
    lines = "".join(
        f'<text x="{middle:.1f}" y="{top + 37 + 14 * index:g}" text-anchor="middle">'
        f"{escape(line)}</text>"
        for index, line in enumerate(wrap(room.purpose))
    )
    return (
        f'<rect class="box" x="{middle - BOX_WIDTH / 2:.1f}" y="{top:g}" '
        f'width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6"/>'
        f'<text class="name" x="{middle:.1f}" y="{top + 19:g}" text-anchor="middle">'
        f"{escape(room.name)}</text>{lines}"
    )


def wrap(purpose: str) -> list[str]:
    """Return the purpose in lines that fit a box."""
    lines = [""]
    for word in purpose.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > LINE_LENGTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


# --- both ---


def main() -> None:
    """Draw all pictures; with --update, first bring the text up to date."""
    text = TEXT.read_text(encoding="utf-8")
    sections = read_text(text)
    if "--update" in sys.argv[1:]:
        imports = read_imports()
        for section in sections:
            uses = real_uses(section, imports)
            order = [room.name for room in section.rooms]
            for room in section.rooms:
                room.uses = tuple(sorted(uses[room.name], key=order.index))
        comment = "\n".join(line for line in text.splitlines() if line.startswith("#"))
        TEXT.write_text(write_text(sections, comment), encoding="utf-8")
    PICTURES.mkdir(exist_ok=True)
    for section in sections:
        (PICTURES / f"{section.title}.svg").write_text(draw(section), encoding="utf-8")


if __name__ == "__main__":
    main()
