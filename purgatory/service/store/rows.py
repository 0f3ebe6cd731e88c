"""The store's rows: fields name the columns, in order. Immutable; any thread."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import Raw, Struct, msgpack

#: Units of an event for any number of operations.
UNLIMITED: Final = -1
#: Values of a queued event and extension: a number, then a trace's columns.
QUEUED_EVENT: Final = 5
QUEUED_EXTENSION: Final = 4
_MOST_SHIFTS: Final = 1000


class Options(Struct, array_like=True, gc=False, frozen=True):
    """Rarely used settings of an operation; see `protocol.SubmissionOptions`.

    `unique_ms`: how long the id is remembered after the end. The rest is of jobs, with distinct
    tags.
    """

    unique_ms: int
    tags: tuple[str, ...] = ()
    priority: int = 0
    start_within_ms: int | None = None


#: Operations in a batch, at most: reading one decodes all.
MAX_BATCH: Final = 128


class OperationBatch(NamedTuple):
    """Operations to write, numbered from `first` on, of one client and moment.

    `operations`: values that MessagePack encodes as [op_id, keys, timeout_ms, need, kind, payload],
    or [..., 0, options].
    """

    first: int
    client: str
    submitted_ms: int
    operations: list[Any]


class StoredOperation(NamedTuple):
    """An operation as written; times are Unix milliseconds, `payload` MessagePack."""

    number: int
    client: str
    op_id: str
    kind: str
    submitted_ms: int
    deadline_ms: int
    need: int
    keys: tuple[str, ...]
    payload: bytes | None
    options: Options | None = None


def with_deadlines(
    operations: list[StoredOperation], extended: dict[int, int]
) -> list[StoredOperation]:
    """Return operations with `extended` deadlines."""
    if not extended:
        return operations
    return [
        one._replace(deadline_ms=extended[one.number]) if one.number in extended else one
        for one in operations
    ]


class StoredOutcome(NamedTuple):
    """A row of outcomes."""

    seq: int
    number: int
    outcome: str
    at_ms: int
    lateness_ms: int
    by_key: str | None
    result: bytes | None


class StoredEvent(NamedTuple):
    """An event held from `at_ms` to `until_ms`, inclusive, Unix milliseconds.

    `number` grows in order of arrival. `units`: for how many more operations it counts, or
    UNLIMITED. `value` is MessagePack.
    """

    number: int
    at_ms: int
    until_ms: int
    units: int
    value: bytes


class StoredSpread(NamedTuple):
    """An event for operations numbered up to `last`, and their result.

    Outcomes from `first_seq` to `last_seq` (0: some have not ended) refer to the event; `ended`:
    how many operations and due jobs. The rest is of the request: the event's `place`, and the
    answer's `counts`, MessagePack. `at_ms` is Unix milliseconds.
    """

    number: int
    key: str
    at_ms: int
    failed: int
    last: int
    first_seq: int
    last_seq: int
    ended: int
    session: str
    seq: int
    place: int
    counts: bytes | bytearray
    value: bytes | bytearray


class StoredRepeat(NamedTuple):
    """A client's repeat; `next_ms` is Unix milliseconds, 0: none is left.

    `every_ms` is 0 for times of the calendar. `settings`: a `Repeat`, MessagePack.
    """

    client: str
    name: str
    next_ms: int
    last_ms: int
    paused: int
    skipped: int
    every_ms: int
    settings: bytes | bytearray


class RememberedRow(NamedTuple):
    """A remembered id; `until_ms` is Unix milliseconds, `seq` 0 for a job."""

    place: int
    until_ms: int
    hash: int
    seq: int
    status: bytes | bytearray


class JobState(IntEnum):
    """The state of a job."""

    WAITING = 0  # for its next attempt
    DONE = 1
    DEAD = 2  # given up
    CANCELLING = 3  # its last attempt runs; a restart cancels the job
    CANCELLED = 4
    DROPPED = 5  # forgotten: its id is free


class StoredJob(NamedTuple):
    """A job; `seq` is its outcome's sequence number, `attempts` counts ended attempts.

    `at_ms`, Unix milliseconds: the earliest next attempt; or when it was done or died.
    """

    seq: int
    state: int
    attempts: int
    at_ms: int


KEPT_ATTEMPTS: Final = 20  # of a job: the last ones


class StoredAttempt(NamedTuple):
    """An attempt of a job that has failed, now or before; times are Unix milliseconds.

    `number` counts attempts, from 1 again after a retry of a dead job. `place`, the key beside
    `seq`, is the token of the attempt's lease: it grows. `error` is empty after a success.
    """

    seq: int
    place: int
    number: int
    began_ms: int
    ended_ms: int
    worker: str
    error: str


def delete_early_attempts(table: str) -> str:
    """Return SQL that deletes all but the last KEPT_ATTEMPTS; a store adds the jobs."""
    later = f"SELECT count(*) FROM {table} b WHERE b.seq = {table}.seq AND b.place > {table}.place"
    return f"DELETE FROM {table} WHERE ({later}) >= {KEPT_ATTEMPTS}"


def attempts_by_seq(rows: Iterable[Sequence[Any]]) -> dict[int, list[StoredAttempt]]:
    """Return the last attempts of each job, by their ends."""
    found: dict[int, list[StoredAttempt]] = {}
    for row in sorted(map(StoredAttempt._make, rows), key=attrgetter("ended_ms", "number")):
        found.setdefault(row.seq, []).append(row)
    return {seq: attempts[-KEPT_ATTEMPTS:] for seq, attempts in found.items()}


class StoredLimit(NamedTuple):
    """The limits of a kind; 0: not paused, or unlimited."""

    kind: str
    paused: int
    running: int
    per_second: float


class QueuedJob(NamedTuple):
    """The end of a job, for the journal; times are Unix milliseconds.

    `state`: done, dead or cancelled. `began_ms` is 0 if no attempt has begun. A store packs a
    transaction's ends into a row.
    """

    number: int
    job_id: str
    kind: str
    state: str
    client: str
    tags: tuple[str, ...]
    submitted_ms: int
    due_ms: int
    began_ms: int
    ended_ms: int
    attempts: int
    worker: str
    error: str


_unpack_jobs: Final = msgpack.Decoder(list[QueuedJob]).decode


def pack_jobs(jobs: list[QueuedJob]) -> bytearray:
    """Encode a row's jobs."""
    return bytearray(msgpack.encode(jobs))  # see `Changes`


def unpack_jobs(packed: bytes) -> list[QueuedJob]:
    """Decode a row. Raises msgspec.MsgspecError."""
    return _unpack_jobs(packed)


class JournalPosition(NamedTuple):
    """The last numbers of each table, inclusive."""

    operations: int
    outcomes: int
    events: int = 0
    extensions: int = 0
    jobs: int = 0


# Not in a compiled module: msgspec reads the types of its fields.
class MovedTimes(NamedTuple):
    """Rows up to these numbers have times of the clock before `at_ms`, when times moved.

    `shifts`: the latest moves, each with the last outcome before it, and milliseconds.
    """

    events: int = 0
    outcomes: int = 0
    at_ms: int = 0
    shifts: tuple[tuple[int, int], ...] = ()

    def again(self, last: JournalPosition, by_ms: int, at_ms: int) -> "MovedTimes":
        """Return the record after another move."""
        shifts = (*self.shifts[-_MOST_SHIFTS:], (last.outcomes, by_ms))
        return MovedTimes(last.events, last.outcomes, at_ms, shifts)


# MessagePack does not use this byte.
_REFERENCE: Final = b"\xc1"


def reference_to(spread: int) -> bytearray:
    """Return the result of a spread's outcome."""
    return bytearray(_REFERENCE + spread.to_bytes(8))


_skip: Final = msgpack.Decoder(Raw).decode
_Row = TypeVar("_Row", bound=Sequence[Any])


def checked(rows: list[_Row]) -> list[_Row]:
    """Return rows. Raises msgspec.MsgspecError if a value in the last column is damaged.

    A wrong bit would spoil the value's whole frame.
    """
    for row in rows:
        if row[-1] is not None:
            _skip(row[-1])
    return rows


def spread_of(result: bytes | None) -> int:
    """Return the number of a result's spread; 0: a value."""
    return int.from_bytes(result[1:]) if result and result[:1] == _REFERENCE else 0


#: Numbers of the journal's events, extensions and ends of jobs.
QueueNumbers = tuple[int, int, int]
