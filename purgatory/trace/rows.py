"""The rows of a trace, each defined once: operations, key events, extensions and outcomes.

A field has a name, a type, its place, and a `Column`, which has the rule for its values and says
whether files may lack it. Tables, files of all formats, Spark's schemas and the rows of a journal
derive from these.

Rows are named tuples: a million of them are made in about a second. Times are Unix milliseconds,
durations milliseconds, all in the range of a signed 64-bit integer. A row made directly is not
checked; readers and writers check each row.

By column, a loop in C for each column costs a tenth of a Python object for each row: so the reader
yields checked batches, and the replay takes them. Immutable, batches by agreement; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias

from purgatory.trace import rules

if TYPE_CHECKING:
    from purgatory.trace.rules import ColumnType, ValueRule

#: The default of a column that has none.
REQUIRED: Final = object()


class Column(NamedTuple):
    """A column: the rule for its values, and `beside`, the column that the rule depends on.

    One with a `default` may be absent from a file, and null in a row. One that is `rare` is written
    only if a row needs it; its default is 0 or False. Such columns come last. One that `is_time`
    holds Unix milliseconds, and is read from timestamps, too. One that `has_few` has few distinct
    values. The name is that of the field.
    """

    rule: ValueRule
    beside: str = ""
    default: Any = REQUIRED
    rare: bool = False
    is_time: bool = False
    has_few: bool = False
    name: str = ""

    @property
    def type(self) -> ColumnType:
        """The type of the values."""
        return self.rule.type

    @property
    def required(self) -> bool:
        """Whether a file has to have it."""
        return self.default is REQUIRED


OpId = Annotated[str, Column(rules.NAME)]
Kind = Annotated[str, Column(rules.TEXT, default="", has_few=True)]
Time = Annotated[int, Column(rules.INTEGER, is_time=True)]
Milliseconds = Annotated[int, Column(rules.INTEGER)]


class Operation(NamedTuple):
    """An operation: submitted at a time, completed by `need` distinct keys, or else expired."""

    op_id: OpId
    kind: Kind
    submitted_ms: Time
    timeout_ms: Annotated[int, Column(rules.SPAN, beside="submitted_ms")]
    keys: Annotated[tuple[str, ...], Column(rules.KEYS)]
    need: Annotated[int, Column(rules.NEED, beside="keys", default=1)] = 1

    @property
    def deadline_ms(self) -> int:
        """The last millisecond at which an event still completes it, unless it is extended."""
        return self.submitted_ms + self.timeout_ms


class KeyEvent(NamedTuple):
    """The completion of a watch key at a time, or with `failed` its failure.

    For `hold_ms` a completion also counts for operations that are submitted later. A failure is
    never held.
    """

    key: Annotated[str, Column(rules.NAME)]
    at_ms: Time
    hold_ms: Annotated[int, Column(rules.HOLD, "at_ms", default=0, rare=True, has_few=True)] = 0
    failed: Annotated[bool, Column(rules.TRUTH, default=False, rare=True)] = False


class Extension(NamedTuple):
    """A new timeout of a pending operation, counted from `at_ms`."""

    op_id: OpId
    at_ms: Time
    timeout_ms: Annotated[int, Column(rules.SPAN, beside="at_ms")]

    @property
    def deadline_ms(self) -> int:
        """The operation's deadline from then on."""
        return self.at_ms + self.timeout_ms


class OutcomeRow(NamedTuple):
    """The outcome of an operation; `deadline_ms` is the deadline that it had at the end.

    `by_key` is the key that completed it, None when it was not completed by a key. `waited_ms` is
    `at_ms - submitted_ms`; `lateness_ms` is when it was handled minus when it was due.
    """

    op_id: OpId
    kind: Kind
    outcome: Annotated[str, Column(rules.OUTCOME, has_few=True)]
    at_ms: Time
    by_key: Annotated[str | None, Column(rules.COMPLETING_KEY, beside="outcome", default=None)]
    submitted_ms: Time
    deadline_ms: Time
    waited_ms: Milliseconds
    lateness_ms: Milliseconds


#: A list for each column of a table, in the order of the table, all of one length.
Columns: TypeAlias = tuple[list[Any], ...]

#: Rows of a batch that is made of single rows.
BATCH_ROWS: Final = 1_024


class Batch(NamedTuple):
    """Rows of one file. `numbers`: the line or row of each, for messages."""

    columns: Columns
    numbers: Sequence[int]


def columns_of(rows: Sequence[tuple[Any, ...]]) -> Columns:
    """Return rows by column; at least one row."""
    return tuple(map(list, zip(*rows, strict=True)))


def batched(rows: Iterable[tuple[Any, ...]]) -> Iterator[Columns]:
    """Yield rows by column, `BATCH_ROWS` at a time."""
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH_ROWS)):
        yield columns_of(batch)
