"""The four tables of a trace: names, columns and types, shared by every file format.

Constants; any thread may read them.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from purgatory.trace.column_validation import (
    event_columns,
    extension_columns,
    operation_columns,
    outcome_columns,
)
from purgatory.trace.errors import TraceError
from purgatory.trace.validation import (
    checked_event,
    checked_extension,
    checked_operation,
    checked_outcome,
)

if TYPE_CHECKING:
    from purgatory.trace.rows import Columns, Extension, KeyEvent, Operation, OutcomeRow

RowT = TypeVar("RowT", bound=tuple[Any, ...])


class ColumnType(enum.Enum):
    """The type of a column; each format maps it to one of its own."""

    TEXT = "text"
    TEXTS = "list of texts"
    INT32 = "integer"
    INT64 = "integer of 64 bits"
    BOOL = "true or false"


class Column(NamedTuple):
    """A column; one that is not required may be absent from a file, and then reads as null.

    One that is `rare` is written only if a row needs it; its default is 0 or False. Such columns
    come last. One that `is_time` holds Unix milliseconds, and is read from timestamps, too.
    """

    name: str
    type: ColumnType
    required: bool = True
    rare: bool = False
    is_time: bool = False


@dataclass(frozen=True, slots=True)
class Table(Generic[RowT]):
    """A kind of table: its columns in order, and the functions that check them.

    `make` makes a checked row of values, `make_columns` checked columns of lists, or None if a row
    may be bad. `time_column` is the column by which a trace is in time order.
    """

    name: str
    columns: tuple[Column, ...]
    make: Callable[..., RowT]
    make_columns: Callable[..., Columns | None]
    time_column: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def time_place(self) -> int:
        """The place of the time column, counted from 0."""
        return self.names.index(self.time_column)

    @property
    def time_of(self) -> Callable[[RowT], int]:
        """A function from a row to its time in milliseconds."""
        return attrgetter(self.time_column)

    def without_rare_columns(self) -> Table[RowT]:
        """Return the table as it is written while no row needs a rare column."""
        return replace(self, columns=tuple(c for c in self.columns if not c.rare))

    def missing_from(self, names: Collection[str]) -> list[str]:
        """Name the required columns that are not among `names`."""
        return [c.name for c in self.columns if c.required and c.name not in names]

    def check_columns(self, path: str, names: Collection[str]) -> None:
        """Raise TraceError when a required column is missing, or a column is there twice."""
        if missing := self.missing_from(names):
            raise TraceError(
                f"{path}: not a table of {self.name}, it has no column {', '.join(missing)}"
            )
        twice = [name for name in self.names if list(names).count(name) > 1]
        if twice:
            raise TraceError(f"{path}: column {', '.join(twice)} is there more than once")


_TEXT, _TEXTS = ColumnType.TEXT, ColumnType.TEXTS
_INT32, _INT64 = ColumnType.INT32, ColumnType.INT64

OPERATIONS: Final[Table[Operation]] = Table(
    "operations",
    (
        Column("op_id", _TEXT),
        Column("kind", _TEXT, required=False),
        Column("submitted_ms", _INT64, is_time=True),
        Column("timeout_ms", _INT64),
        Column("keys", _TEXTS),
        Column("need", _INT32, required=False),
    ),
    checked_operation,
    operation_columns,
    "submitted_ms",
)

EVENTS: Final[Table[KeyEvent]] = Table(
    "events",
    (
        Column("key", _TEXT),
        Column("at_ms", _INT64, is_time=True),
        Column("hold_ms", _INT64, required=False, rare=True),
        Column("failed", ColumnType.BOOL, required=False, rare=True),
    ),
    checked_event,
    event_columns,
    "at_ms",
)

EXTENSIONS: Final[Table[Extension]] = Table(
    "extensions",
    (Column("op_id", _TEXT), Column("at_ms", _INT64, is_time=True), Column("timeout_ms", _INT64)),
    checked_extension,
    extension_columns,
    "at_ms",
)

OUTCOMES: Final[Table[OutcomeRow]] = Table(
    "outcomes",
    (
        Column("op_id", _TEXT),
        Column("kind", _TEXT, required=False),
        Column("outcome", _TEXT),
        Column("at_ms", _INT64, is_time=True),
        Column("by_key", _TEXT, required=False),
        Column("submitted_ms", _INT64, is_time=True),
        Column("deadline_ms", _INT64, is_time=True),
        Column("waited_ms", _INT64),
        Column("lateness_ms", _INT64),
    ),
    checked_outcome,
    outcome_columns,
    "at_ms",
)

TABLES: Final[tuple[Table[Any], ...]] = (OPERATIONS, EVENTS, OUTCOMES, EXTENSIONS)


def recognise(path: str, names: Collection[str]) -> Table[Any]:
    """Return the table that a file with these columns holds; TraceError when it is none."""
    for table in TABLES:
        if not table.missing_from(names):
            return table
    needs = "; ".join(f"{t.name}: {', '.join(t.missing_from(()))}" for t in TABLES)
    raise TraceError(f"{path}: none of the tables of a trace, which need the columns {needs}")
