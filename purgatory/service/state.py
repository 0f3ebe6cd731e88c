"""State: what the page shows, as plain values for JSON. Any thread; reads figures, changes nothing.

The figures are those of ``/metrics``, and the wheel slot by slot besides. Read one after the other
while the purgatory works, so they may be a moment apart.
"""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from timingwheel import monotonic_ms

if TYPE_CHECKING:
    from purgatory.purgatory import Purgatory
    from purgatory.service.stats import ServerStats
    from timingwheel import Lateness, WheelLevel


class State:
    """Looks at one purgatory, and the ``service`` that it is part of, if it is of one."""

    def __init__(
        self, purgatory: Purgatory, service: Callable[[], ServerStats] | None = None
    ) -> None:
        self._purgatory = purgatory
        self._service = service
        self._version = importlib.metadata.version("timer-purgatory")
        self._started = time.monotonic()

    def read(self) -> dict[str, Any]:
        """The state: strings, numbers, lists and dicts alone.

        ``now_ms``: the wheel's time. ``levels``: lowest first, with the number of tasks in each of
        their ``slots``. ``lateness``: as `timingwheel.Lateness`. ``service``: as
        `ServerStats`, or None. Counts are since the start.
        """
        purgatory = self._purgatory
        stats, timer = purgatory.stats(), purgatory.timer.stats()
        return {
            "name": stats.name,
            "version": self._version,
            "uptime_s": self.uptime_s,
            "pending": stats.pending,
            "watch_entries": stats.watch_entries,
            "watched_keys": stats.watched_keys,
            "outcomes": {
                "completed": stats.completed,
                "expired": stats.expired,
                "cancelled": stats.cancelled,
            },
            "mailbox": {"depth": stats.mailbox_depth, "commands": stats.mailbox_commands},
            "executor_backlog": timer.executor_backlog,
            "timers": {
                "pending": timer.pending,
                "fired": timer.fired,
                "cancelled": timer.cancelled,
                "cascades": timer.cascades,
            },
            "lateness": _lateness(timer.lateness),
            "levels": [_level(level) for level in purgatory.timer.levels()],
            "now_ms": monotonic_ms(),
            "service": None if self._service is None else self._service().as_dict(),
        }

    @property
    def uptime_s(self) -> float:
        """Seconds since this was made."""
        return time.monotonic() - self._started

    def sample(self) -> tuple[float, ...]:
        """A row of the charts: uptime, completed, expired, cancelled, pending, both backlogs."""
        stats = self._purgatory.stats()
        return (
            self.uptime_s,
            stats.completed,
            stats.expired,
            stats.cancelled,
            stats.pending,
            stats.mailbox_depth,
            self._purgatory.timer.stats().executor_backlog,
        )


def _lateness(lateness: Lateness) -> dict[str, Any]:
    return {
        "bounds_ms": list(lateness.bounds_ms),
        "counts": list(lateness.counts),
        "sum_ms": lateness.sum_ms,
    }


def _level(level: WheelLevel) -> dict[str, Any]:
    return {"tick_ms": level.tick_ms, "hand": level.hand, "slots": list(level.slots)}
