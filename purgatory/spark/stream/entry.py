"""Where a stream stands after a micro-batch. Immutable; any thread may read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from purgatory.printable import counted
from purgatory.spark.stream.shard import TABLES
from purgatory.trace.validation import COMPLETED, EXPIRED, FAILED, INT64_MIN

_COUNTED: Final = (
    *(*TABLES, COMPLETED, FAILED, EXPIRED),
    *(f"{fate}_{table}" for fate in ("late", "rejected") for table in TABLES),
)


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """Where a stream stands.

    `batch`: the last micro-batch whose output is published. `closed_ms`: the last closed instant;
    rows up to it are late. `newest_ms`: the newest time of each source. `pending` operations wait,
    none beyond `last_deadline_ms`; `kept` rows are of instants that are not closed. `counts`: rows
    since the stream began.
    """

    batch: int = -1
    closed_ms: int = INT64_MIN
    newest_ms: Mapping[str, int] = field(default_factory=dict)
    pending: int = 0
    kept: int = 0
    last_deadline_ms: int = INT64_MIN
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))

    def __str__(self) -> str:
        counts = self.counts
        parts = [
            f"batch {self.batch}",
            f"event time {_formatted_time(self.closed_ms)}",
            counted(counts["operations"], "operation"),
            f"{counts['completed']:,} completed",
            *([f"{counts['failed']:,} failed"] if counts["failed"] else []),
            f"{counts['expired']:,} expired",
            f"{self.pending:,} pending",
        ]
        for fate in ("late", "rejected"):
            rows = sum(counts[f"{fate}_{table}"] for table in TABLES)
            if rows:
                parts.append(f"{counted(rows, 'row')} {fate}")
        return ", ".join(parts)

    @classmethod
    def of_shards(cls, batch: int, facts: Sequence[Mapping[str, Any]]) -> CheckpointEntry:
        """Make the entry of a micro-batch from the facts of all shards."""
        counts = {name: sum(one["counts"].get(name, 0) for one in facts) for name in _COUNTED}
        return cls(
            batch,
            min(one["closed_ms"] for one in facts),
            facts[0]["newest_ms"],
            sum(one["pending"] for one in facts),
            max(one["kept"] for one in facts),
            max(one["last_deadline_ms"] for one in facts),
            counts,
        )


def _formatted_time(closed_ms: int) -> str:
    try:
        return datetime.fromtimestamp(closed_ms / 1000, UTC).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return "not begun" if closed_ms < 0 else f"{closed_ms} ms"
