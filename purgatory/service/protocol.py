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

# A program's value; a client decodes it in place.
if TYPE_CHECKING:
    Value: TypeAlias = Any
else:
    Value = Raw

#: The largest number, as of databases and machine integers.
MAX_INT: Final = (1 << 63) - 1
#: The largest `room` of a `Work`.
MAX_ROOM: Final = 4096
# Decoders refuse larger numbers.
Int64: TypeAlias = Annotated[int, Meta(le=MAX_INT)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_INT)]
#: `unique_ms`: the period of the server's configuration.
DEFAULT: Final = -1
#: `unique_ms`: a client made the id for its own retries, as without options.
MADE_UP: Final = -2


OPERATION_STATES: Final = ("pending", "completed", "failed", "expired", "cancelled")
#: Orders of `ReadOperations`, by submission.
OPERATION_ORDERS: Final = ("oldest", "newest")


class Request(Struct, array_like=True):
    """A message of a client; `seq` is its count of messages."""

    seq: Count


class Answer(Struct, array_like=True):
    """The answer to the request with the same `seq`."""

    seq: int


class CountsAnswer(Answer):
    """How many operations each item of the request ended."""

    counts: list[int]


class DoneAnswer(Answer):
    """Whether each item of the request was done."""

    done: list[bool]


class Push(Struct, array_like=True):
    """A message of the server that answers no request."""


class Item(Struct, array_like=True, gc=False):
    """A part of a message."""


#: No key of a program begins so.
RESERVED: Final = "\0"


def own_key(job_id: str) -> str:
    """Return the only key of a job without `unless`, as long as the id: no event has it."""
    return RESERVED + job_id[1:]


class SubmissionOptions(Item):
    """Further settings of a submission, all but `unique_ms` of jobs.

    `unique_ms`: for how long the id is remembered after the end, DEFAULT, or MADE_UP. `due_ms`:
    instead of `timeout_ms`.
    """

    unique_ms: Int64 = DEFAULT
    tags: tuple[str, ...] = ()
    priority: Int64 = 0
    start_within_ms: Int64 | None = None
    due_ms: Int64 | None = None


class Submission(Item):
    """An operation to submit: waits for `need` of its keys, or expires.

    `need` 0: a job, leased to a worker when due; any of its keys cancels it. `options`, of version
    3; None: as MADE_UP, and the server does not look among remembered ids.
    """

    op_id: str
    keys: tuple[str, ...]
    timeout_ms: Int64
    need: Int64 = 1
    kind: str = ""
    payload: Raw = Raw(NOTHING)
    options: SubmissionOptions | None = None


class Completion(Item):
    """A key to complete. `limit` and `hold_ms` are of version 2."""

    key: str
    value: Raw = Raw(NOTHING)
    limit: Int64 | None = None
    hold_ms: Int64 = 0


class TimeoutExtension(Item):
    """An operation to extend: its timeout counts anew from now."""

    op_id: str
    timeout_ms: Int64


class KeyFailure(Item):
    """A key to fail."""

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
    items: int = 0  # of a request; 0: the server does not say


# Requests.


class Hello(Request, tag=1):
    """Name the client; the first message of each connection.

    `session`, of version 2: the same over all connections that share the count `seq`. `takes`:
    whether the client handles outcomes that no future awaits.
    """

    version: Int64
    client: str
    session: str = ""
    takes: bool = True  # as a client that does not say


class Submit(Request, tag=2):
    """Have operations wait; one with a known id is answered with its state instead."""

    operations: list[Submission]


class Complete(Request, tag=3):
    """Complete keys."""

    completions: list[Completion]


class Cancel(Request, tag=4):
    """Cancel operations."""

    op_ids: list[str]


class Query(Request, tag=5):
    """Ask for the state of operations."""

    op_ids: list[str]


class Acknowledge(Request, tag=6):
    """Acknowledge outcomes, by number; `answer` is of version 2."""

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
    """Fail keys."""

    failures: list[KeyFailure]


class Unread(Request, tag=11):
    """Ask for the client's outcomes beyond number `after`."""

    after: Int64 = 0


class ReadOperations(Request, tag=17):
    """Ask for matching operations in order of submission, beyond number `after`.

    None matches any. `order` "newest": those below `after`, and 0 is the end. `with_jobs`: jobs,
    too.
    """

    after: Int64 = 0
    limit: Int64 = 100
    kind: str | None = None
    key: str | None = None
    client: str | None = None
    state: str | None = None
    order: str = "oldest"
    with_jobs: bool = True


# Jobs: operations with `need` 0.


class How(IntEnum):
    """How a worker ends a lease."""

    DONE = 0
    FAILED = 1
    RETURNED = 2  # the attempt does not count


class Lease(Item):
    """The lease of the job with a `number`."""

    number: Int64
    token: Int64


class LeaseEnd(Lease):
    """The end of a lease. `delay_ms` and `error`: if FAILED.

    `result`, of version 3: if DONE.
    """

    how: Int64
    delay_ms: Int64 = 0
    error: str = ""
    result: Raw = Raw(NOTHING)


class Work(Request, tag=12):
    """Have jobs of some kinds leased to this connection, at most `room` at a time.

    Each `Work` replaces the one before. `kinds`: kind -> how many attempts a job has. `detached`:
    leases outlast the connection, and any connection of the client keeps and ends them; `room` is
    how many more jobs are leased. Of version 3: `kind_rooms`, of kinds with a limit; `begins`,
    whether the worker sends `Begin`.
    """

    kinds: dict[str, Int64]
    room: Int64
    lease_ms: Int64
    detached: bool = False
    kind_rooms: dict[str, Int64] = {}
    begins: bool = False


class Keep(Request, tag=13):
    """Have leases last for another `lease_ms`."""

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
    """A known operation of a `Submit`, by its index."""

    index: int
    state: str


class Submitted(Answer, tag=33):
    """Answer to `Submit`: operations that are not listed are new, and on disk."""

    refused: list[Refusal] = []
    known: list[Known] = []


class Completed(CountsAnswer, tag=34):
    """Answer to `Complete`."""


class Cancelled(DoneAnswer, tag=35):
    """Answer to `Cancel`; False: the operation has ended, or is unknown."""


class OperationStatus(Item):
    """The state of an operation: one of OPERATION_STATES, or unknown.

    `result` and `payload`: see `OutcomeMessage`. `left_out`: how many bytes of the two did not fit
    into the answer.
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
    """Answer to `Stats`."""

    stats: dict[str, int | float]


class Failure(Answer, tag=38):
    """Answer to a request that was not done. `seq` is None if it could not be decoded."""

    seq: int | None  # type: ignore[assignment]
    code: str
    message: str


class Extended(DoneAnswer, tag=39):
    """Answer to `Extend`; False: as in `Cancelled`."""


class Failed(CountsAnswer, tag=40):
    """Answer to `Fail`."""


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
    """Answer to `Acknowledge`: how many of the outcomes were unacknowledged."""

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
    """Answer to `Finish`: whether the lease was held until now."""


class LeasedJob(Item):
    """A leased job. `tags` are of version 3."""

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
    """Jobs leased to this connection from now on."""

    jobs: list[LeasedJob]
