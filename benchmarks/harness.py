"""Take figures: each in a fresh process, several times, the median; print them as ratios.

A figure of one process says little on a noisy machine. So times are CPU times of the process, the
contestants take turns, and the tables show the ratio of each peer to ours.
"""

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from timingwheel import COMPILED

OURS = "timingwheel"


def measure(script: str, arguments: Sequence[object], repeats: int) -> list[dict[str, float]]:
    """Run `script --one ARGUMENTS` in fresh processes; return the JSON that each printed."""
    command = [sys.executable, script, "--one", *map(str, arguments)]
    return [run(command) for _ in range(repeats)]


def run(command: Sequence[str]) -> Any:
    """Run a program; return the JSON that it printed."""
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def median(runs: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure over several runs."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def keep(path: str | None, subject: str, figures: object) -> None:
    """Write figures to a file, from which `draw.py` makes a page; no path: do nothing."""
    if path is None:
        return
    kept = {
        "subject": subject,
        "machine": machine(),
        "compiled": COMPILED,
        "taken": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": figures,
    }
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def resident_bytes() -> int:
    """Return the bytes of memory that this process holds."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def machine() -> str:
    """Return one line about the machine and the Python."""
    mode = "compiled" if COMPILED else "interpreted"
    python = f"Python {platform.python_version()}, {mode}"
    return f"{python}, {os.cpu_count()} cores, {platform.machine()}"


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [f"\n### {title}\n", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def ratios(
    title: str, unit: str, columns: Sequence[str], figures: dict[str, list[float | None]]
) -> str:
    """Return a table of our figures with their unit, and of each peer's as multiples of ours."""
    ours = figures[OURS]
    rows = [[f"{OURS}, {unit}", *(_number(figure) for figure in ours)]]
    for name, values in figures.items():
        if name != OURS:
            rows.append([f"{name}, times ours", *map(_ratio, values, ours)])
    return table(title, ["", *columns], rows)


def _number(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:,.0f}" if figure >= 10 else f"{figure:.2f}"


def _ratio(figure: float | None, ours: float | None) -> str:
    return "-" if figure is None or not ours else f"{figure / ours:.2f}"
