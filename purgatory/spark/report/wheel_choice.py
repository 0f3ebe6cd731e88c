"""Chooses a timing wheel from the rows of `wheel_tuning`, and says why.

The rule: of the wheels that make an expiry late by at most a percent of the median timeout, the one
that wakes least, then the one that moves fewest operations. It must beat the default clearly, and
the default must have work to save; else the default stays. Pure functions; any thread may call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from purgatory.spark.report import formatting

if TYPE_CHECKING:
    from purgatory.spark.report.content import WheelRow

DEFAULT_TICK_MS: Final = 1
DEFAULT_WHEEL_SIZE: Final = 20
# Part of the median timeout by which an expiry may be late.
_MAX_LATE: Final = 0.01
# A wheel with at most this part of the default's work is worth a change; works that differ by less
# than a tenth count as equal.
_WORTH: Final = 0.8
# Wake-ups a second that are not worth saving: each takes about 50 us.
_IDLE: Final = 1.0
_NEAR: Final = 1.1


class WheelChoice(NamedTuple):
    """A wheel to use and the reason. `call`: how a program makes it."""

    row: WheelRow
    is_default: bool
    call: str
    why: str


def choose_wheel(rows: Sequence[WheelRow], median_timeout_ms: int) -> WheelChoice:
    """Choose one of `rows` for operations with this median timeout."""
    default = next(filter(_is_default, rows), None)
    allowed_ms = max(DEFAULT_TICK_MS, _MAX_LATE * median_timeout_ms)
    finest = min(row.tick_ms for row in rows)
    fit = [row for row in rows if row.tick_ms <= allowed_ms or row.tick_ms == finest]
    wakeups = min(row.wakeups_per_second for row in fit)
    calm = [row for row in fit if row.wakeups_per_second <= wakeups * _NEAR]
    moves = min(row.moves_per_operation for row in calm)
    still = [row for row in calm if row.moves_per_operation <= moves * _NEAR]
    best = min(still, key=lambda row: (row.tick_ms, row.wheel_size))
    if default is not None and not _is_worth_it(best, default):
        best = default
    return WheelChoice(best, _is_default(best), _call(best), _why(best, default, median_timeout_ms))


def _is_default(row: WheelRow) -> bool:
    return (row.tick_ms, row.wheel_size) == (DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE)


def _is_worth_it(row: WheelRow, default: WheelRow) -> bool:
    if default.wakeups_per_second < _IDLE:
        return False
    return (
        row.wakeups_per_second < _WORTH * default.wakeups_per_second
        or row.moves_per_operation < _WORTH * default.moves_per_operation
    )


def _call(row: WheelRow) -> str:
    return f"Timer(tick_ms={row.tick_ms}, wheel_size={row.wheel_size})"


def _why(row: WheelRow, default: WheelRow | None, median_timeout_ms: int) -> str:
    if row is default and row.wakeups_per_second < _IDLE:
        return f"The default has little to do, with {_wakeups(row)} a second: leave it."
    if row is default:
        return (
            "The default is as good as any of these: no other wheel saves a fifth of its "
            f"{_wakeups(row)} a second, or of its {_moves(row)} an operation, without making an "
            "expiry late by more than a percent of the median timeout."
        )
    against = "" if default is None else f", not {formatting.number(default.wakeups_per_second)}"
    moved = "" if default is None else f", not {formatting.number(default.moves_per_operation)}"
    return (
        f"{_wakeups(row)} a second{against}; {_moves(row)} an operation{moved}. An expiry is at "
        f"most {formatting.duration(row.max_lateness_ms)} late"
        f"{_part_of(row.max_lateness_ms, median_timeout_ms)}."
    )


def _part_of(late_ms: int, timeout_ms: int) -> str:
    if not (late_ms and timeout_ms):
        return ""
    return f", {formatting.share(late_ms / timeout_ms)} of the median timeout"


def _wakeups(row: WheelRow) -> str:
    return f"{formatting.number(row.wakeups_per_second)} wake-ups"


def _moves(row: WheelRow) -> str:
    return f"{formatting.number(row.moves_per_operation)} moves"
