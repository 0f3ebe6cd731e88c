"""The rows of a trace: operations, key events, extensions and outcomes; one by one, or by column.

Rows are named tuples: a million of them are made in about a second. Times are Unix milliseconds,
durations milliseconds, all in the range of a signed 64-bit integer. A row made directly is not
checked; readers and writers check each row (see `validation`).

By column, a loop in C for each column costs a tenth of a Python object for each row: so the reader
yields checked batches, and the replay takes them. Immutable, batches by agreement; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
COMPLETED: Final = "completed"
EXPIRED: Final = "expired"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
OUTCOMES: Final = (COMPLETED, FAILED, EXPIRED, CANCELLED)


class Operation(NamedTuple):
    """An operation: submitted at a time, completed by `need` distinct keys, or else expired."""

    op_id: str
    kind: str
    submitted_ms: int
    timeout_ms: int
    keys: tuple[str, ...]
    need: int = 1

    @property
    def deadline_ms(self) -> int:
        """The last millisecond at which an event still completes it, unless it is extended."""
        return self.submitted_ms + self.timeout_ms


class KeyEvent(NamedTuple):
    """The completion of a watch key at a time, or with `failed` its failure.

    For `hold_ms` a completion also counts for operations that are submitted later. A failure is
    never held.
    """

    key: str
    at_ms: int
    hold_ms: int = 0
    failed: bool = False


class Extension(NamedTuple):
    """A new timeout of a pending operation, counted from `at_ms`."""

    op_id: str
    at_ms: int
    timeout_ms: int

    @property
    def deadline_ms(self) -> int:
        """The operation's deadline from then on."""
        return self.at_ms + self.timeout_ms


class OutcomeRow(NamedTuple):
    """The outcome of an operation; `deadline_ms` is the deadline that it had at the end.

    `by_key` is the key that completed it, None when it was not completed by a key. `waited_ms` is
    `at_ms - submitted_ms`; `lateness_ms` is when it was handled minus when it was due.
    """

    op_id: str
    kind: str
    outcome: str
    at_ms: int
    by_key: str | None
    submitted_ms: int
    deadline_ms: int
    waited_ms: int
    lateness_ms: int


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
