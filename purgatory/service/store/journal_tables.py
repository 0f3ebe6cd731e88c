"""The rows that a server's journal gets from the store, and up to which it has them.

Immutable values; any thread.
"""

from typing import NamedTuple


class JournalPosition(NamedTuple):
    """The last numbers, inclusive, of the rows of each table."""

    operations: int
    outcomes: int
    events: int = 0
    extensions: int = 0


class JournalOperation(NamedTuple):
    """A row of the journal's table of operations; times are Unix milliseconds."""

    number: int
    op_id: str
    kind: str
    submitted_ms: int
    timeout_ms: int
    keys: tuple[str, ...]
    need: int


class JournalEvent(NamedTuple):
    """A row of the journal's table of events; times are milliseconds, `at_ms` is Unix."""

    number: int
    key: str
    at_ms: int
    hold_ms: int
    failed: bool


class JournalExtension(NamedTuple):
    """A row of the journal's table of extensions; times are milliseconds, `at_ms` is Unix."""

    number: int
    op_id: str
    at_ms: int
    timeout_ms: int


class JournalOutcome(NamedTuple):
    """A row of the journal's table of outcomes; times are Unix milliseconds.

    An expired operation ended at its deadline; `lateness_ms` later that was noticed.
    """

    seq: int
    op_id: str
    kind: str
    outcome: str
    at_ms: int
    by_key: str | None
    submitted_ms: int
    deadline_ms: int
    waited_ms: int
    lateness_ms: int
