"""The protocol: the messages between clients and servers; docs/protocol.md specifies it.

A message is one ZeroMQ frame of MessagePack: an array of the message's type, the request's `seq`
(the client's count, echoed by the answer), and the fields. Later versions may add to the end of an
array; readers ignore unknown elements. Times are whole milliseconds, moments in Unix time. Values
and payloads are MessagePack that the server stores and passes on without looking inside.

Any thread may use these. More than 400 lines: the list of all messages.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from msgspec import Meta, Raw, Struct

VERSION: Final = 3
OLDEST_VERSION: Final = 1

#: MessagePack's nil: no value, no payload.
NOTHING: Final = b"\xc0"

# A program's value. The server passes values on undecoded; a client decodes them in place.
if TYPE_CHECKING:
    Value: TypeAlias = Any
else:
    Value = Raw

#: The largest number of a request, as of databases and machine integers.
MAX_INT: Final = (1 << 63) - 1
#: The largest `room` of a `Work`: the most leases of a connection.
MAX_ROOM: Final = 4096
# Larger numbers are refused while decoding. The server's limits may be lower.
Int64: TypeAlias = Annotated[int, Meta(le=MAX_INT)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INT)]
#: `SubmissionOptions.unique_ms`: the period of the server's configuration.
DEFAULT: Final = -1
#: `SubmissionOptions.unique_ms`: a client made the id; it is remembered as without options.
MADE_UP: Final = -2


OPERATION_STATES: Final = ("pending", "completed", "failed", "expired", "cancelled")
#: Orders of `ReadOperations`, by submission.
OPERATION_ORDERS: Final = ("oldest", "newest")


class Request(Struct, array_like=True):
    """A message of a client; `seq` is its count of messages."""

    seq: Count


class Answer(Struct, array_like=True):
    """The server's answer to a request, with its `seq`."""

    seq: int


class CountsAnswer(Answer):
    """For each item of the request, in order, how many operations it ended."""

    counts: list[int]


class DoneAnswer(Answer):
    """For each item of the request, in order, whether it was done."""

    done: list[bool]


class Push(Struct, array_like=True):
    """A message of the server that answers no request."""


class Item(Struct, array_like=True, gc=False):
    """A part of a message."""


#: With what no key of a program begins.
RESERVED: Final = "\0"


def own_key(job_id: str) -> str:
    """Return the only key of a job without `unless`, which no event may have. As long as the id."""
    return RESERVED + job_id[1:]


class SubmissionOptions(Item):
    """Further settings of a submission.

    `unique_ms`: for how long the id is remembered after the end, DEFAULT, or MADE_UP. Of jobs:
    `tags`; `priority`, from -10 to 10; `start_within_ms`; `due_ms`, instead of `timeout_ms`.
    """

    unique_ms: Int64 = DEFAULT
    tags: tuple[str, ...] = ()
    priority: Int64 = 0
    start_within_ms: Int64 | None = None
    due_ms: Int64 | None = None


class Submission(Item):
    """An operation to submit: waits for `need` of its keys, or expires.

    `need` 0: a job, which is leased to a worker when it is due; any of its keys cancels it.
    `options`, of version 3; None: a client made the id for its own retries, and the server does
    not look among remembered ids.
    """

    op_id: str
    keys: tuple[str, ...]
    timeout_ms: Int64
    need: Int64 = 1
    kind: str = ""
    payload: Raw = Raw(NOTHING)
    options: SubmissionOptions | None = None


class Completion(Item):
    """A key to complete, with a value.

    `limit`: for at most so many operations. `hold_ms`: for how long the key also counts for later
    submissions. Both are of version 2.
    """

    key: str
    value: Raw = Raw(NOTHING)
    limit: Int64 | None = None
    hold_ms: Int64 = 0


class TimeoutExtension(Item):
    """An operation to extend: its timeout counts anew from now."""

    op_id: str
    timeout_ms: Int64


class KeyFailure(Item):
    """A key to fail, with the error's type and message."""

    key: str
    error_type: str
    message: str = ""


class Limits(Struct, array_like=True, frozen=True):
    """The limits of a server; see `Config`."""

    message_bytes: int
    keys: int
    text_bytes: int
    payload_bytes: int
    pending_per_client: int
    pending: int
    timeout_ms: int
    held: int = 0  # of version 2
    items: int = 0  # operations, keys, ids or numbers of a request; 0: the server does not say


# Requests.


class Hello(Request, tag=1):
    """Name the client; the first message of each connection.

    `session`, of version 2: a name for the requests with the same count `seq`. `takes`: whether
    the client handles outcomes that no future awaits.
    """

    version: Int64
    client: str
    session: str = ""
    takes: bool = True  # as a client that does not say


class Submit(Request, tag=2):
    """Have operations wait; one with a known id is answered with its state instead."""

    operations: list[Submission]


class Complete(Request, tag=3):
    """Complete keys, for all clients' operations."""

    completions: list[Completion]


class Cancel(Request, tag=4):
    """Cancel operations."""

    op_ids: list[str]


class Query(Request, tag=5):
    """Ask for the state of operations."""

    op_ids: list[str]


class Acknowledge(Request, tag=6):
    """Acknowledge outcomes, by number; `answer`, of version 2: ask for an answer."""

    outcomes: list[Int64]
    answer: bool = False


class Stats(Request, tag=7):
    """Ask for the stats of the server."""


class Bye(Request, tag=8):
    """End the connection; there is no answer."""


class Extend(Request, tag=9):
    """Extend operations."""

    extensions: list[TimeoutExtension]


class Fail(Request, tag=10):
    """Fail keys, for all clients' operations."""

    failures: list[KeyFailure]


class Unread(Request, tag=11):
    """Ask for the client's outcomes beyond number `after`."""

    after: Int64 = 0


class ReadOperations(Request, tag=17):
    """Ask for matching operations in order of submission, beyond number `after`.

    `key`: only those that wait for it. None matches any. `order` "newest": those below `after`,
    and 0 is the end. `with_jobs`: jobs, too.
    """

    after: Int64 = 0
    limit: Int64 = 100
    kind: str | None = None
    key: str | None = None
    client: str | None = None
    state: str | None = None
    order: str = "oldest"
    with_jobs: bool = True


# Jobs: operations submitted with `need` 0. When due, a job is leased to a worker of its client
# name, and not sent as an outcome.


class How(IntEnum):
    """How a worker ends a lease."""

    DONE = 0
    FAILED = 1  # to be tried again, or given up after the last attempt
    RETURNED = 2  # not begun, or not finished; the attempt does not count


class Lease(Item):
    """A lease: the number of a job, and the lease's token."""

    number: Int64
    token: Int64


class LeaseEnd(Lease):
    """The end of a lease. `delay_ms` and `error`: of one that FAILED.

    `result`, of version 3: the handler's result, if DONE.
    """

    how: Int64
    delay_ms: Int64 = 0
    error: str = ""
    result: Raw = Raw(NOTHING)


class Work(Request, tag=12):
    """Have jobs of some kinds leased to this connection, at most `room` at a time.

    Each `Work` replaces the one before. `kinds`: kind -> how many attempts a job has. `detached`:
    leases outlast the connection, and any connection of the client keeps and ends them; `room` is
    how many more jobs are leased. Of version 3: `kind_rooms`, kind -> how many jobs at a time, for
    limited kinds; `begins`, whether the worker sends `Begin`, else an attempt begins with its
    lease.
    """

    kinds: dict[str, Int64]
    room: Int64
    lease_ms: Int64
    detached: bool = False
    kind_rooms: dict[str, Int64] = {}
    begins: bool = False


class Keep(Request, tag=13):
    """Have leases last for another `lease_ms`, from now."""

    leases: list[Lease]


class Finish(Request, tag=14):
    """End leases."""

    ends: list[LeaseEnd]


# Replies.


class Welcome(Answer, tag=32):
    """Answer to `Hello`."""

    version: int
    server: str
    limits: Limits


class Refusal(Item):
    """A refused operation of a `Submit`, by its index; see `Refused` for codes."""

    index: int
    code: str
    message: str


class Known(Item):
    """A known operation of a `Submit`, by its index, and its state."""

    index: int
    state: str


class Submitted(Answer, tag=33):
    """Answer to `Submit`: operations that are not listed are new, and on disk."""

    refused: list[Refusal] = []
    known: list[Known] = []


class Completed(CountsAnswer, tag=34):
    """Answer to `Complete`; the ends of the operations are on disk."""


class Cancelled(DoneAnswer, tag=35):
    """Answer to `Cancel`; False: the operation has ended, or is unknown."""


class OperationStatus(Item):
    """The state of an operation: one of OPERATION_STATES, or unknown.

    Of version 2: `result` and `payload`, see `OutcomeMessage`; `left_out`: how many bytes of them
    were too many for the answer, and are not in it.
    """

    op_id: str
    state: str
    kind: str = ""
    client: str = ""
    keys: list[str] = []
    need: int = 1
    submitted_ms: int = 0
    deadline_ms: int = 0
    at_ms: int | None = None
    by_key: str | None = None
    keys_done: list[str] = []
    result: Value = Raw(NOTHING)
    payload: Value = Raw(NOTHING)
    left_out: int = 0


class States(Answer, tag=36):
    """Answer to `Query`."""

    states: list[OperationStatus]


class StatsReply(Answer, tag=37):
    """Answer to `Stats`: name -> number."""

    stats: dict[str, int | float]


class Failure(Answer, tag=38):
    """Answer to a request that was not done. `seq` is nil if it could not be decoded."""

    seq: int | None  # type: ignore[assignment]
    code: str
    message: str


class Extended(DoneAnswer, tag=39):
    """Answer to `Extend`; False: the operation has ended, or is unknown."""


class Failed(CountsAnswer, tag=40):
    """Answer to `Fail`; the ends of the operations are on disk."""


class Operations(Answer, tag=48):
    """Answer to `ReadOperations`: continue beyond `after`; None: there are no more."""

    states: list[OperationStatus]
    after: int | None


# Messages of the server that answer no request.


class OutcomeMessage(Item):
    """How an operation ended. `number`: its sequence number, for `Acknowledge`.

    `result`: the value of `by_key`; with `need` above 1 a map of key -> value; of a failed
    operation the error's type and message.
    """

    number: int
    op_id: str
    outcome: str
    at_ms: int
    by_key: str | None = None
    result: Value = Raw(NOTHING)
    kind: str = ""
    submitted_ms: int = 0
    deadline_ms: int = 0
    payload: Value = Raw(NOTHING)


class Outcomes(Push, tag=64):
    """Outcomes of the client's operations; sent on each new connection until acknowledged.

    `take`: whether the connection handles outcomes without a waiting future.
    """

    outcomes: list[OutcomeMessage]
    take: bool = True


class UnreadOutcomes(Answer, tag=41):
    """Answer to `Unread`: the first outcomes beyond `after`, in order; none: no more."""

    outcomes: list[OutcomeMessage]


class Acknowledged(Answer, tag=42):
    """Answer to `Acknowledge`, if asked for: how many of the outcomes were unacknowledged."""

    count: int


class Ping(Push, tag=65):
    """No content; a failing send shows the server that the connection has gone."""


class Working(Answer, tag=43):
    """Answer to `Work`."""


class Kept(DoneAnswer, tag=44):
    """Answer to `Keep`; False: the lease has ended.

    `cancelled`, of version 3: indices of leases that last, and whose jobs were cancelled.
    """

    cancelled: list[int] = []


class Finished(DoneAnswer, tag=45):
    """Answer to `Finish`: whether the lease was held until now; the end is on disk."""


class LeasedJob(Item):
    """A leased job. `attempt` counts from 1; `token` grows with each lease of any job.

    `tags` are of version 3.
    """

    number: int
    token: int
    op_id: str
    kind: str
    attempt: int
    submitted_ms: int
    deadline_ms: int
    payload: Value = Raw(NOTHING)
    tags: list[str] = []


class Jobs(Push, tag=66):
    """Jobs leased to this connection from now on, for its `lease_ms`."""

    jobs: list[LeasedJob]
