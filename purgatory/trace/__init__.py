"""Traces: tables of operations, key events, extensions and outcomes, read and written as streams.

CSV and JSON lines need the standard library alone, Parquet the extra `timer-purgatory[trace]`. A
reader or writer belongs to one thread.
"""

from purgatory.trace.errors import BadRow, BadRows, OutOfOrder, SkippedRows, TraceError
from purgatory.trace.reader import (
    Reader,
    by_time,
    in_order,
    read_events,
    read_extensions,
    read_operations,
    read_outcomes,
)
from purgatory.trace.tables import Extension, KeyEvent, Operation, OutcomeRow
from purgatory.trace.validation import CANCELLED, COMPLETED, EXPIRED, FAILED
from purgatory.trace.writer import (
    Writer,
    write_events,
    write_extensions,
    write_operations,
    write_outcomes,
)

__all__ = [
    "CANCELLED",
    "COMPLETED",
    "EXPIRED",
    "FAILED",
    "BadRow",
    "BadRows",
    "Extension",
    "KeyEvent",
    "Operation",
    "OutOfOrder",
    "Outcome",
    "OutcomeRow",
    "Reader",
    "SkippedRows",
    "TraceError",
    "Writer",
    "by_time",
    "in_order",
    "read_events",
    "read_extensions",
    "read_operations",
    "read_outcomes",
    "write_events",
    "write_extensions",
    "write_operations",
    "write_outcomes",
]

#: The former public name of `OutcomeRow`.
Outcome = OutcomeRow
