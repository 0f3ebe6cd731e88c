"""Shows the progress of a stream on stderr.

A terminal gets one line that is rewritten; a log gets a line for each batch. Made and closed by the
main thread. The thread that commits calls `show`, one at a time.
"""

from __future__ import annotations

from contextlib import ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console

if TYPE_CHECKING:
    from purgatory.spark.stream.entry import CheckpointEntry

_STARTING: Final = "starting the stream"


class StreamProgress:
    """Shows each commit on stderr; use in a `with` block."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._status = self._stack.enter_context(self._console.status(_STARTING))
        return self

    def show(self, entry: CheckpointEntry) -> None:
        """Show where the stream stands."""
        if self._console.is_terminal:
            self._status.update(describe(entry))
        else:
            self._console.print(describe(entry), soft_wrap=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


def describe(entry: CheckpointEntry) -> str:
    """Describe an entry in one line."""
    counts = entry.counts
    parts = [
        f"batch {entry.batch}",
        f"event time {_formatted_time(entry.closed_ms)}",
        f"{counts['operations']:,} operations",
        f"{counts['completed']:,} completed",
        *([f"{counts['failed']:,} failed"] if counts["failed"] else []),
        f"{counts['expired']:,} expired",
        f"{entry.pending:,} pending",
    ]
    for fate in ("late", "rejected"):
        rows = sum(counts[f"{fate}_{table}"] for table in ("operations", "extensions", "events"))
        if rows:
            parts.append(f"{rows:,} rows {fate}")
    return ", ".join(parts)


def _formatted_time(closed_ms: int) -> str:
    """Format a time as a date, or as ms if no calendar reaches it."""
    try:
        return datetime.fromtimestamp(closed_ms / 1000, UTC).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return "not begun" if closed_ms < 0 else f"{closed_ms} ms"
