"""The terminal output of commands, with `rich`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Self

from rich.box import SIMPLE
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.constrain import Constrain
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from purgatory.cli.output import SPANS
from purgatory.cli.top_tables import HEAD as JOB_HEAD
from purgatory.cli.top_tables import HELP, KINDS, SORT, SORTS, STATES, TABLES, sorted_kinds
from purgatory.console import OutputConsole
from purgatory.printable import counted, printable
from purgatory.service.troubles import cluster_troubles, job_troubles, readiness_trouble, why_stuck

if TYPE_CHECKING:
    from purgatory.service.job_messages import KindOverview, Overview

_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
# Samples in a row of blocks.
WIDTH: Final = 60
# Least characters of a table's cell, and of a line of facts.
_CELL_WIDTH: Final = 10
_FACT_WIDTH: Final = 50
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
# name of the figure, its title, style
_RATES: Final = (
    ("submitted", "submitted/s", "cyan"),
    ("completed", "completed/s", "blue"),
    ("expired", "expired/s", "bright_black"),
    ("failed", "failed/s", "red"),
    ("cancelled", "cancelled/s", "magenta"),
    ("commits", "commits/s", "green"),
)
# Columns that figures take at most: a name and its figures stay side by side.
_MOST_WIDTH: Final = 100
# Kinds on the screen, at most.
_KINDS: Final = 8
# name of the figure, its title for one, and for several
_WRONG: Final = (
    ("failed", "failed", "failed"),
    ("refused", "refused", "refused"),
    ("commit_failures", "failed commit", "failed commits"),
)


def print_facts(things: Sequence[Sequence[tuple[str, str]]], *, right: bool = False) -> None:
    """Print groups of names and values, as plain texts."""
    table = Table(box=SIMPLE, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(justify="right" if right else "left", overflow="fold")
    for facts in things:
        for name, fact in facts:
            table.add_row(Text(name), Text(fact))
        table.add_section()
    _console(_FACT_WIDTH).print(table)


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, folds: bool = True) -> None:
    """Print rows of plain texts below a head.

    Without `folds` each row is one line, and the last column has the room left.
    """
    table = Table(box=SIMPLE, expand=not folds, padding=(0, 1 if folds else 0, 0, 1))
    for title in head:
        is_last = not folds and title == head[-1]
        overflow: Literal["fold", "ellipsis"] = "fold" if folds else "ellipsis"
        ratio = 1 if is_last else None
        table.add_column(title, overflow=overflow, no_wrap=not folds, ratio=ratio)
    for row in rows:
        table.add_row(*map(Text, row))
    _console(_CELL_WIDTH * len(head)).print(table)


def _console(least: int) -> OutputConsole:
    """Return a console at least as wide; a narrower terminal wraps lines."""
    console = OutputConsole()
    return console if console.width >= least else OutputConsole(width=least)


class _Prints:
    """Prints a screen again and again, where nothing can be redrawn: in a file or pipe."""

    def __init__(self, console: OutputConsole, screen: RenderableType) -> None:
        self.refresh = partial(console.print, screen)

    def __enter__(self) -> Self:
        self.refresh()
        return self

    def __exit__(self, *error: object) -> None:
        pass


def live(screen: RenderableType) -> Live | _Prints:
    """Return a context that shows a screen; `refresh` shows it again."""
    console = OutputConsole()
    if not console.is_terminal:
        return _Prints(console, screen)
    return Live(screen, console=console, screen=True, auto_refresh=False)


class Top:
    """A screen of a server's figures; rendered after the first `add`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._figures: Mapping[str, float] = {}
        self._kinds: Sequence[KindOverview] = ()
        self._commit_error = ""
        self._sort = SORTS[0]
        #: The key of the chosen table: of TABLES, or KINDS.
        self.table: str = KINDS
        self._rows: Sequence[Sequence[str]] = ()
        self.has_keys: bool = False
        self._grown: set[str] = set()  # figures of `_WRONG` that grew in the last sample
        self._rates: dict[str, deque[float]] = {
            name: deque([0.0] * WIDTH, maxlen=WIDTH) for name, _, _ in _RATES
        }

    def add(
        self,
        figures: Mapping[str, float],
        overview: Overview | None = None,
        rows: Sequence[Sequence[str]] = (),
    ) -> None:
        """Add a sample: figures, see `ServerStats`; kinds; rows of the table."""
        before, self._figures = self._figures, figures
        self._kinds = overview.kinds if overview else ()
        self._commit_error = overview.commit_error if overview else ""
        self._rows = rows
        self._grown = {
            name for name, *_ in _WRONG if before and figures.get(name, 0) > before.get(name, 0)
        }
        passed = figures["uptime_seconds"] - before.get("uptime_seconds", 0.0)
        for name, rates in self._rates.items():
            if before and passed > 0:  # negative after a restart
                grown = figures.get(name, 0.0) - before.get(name, 0.0)
                rates.append(max(0.0, grown) / passed)

    def __rich__(self) -> RenderableType:
        answers = [*self._head(), *self._troubles(), self._due(), self._wrong()]
        tiles = Columns(self._tiles(), equal=True, expand=True)
        figures = [Constrain(each, _MOST_WIDTH) for each in (tiles, self._chart())]
        keys = [Text(f"keys: {HELP}", style="dim")] if self.has_keys else []
        return Group(*answers, *self._jobs(), *figures, *keys)

    def press(self, key: str) -> bool:
        """Show another table, or kinds in another order; False: an unknown key."""
        if key == SORT:
            self._sort = SORTS[(SORTS.index(self._sort) + 1) % len(SORTS)]
            self.table = KINDS
        elif key == KINDS or key in TABLES:
            self.table = key
        else:
            return False
        return True

    def _head(self) -> list[Text]:
        uptime = int(self._figures["uptime_seconds"])
        line = Text.assemble(("purgatory", "bold"), f" at {self._address}, up ")
        line.append(f"{uptime // 3600}:{uptime // 60 % 60:02}:{uptime % 60:02}, ")
        trouble = printable(readiness_trouble(self._figures, self._commit_error))
        if trouble:
            return [Text(f"NOT READY: {trouble}", "bold red"), line.append("not ready", "bold red")]
        return [line.append("ready", "yellow" if self._troubles() else "green")]

    def _troubles(self) -> list[Text]:
        found = [*job_troubles(self._kinds), *cluster_troubles(self._figures)]
        return [Text(f"! {printable(text)}", style="bold red") for text in found]

    def _due(self) -> Text:
        figures = self._figures
        line = Text.assemble("due:   ", (f"{figures['pending']:,.0f} pending", "bold"))
        line.append(f", {counted(figures.get('held', 0), 'held event')}")
        late = figures.get("oldest_due_age_seconds", 0)
        if late >= 1:
            return line.append(f", the oldest {late:,.0f} s late", "red")
        wait = figures.get("next_due_seconds", -1)
        return line.append(f", the next in {duration_shown(wait)}") if wait >= 0 else line

    def _wrong(self) -> Text:
        figures = self._figures
        line = Text("wrong: ")
        if self._kinds:
            dead = sum(kind.count("dead") for kind in self._kinds)
            line.append(counted(dead, "dead job"), "bold red" if dead else "").append(", ")
        for name, *titles in _WRONG:
            count, style = figures.get(name, 0), "bold red" if name in self._grown else ""
            line.append(f"{count:,.0f} {titles[count != 1]}", style).append(", ")
        return line.append(counted(figures["unacknowledged"], "unread outcome"))

    def _jobs(self) -> list[RenderableType]:
        if self.table in TABLES:
            return [self._chosen(TABLES[self.table].title)]
        return [Constrain(self._all_kinds(), _MOST_WIDTH)] if self._kinds else []

    def _chosen(self, title: str) -> RenderableType:
        table = Table(box=None, padding=(0, 1), expand=True)
        for name in JOB_HEAD:
            ratio = 1 if name == JOB_HEAD[-1] else None
            table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=ratio)
        for row in self._rows:
            table.add_row(*[Text(printable(text)) for text in row])
        return Panel(table if self._rows else Text("none"), title=title, title_align="left")

    def _all_kinds(self) -> RenderableType:
        table = Table(box=None, padding=(0, 1), expand=True)
        table.add_column("jobs", ratio=1, no_wrap=True, overflow="ellipsis")
        for state in STATES:
            table.add_column(state, justify="right", no_wrap=True)
        kinds = sorted_kinds(self._kinds, self._sort)
        for kind in kinds[:_KINDS]:
            cells = [_job_cell(state, kind) for state in STATES]
            table.add_row(Text(printable(kind.kind) or "(no kind)"), *cells)
        if len(kinds) > _KINDS:
            table.add_row(Text(f"and {counted(len(kinds) - _KINDS, 'other kind')}", style="dim"))
        return Panel(table, title=f"by {self._sort}", title_align="left")

    def _tiles(self) -> list[RenderableType]:
        figures = self._figures
        commits = figures["commits"]
        per_commit = f"{1000 * figures['commit_seconds'] / commits:.2f} ms" if commits else "-"
        shown = {
            "clients": f"{figures['connections']:,.0f}",
            "store backlog": f"{figures['store_backlog']:,.0f}",
            "a commit": per_commit,
            "on disk": bytes_shown(figures["store_bytes"]),
        }
        return [
            Panel(Text(value, style="bold", justify="right"), title=title, title_align="left")
            for title, value in shown.items()
        ]

    def _chart(self) -> RenderableType:
        table = Table(box=None, padding=(0, 1), show_header=False, expand=True)
        table.add_column(no_wrap=True)
        table.add_column(justify="right", no_wrap=True, min_width=9)
        table.add_column(ratio=1, no_wrap=True, overflow="crop")
        for name, title, style in _RATES:
            rates = self._rates[name]
            drawn = Text(blocks(rates), style=style if any(rates) else "dim")
            table.add_row(title, f"{rates[-1]:,.0f}", drawn)
        return Panel(table, title=f"the last {WIDTH} samples", title_align="left")


def _job_cell(state: str, kind: KindOverview) -> Text:
    count = kind.count(state)
    is_wrong = why_stuck(kind) if state == "ready" else count and state == "dead"
    return Text(f"{count:,}", style="bold red" if is_wrong else "")


def blocks(values: Sequence[float] | deque[float]) -> str:
    """Return block characters as high as the values; the highest is a full block."""
    most = max(values, default=0.0)
    if not most:
        return _BLOCKS[1] * len(values)
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[max(1, round(top * value / most))] for value in values)


def figure_shown(name: str, figure: float) -> str:
    """Return a figure of `ServerStats` in the unit of its name."""
    if name.endswith("_bytes"):
        return bytes_shown(figure) if figure or name != "max_memory_bytes" else "any"
    if name.endswith("_seconds"):
        return duration_shown(figure) if figure >= 0 else "none"
    return f"{figure:,.0f}"


def duration_shown(seconds: float) -> str:
    """Return a duration in its largest unit: 0.4 s, 2.5 min, 3 h, 12 d."""
    for length, unit in SPANS:
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def bytes_shown(count: float) -> str:
    """Return a number of bytes with a unit: 812 B, 4.3 MiB."""
    for unit in _UNITS:
        if count < 1024 or unit == _UNITS[-1]:
            break
        count /= 1024
    return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
