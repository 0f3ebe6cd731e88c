"""The rows of the store, and those that a server's journal gets from it.

Immutable values; any thread.
"""

from enum import IntEnum
from typing import Any, Final, NamedTuple

#: The units of an event that counts for any number of operations.
UNLIMITED: Final = -1


class OperationBatch(NamedTuple):
    """Operations to be written, numbered from `first` on, of one client and one moment.

    `operations`: values that MessagePack encodes as [op_id, keys, timeout_ms, need, kind, payload].
    """

    first: int
    client: str
    submitted_ms: int
    operations: list[Any]


class StoredOperation(NamedTuple):
    """An operation as it was written; times are Unix milliseconds, `payload` MessagePack."""

    number: int
    client: str
    op_id: str
    kind: str
    submitted_ms: int
    deadline_ms: int
    need: int
    keys: tuple[str, ...]
    payload: bytes | None


class StoredOutcome(NamedTuple):
    """A row of the table of outcomes."""

    seq: int
    number: int
    outcome: str
    at_ms: int
    lateness_ms: int
    by_key: str | None
    result: bytes | None


class StoredEvent(NamedTuple):
    """An event that is held from `at_ms` to `until_ms`, both included, Unix milliseconds.

    `number` grows in the order in which events came. `units`: for how many more operations it
    counts, or UNLIMITED. `value` is MessagePack.
    """

    number: int
    at_ms: int
    until_ms: int
    units: int
    value: bytes


class JobState(IntEnum):
    """What has become of a job."""

    WAITING = 0  # for its next attempt
    DONE = 1
    DEAD = 2  # given up


class StoredJob(NamedTuple):
    """A job; `seq` is the sequence number of its outcome, `attempts` those that have ended.

    `at_ms`, Unix milliseconds: the next attempt is not before that; or when it was done or died.
    """

    seq: int
    state: int
    attempts: int
    at_ms: int


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
