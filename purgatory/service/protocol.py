"""The protocol: the messages between clients and servers; docs/protocol.md specifies it.

A message is one ZeroMQ frame of MessagePack: an array that begins with the message's type, then
the request's `seq` (the client's count, echoed by the answer), then the rest. Later versions may
add to the end of an array; readers ignore elements that they do not know. All times are whole
milliseconds, moments in Unix time. Values and payloads are MessagePack that the server stores and
passes on without looking inside.

Names of classes and fields are not sent. Immutable values and functions; any thread may use them.
"""

from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Raw, Struct

VERSION: Final = 2
#: The oldest version that clients and servers of this one understand.
OLDEST_VERSION: Final = 1

#: MessagePack's nil: no value, no payload.
NOTHING: Final = b"\xc0"

# A program's value: the server does not look inside, and a client decodes it in its place before it
# hands the message on.
if TYPE_CHECKING:
    Value: TypeAlias = Any
else:
    Value = Raw


class Submission(Struct, array_like=True, gc=False):
    """An operation to submit: waits for `need` of its keys, or expires.

    `need` 0: a job, which is leased to a worker when it expires; any of its keys completes it.
    """

    op_id: str
    keys: tuple[str, ...]
    timeout_ms: int
    need: int = 1
    kind: str = ""
    payload: Raw = Raw(NOTHING)


class Completion(Struct, array_like=True, gc=False):
    """A key to complete, with a value.

    `limit`: for at most so many operations. `hold_ms`: for how long it also counts for operations
    that are submitted later. Both are of version 2.
    """

    key: str
    value: Raw = Raw(NOTHING)
    limit: int | None = None
    hold_ms: int = 0


class TimeoutExtension(Struct, array_like=True, gc=False):
    """An operation to extend: its timeout counts anew from now."""

    op_id: str
    timeout_ms: int


class KeyFailure(Struct, array_like=True, gc=False):
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


class Hello(Struct, array_like=True, tag=1):
    """Name the client; the first message of each connection.

    `session`, of version 2: a name for the requests that have the same count `seq`. `takes`:
    whether it handles outcomes that no future of it waits for.
    """

    seq: int
    version: int
    client: str
    session: str = ""
    takes: bool = True  # as a client that does not say


class Submit(Struct, array_like=True, tag=2):
    """Have operations wait; one with a known id is answered with its state instead."""

    seq: int
    operations: list[Submission]


class Complete(Struct, array_like=True, tag=3):
    """Complete keys, for all clients' operations."""

    seq: int
    completions: list[Completion]


class Cancel(Struct, array_like=True, tag=4):
    """Cancel operations."""

    seq: int
    op_ids: list[str]


class Query(Struct, array_like=True, tag=5):
    """Ask for the state of operations."""

    seq: int
    op_ids: list[str]


class Acknowledge(Struct, array_like=True, tag=6):
    """Acknowledge outcomes, by number: they are not sent again.

    There is no answer unless `answer`, of version 2, asks for one.
    """

    seq: int
    outcomes: list[int]
    answer: bool = False


class Stats(Struct, array_like=True, tag=7):
    """Ask for the server's figures."""

    seq: int


class Bye(Struct, array_like=True, tag=8):
    """End the connection; there is no answer."""

    seq: int


class Extend(Struct, array_like=True, tag=9):
    """Extend operations. Of version 2."""

    seq: int
    extensions: list[TimeoutExtension]


class Fail(Struct, array_like=True, tag=10):
    """Fail keys, for all clients' operations. Of version 2."""

    seq: int
    failures: list[KeyFailure]


class Unread(Struct, array_like=True, tag=11):
    """Ask for the client's outcomes beyond number `after`; takes none away. Of version 2."""

    seq: int
    after: int = 0


class ReadOperations(Struct, array_like=True, tag=17):
    """Ask for operations in order of submission, beyond number `after`: those that match.

    `key`: only those that wait for it. A None matches any.
    """

    seq: int
    after: int = 0
    limit: int = 100
    kind: str | None = None
    key: str | None = None
    client: str | None = None
    state: str | None = None


# Jobs: operations that were submitted with `need` 0. When one expires, its outcome is not sent to
# its client but leased to a worker of that name.


class How(IntEnum):
    """How a worker ends a lease."""

    DONE = 0
    FAILED = 1  # to be tried again, or given up after the last attempt
    RETURNED = 2  # not begun, or not finished; the attempt does not count


class Lease(Struct, array_like=True, gc=False):
    """A lease: the number of a job, and the token with which it was given."""

    number: int
    token: int


class LeaseEnd(Struct, array_like=True, gc=False):
    """The end of a lease. `delay_ms` and `error`: of one that FAILED."""

    number: int
    token: int
    how: int
    delay_ms: int = 0
    error: str = ""


class Work(Struct, array_like=True, tag=12):
    """Have jobs of some kinds leased to this connection, at most `room` at a time.

    `kinds`: kind -> how many attempts a job has. Each `Work` replaces the one before. `detached`:
    leases last for their time, also when this connection has ended; any connection of the client
    keeps and ends them; and `room` is how many more jobs are leased, whatever became of others.
    """

    seq: int
    kinds: dict[str, int]
    room: int
    lease_ms: int
    detached: bool = False


class Keep(Struct, array_like=True, tag=13):
    """Have leases last for another `lease_ms`, from now."""

    seq: int
    leases: list[Lease]


class Finish(Struct, array_like=True, tag=14):
    """End leases."""

    seq: int
    ends: list[LeaseEnd]


class ReadDead(Struct, array_like=True, tag=15):
    """Ask for the client's jobs that were given up, beyond number `after`."""

    seq: int
    after: int = 0


class EndDead(Struct, array_like=True, tag=16):
    """Have jobs that were given up tried again, from the first attempt; `drop`: forget them."""

    seq: int
    numbers: list[int]
    drop: bool = False


Request = (
    Hello
    | Submit
    | Complete
    | Cancel
    | Query
    | Acknowledge
    | Stats
    | Bye
    | Extend
    | Fail
    | Unread
    | Work
    | Keep
    | Finish
    | ReadDead
    | EndDead
    | ReadOperations
)

# Replies.


class Welcome(Struct, array_like=True, tag=32):
    """Answer to `Hello`."""

    seq: int
    version: int
    server: str
    limits: Limits


class Refusal(Struct, array_like=True):
    """A refused operation of a `Submit`, by its index; see `Refused` for codes."""

    index: int
    code: str
    message: str


class Known(Struct, array_like=True):
    """A known operation of a `Submit`, by its index, and its state."""

    index: int
    state: str


class Submitted(Struct, array_like=True, tag=33):
    """Answer to `Submit`: all operations that are not listed are new, and on disk."""

    seq: int
    refused: list[Refusal] = []
    known: list[Known] = []


class Completed(Struct, array_like=True, tag=34):
    """Answer to `Complete`: how many operations each key completed; that is on disk."""

    seq: int
    counts: list[int]


class Cancelled(Struct, array_like=True, tag=35):
    """Answer to `Cancel`: for each whether this cancelled it; False if ended or unknown."""

    seq: int
    done: list[bool]


class OperationStatus(Struct, array_like=True):
    """The state of an operation: pending, completed, failed, expired, cancelled or unknown.

    `result` and `payload`: see `OutcomeMessage`. `left_out`: so many bytes of them would have made
    the answer too large, and are not in it. These three are of version 2.
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


class States(Struct, array_like=True, tag=36):
    """Answer to `Query`."""

    seq: int
    states: list[OperationStatus]


class StatsReply(Struct, array_like=True, tag=37):
    """Answer to `Stats`: name -> number."""

    seq: int
    figures: dict[str, int | float]


class Failure(Struct, array_like=True, tag=38):
    """Answer to any request: it was not done. `seq` is nil if it could not be decoded."""

    seq: int | None
    code: str
    message: str


class Extended(Struct, array_like=True, tag=39):
    """Answer to `Extend`: for each whether it was extended; False if ended or unknown."""

    seq: int
    done: list[bool]


class Failed(Struct, array_like=True, tag=40):
    """Answer to `Fail`: how many operations each key ended; that is on disk."""

    seq: int
    counts: list[int]


class Operations(Struct, array_like=True, tag=48):
    """Answer to `ReadOperations`: to go on, ask beyond `after`; None: there are no more."""

    seq: int
    states: list[OperationStatus]
    after: int | None


# Messages of the server that answer no request.


class OutcomeMessage(Struct, array_like=True, gc=False):
    """How an operation ended. `number` is its sequence number, which `Acknowledge` names.

    `result` is the value of `by_key` or, with `need` above 1, a map of key -> value; if it failed,
    the error's type and message. A client's program gets it and `payload` decoded.
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


class Outcomes(Struct, array_like=True, tag=64):
    """Outcomes of the client's operations; sent on each new connection until acknowledged.

    `take`: whether the connection is the one that handles those that no future waits for.
    """

    outcomes: list[OutcomeMessage]
    take: bool = True


class UnreadOutcomes(Struct, array_like=True, tag=41):
    """Answer to `Unread`: the first ones beyond `after`, in order; none: there are no more."""

    seq: int
    outcomes: list[OutcomeMessage]


class Acknowledged(Struct, array_like=True, tag=42):
    """Answer to `Acknowledge`, if asked for: how many of the outcomes were unread."""

    seq: int
    count: int


class Ping(Struct, array_like=True, tag=65):
    """No content; a failing send shows the server that the connection has gone."""


class Working(Struct, array_like=True, tag=43):
    """Answer to `Work`."""

    seq: int


class Kept(Struct, array_like=True, tag=44):
    """Answer to `Keep`: for each whether it is held; False: it has ended, and is another's now."""

    seq: int
    done: list[bool]


class Finished(Struct, array_like=True, tag=45):
    """Answer to `Finish`: for each whether it was held until now; that is on disk."""

    seq: int
    done: list[bool]


class DeadJob(Struct, array_like=True, gc=False):
    """A job that was given up, with the error of its last attempt."""

    number: int
    op_id: str
    kind: str
    attempts: int
    at_ms: int
    error: str = ""
    submitted_ms: int = 0
    deadline_ms: int = 0
    payload: Value = Raw(NOTHING)


class DeadJobs(Struct, array_like=True, tag=46):
    """Answer to `ReadDead`: the first ones, in order of their numbers; none: there are no more."""

    seq: int
    jobs: list[DeadJob]


class DeadEnded(Struct, array_like=True, tag=47):
    """Answer to `EndDead`: for each whether it was there; that is on disk."""

    seq: int
    done: list[bool]


class LeasedJob(Struct, array_like=True, gc=False):
    """A job that is leased. `attempt` counts from 1; `token` grows with each lease of any job."""

    number: int
    token: int
    op_id: str
    kind: str
    attempt: int
    submitted_ms: int
    deadline_ms: int
    payload: Value = Raw(NOTHING)


class Jobs(Struct, array_like=True, tag=66):
    """Jobs that are leased to this connection from now on, for the `lease_ms` that it asked for."""

    jobs: list[LeasedJob]


Answer = (
    Welcome
    | Submitted
    | Completed
    | Cancelled
    | States
    | StatsReply
    | Failure
    | Outcomes
    | Ping
    | Extended
    | Failed
    | UnreadOutcomes
    | Acknowledged
    | Working
    | Kept
    | Finished
    | DeadJobs
    | DeadEnded
    | Jobs
    | Operations
)
