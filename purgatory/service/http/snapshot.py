"""StatusReader: the live page's data, as values for JSON. Any thread; it only reads.

Figures are read in turn, not at exactly the same moment.
"""

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from purgatory.core.purgatory import Purgatory
from purgatory.registry import PurgatoryStats
from purgatory.service.job_messages import JOB_STATES, KindOverview
from purgatory.service.server.jobs.job_timings import TIMING_BOUNDS_MS, KindTimings
from purgatory.service.server.jobs.kind_figures import kind_figures
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.server import Server
from purgatory.service.server.server_health import HealthReport
from purgatory.service.server.stats import ServerStats
from purgatory.service.troubles import by_trouble, job_troubles, why_stuck
from purgatory.version import package_version
from timingwheel import WheelLevel, monotonic_ms
from timingwheel.lowlevel import NS_PER_MS

_OUTCOMES: Final = ("completed", "failed", "expired", "cancelled")
_TIMERS: Final = ("pending", "fired", "cancelled", "cascades")
# Rows of each table of operations.
_ROWS: Final = 10


class StatusReader:
    """Reads the figures of a purgatory, and of its server if `service` is given.

    `now_ms` returns the time that the wheel follows; a server moves its timer's clock in steps.
    `operations` and `jobs`: such as `read_operations` and `read_jobs`. `cluster` returns the state
    of the other servers over the database.
    """

    def __init__(
        self,
        purgatory: Purgatory,
        service: Callable[[], ServerStats] | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
        *,
        health: Callable[[], HealthReport] | None = None,
        operations: Callable[[], dict[str, Any]] | None = None,
        jobs: Callable[[], dict[str, Any]] | None = None,
        cluster: Callable[[], dict[str, Any]] | None = None,
        address: str = "",
    ) -> None:
        self._purgatory = purgatory
        self._service = service
        self._now_ms = now_ms
        self._health = health
        self._operations = operations
        self._jobs = jobs
        self._cluster = cluster
        self._address = address
        self._host = socket.gethostname()
        self._version = package_version()
        self._started = time.monotonic()

    def read(self) -> dict[str, Any]:
        """Return the status: strings, numbers, lists and dicts.

        `now_ms`: the wheel's time. `levels`: lowest first. Counts are since the start. None without
        a source: `service`, as `ServerStats`; `health`, as `HealthReport`; `operations`, see
        `read_operations`; `cluster`, as `ClusterStatus`. `jobs` and `troubles`: see `jobs_shown`.
        """
        purgatory = self._purgatory
        stats, timer, now_ms = purgatory.stats(), purgatory.timer.stats(), self._now_ms()
        service = None if self._service is None else self._service()
        depth, commands = _mailbox(stats, service)
        return {
            "name": stats.name,
            "host": self._host,
            "address": self._address,
            "version": self._version,
            "uptime_s": self.uptime_s,
            "pending": stats.pending,
            "watch_entries": stats.watch_entries,
            "watched_keys": stats.watched_keys,
            "held": stats.held if service is None else service.held,
            "outcomes": {name: getattr(stats, name) for name in _OUTCOMES},
            "mailbox": {"depth": depth, "commands": commands},
            "executor_backlog": timer.executor_backlog,
            "timers": {name: getattr(timer, name) for name in _TIMERS},
            "lateness": asdict(timer.lateness),
            "levels": [_level(level, now_ms) for level in purgatory.timer.levels()],
            "now_ms": now_ms,
            "service": None if service is None else service.as_dict(),
            "health": None if self._health is None else asdict(self._health()),
            "operations": None if self._operations is None else self._operations(),
            **({} if self._jobs is None else self._jobs()),
            "cluster": None if self._cluster is None else self._cluster(),
        }

    @property
    def uptime_s(self) -> float:
        """Seconds since the reader was made."""
        return time.monotonic() - self._started

    def sample(self) -> tuple[float, ...]:
        """Return a row of the charts.

        Uptime, completed, expired, cancelled, pending, two backlogs, failed.
        """
        stats = self._purgatory.stats()
        service = None if self._service is None else self._service()
        return (
            self.uptime_s,
            stats.completed,
            stats.expired,
            stats.cancelled,
            stats.pending,
            _mailbox(stats, service)[0],
            self._purgatory.timer.stats().executor_backlog,
            stats.failed,
        )


def _level(level: WheelLevel, now_ms: int) -> dict[str, Any]:
    hand = now_ms * NS_PER_MS // level.tick_ns % len(level.slots)
    return {"tick_ms": level.tick_ms, "hand": hand, "slots": list(level.slots)}


def _mailbox(stats: PurgatoryStats, service: ServerStats | None) -> tuple[int, int]:
    """Return depth and total of the mailbox that feeds the purgatory."""
    if service is None:
        return stats.mailbox_depth, stats.mailbox_commands
    return service.store_backlog, service.messages


def read_operations(server: Server) -> dict[str, Any]:
    """Return the rows of both tables of operations; times are Unix milliseconds.

    Of operations due at nearly the same time some may be missing; see `Timer.first_tasks`.
    """
    return {
        "now_ms": server.now_ms(),
        "next": [
            {
                "due_ms": operation.op_deadline_ms,
                "op_id": operation.op_id,
                "kind": operation.kind,
                "client": operation.client.name,
            }
            for operation in server.state.timer.first_tasks(_ROWS)
            if isinstance(operation, PendingOperation)
        ],
        "failures": [failure._asdict() for failure in server.state.failures.latest()],
    }


def _timings(timings: KindTimings) -> dict[str, Any]:
    return {
        "ended": list(timings.ended),
        "failed_attempts": timings.failed_attempts,
        "ran": list(timings.ran),
        "ran_bounds_ms": TIMING_BOUNDS_MS,
    }


def read_jobs(server: Server) -> dict[str, Any]:
    """Return the `jobs_shown` of a server."""
    kinds = kind_figures(server.state, server.now_ms())
    return jobs_shown(kinds, server.state.jobs.timings.by_kind)


def jobs_shown(kinds: Sequence[KindOverview], timings: Mapping[str, KindTimings]) -> dict[str, Any]:
    """Return `jobs`, a row for each kind, and `troubles`, sentences.

    `is_stuck`: see `why_stuck`. `ended`: jobs done, dead and cancelled since the start. `ran`:
    attempts by duration, for each of `ran_bounds_ms` and beyond.
    """
    none = KindTimings()
    rows = [
        {
            "kind": each.kind,
            **_timings(timings.get(each.kind, none)),
            **dict(zip(JOB_STATES, each.counts, strict=True)),
            "oldest_ready_ms": each.oldest_ready_ms,
            "is_stuck": bool(why_stuck(each)),
            "workers": each.workers,
            "paused": each.paused,
        }
        for each in by_trouble(kinds)
    ]
    return {"jobs": rows, "troubles": job_troubles(kinds)}
