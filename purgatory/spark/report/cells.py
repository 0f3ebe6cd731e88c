"""Rows of a report as cells of a table, for page and terminal.

Pure functions; any thread may call them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from purgatory.spark.report.formatting import count, duration, name, number

if TYPE_CHECKING:
    from purgatory.spark.report.rows import HotKey, WheelRow


def key_cells(row: HotKey) -> list[str]:
    """Return the cells of a hot key: name, watched, completed."""
    return [name(row.key), count(row.watched), count(row.completed)]


def wheel_cells(row: WheelRow) -> list[str]:
    """Return the cells of a row of the wheel tuning table."""
    return [
        duration(row.tick_ms),
        count(row.wheel_size),
        count(row.levels),
        number(row.buckets),
        number(row.cascades_per_operation),
        number(row.moves_per_operation),
        number(row.wakeups_per_second),
        duration(row.lateness_ms),
        duration(row.max_lateness_ms),
    ]
