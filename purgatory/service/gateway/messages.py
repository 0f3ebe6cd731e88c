"""The JSON bodies of the API; the OpenAPI document has these types and docstrings.

Times are seconds, moments Unix milliseconds (`_ms`). Values and payloads are any JSON.

Past 400 lines: the list of all bodies.
"""

import base64
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct

from purgatory.service.encoding import pack

Report = TypeVar("Report", bound=Struct)
#: Seconds, or a text with units.
Duration = (
    Annotated[float, Meta(ge=0, description="seconds")]
    | Annotated[str, Meta(description="as 500ms, 30m, 1h30m, PT30M", max_length=64)]
)
Text = Annotated[str, Meta(min_length=1, max_length=1024)]
Name = Annotated[str, Meta(max_length=1024)]
PageLimit = Annotated[int, Meta(ge=1, le=500, description="so many at most")]
JobState = Literal["scheduled", "ready", "running", "retrying", "done", "dead", "cancelled"]
Moment = Annotated[datetime, Meta(tz=True, description="as 2027-03-01T09:00:00+01:00")]


class OperationRequest(Struct, forbid_unknown_fields=True):
    """An operation to submit: waits for `need` of its keys, or expires.

    With the `op_id` of a known operation the request changes nothing: it can be sent again. The
    server remembers an `op_id` for `unique_for` after the end (default: its configuration's time).
    """

    keys: Annotated[list[Text], Meta(min_length=1, max_length=100)]
    timeout: Duration = 30.0
    need: Annotated[int, Meta(ge=1, le=100)] = 1
    kind: Name = ""
    op_id: Text | None = None
    unique_for: Duration | None = None
    payload: Any = None


class JobRequest(Struct, forbid_unknown_fields=True):
    """A job for the workers of the token's client: a worker runs the job, at least once.

    It is due in `delay`, or `at` a moment; one is required. `kind` chooses the worker's handler.
    For `job_id` and `unique_for` see `OperationRequest`. An event of any key of `unless` cancels
    the job, unless it runs or has ended. Of a kind, jobs of a higher `priority` come first. A job
    that has not begun `start_within` after it was due is cancelled.
    """

    delay: Duration | None = None
    at: Moment | None = None
    kind: Name = ""
    payload: Any = None
    job_id: Text | None = None
    tags: Annotated[list[Text], Meta(max_length=100)] = []
    unless: Annotated[list[Text], Meta(max_length=100)] = []
    unique_for: Duration | None = None
    priority: Annotated[int, Meta(ge=-10, le=10)] = 0
    start_within: Duration | None = None


class JobReceipt(Struct):
    """A job that is on disk; `is_new` is false if the server had a job of that id already."""

    job_id: str
    is_new: bool


class RescheduleRequest(Struct, forbid_unknown_fields=True):
    """A new time of a job: in `delay` from now, or `at` a moment; one is required."""

    delay: Duration | None = None
    at: Moment | None = None


class JobReport(Struct):
    """A job: `state` is scheduled, ready, running, retrying, done, dead or cancelled.

    `due_ms`: of the job or, while retrying, of the next attempt. `began_ms`: of the latest attempt
    since the server's start. `attempts`: how many run or have ended. `error`: of the last failed
    attempt, until the job is done or moved; or why the job was cancelled. `why`: why a ready job
    does not run. `left_out`: how many bytes of result and payload a list leaves out: both are null
    there.
    """

    job_id: str
    state: str
    kind: str
    client: str
    tags: list[str]
    unless: list[str]
    priority: int
    submitted_ms: int
    due_ms: int
    began_ms: int | None
    ended_ms: int | None
    attempts: int
    max_attempts: int | None
    error: str
    worker: str
    why: str
    result: Any
    payload: Any
    left_out: int


class AttemptReport(Struct):
    """An attempt of a job; `ended_ms` is null while it runs, `error` empty unless it failed."""

    number: int
    began_ms: int
    ended_ms: int | None
    worker: str
    error: str


class JobDetails(JobReport):
    """A job, with its last 20 attempts; after a retry, `number` counts anew."""

    history: list[AttemptReport]


class JobList(Struct):
    """A page of jobs; `cursor` asks for the next. Null: no more."""

    jobs: list[JobReport]
    cursor: str | None


class RepeatRequest(Struct, forbid_unknown_fields=True):
    """Jobs by the calendar, `cron` in the zone `tz`, or at intervals, `every`. One is required.

    `cron` has minute, hour, day, month and weekday. The same name again replaces the settings, and
    keeps the rhythm if these three are the same. `overlap` skip: no job begins while one of the
    name is ready, running or retrying. `missed`: the jobs for times that passed while no server
    ran, or during a pause: one, none, or all in turn. Each job is later by a part of `jitter`.
    """

    cron: Annotated[str, Meta(max_length=1000)] | None = None
    every: Duration | None = None
    tz: Annotated[str, Meta(max_length=256)] = "UTC"
    kind: Name = ""
    payload: Any = None
    overlap: Literal["skip", "allow"] = "skip"
    missed: Literal["one", "none", "all"] = "one"
    jitter: Duration = 0.0


class RepeatReport(Struct):
    """A repeat of a client: `every` and `jitter` are seconds.

    `next_ms`: when the next job is due; null while paused. `last_ms`: when the last was. `skipped`:
    how many times had no job because of `overlap`.
    """

    name: str
    client: str
    cron: str | None
    every: float | None
    tz: str
    kind: str
    payload: Any
    overlap: str
    missed: str
    jitter: float
    paused: bool
    next_ms: int | None
    last_ms: int | None
    skipped: int


class RepeatList(Struct):
    """A page of repeats; see `JobList`."""

    repeats: list[RepeatReport]
    cursor: str | None


class BatchRequest(Struct, forbid_unknown_fields=True):
    """Operations to submit, each by itself: some may be refused."""

    operations: Annotated[list[OperationRequest], Meta(max_length=512)]


class BatchItems(Struct, forbid_unknown_fields=True):
    """A `BatchRequest` with undecoded items: a bad item is refused by itself."""

    described_as: ClassVar[type[Struct]] = BatchRequest

    operations: Annotated[list[Raw], Meta(max_length=512)]


class Receipt(Struct):
    """An operation on disk: `pending`, or the outcome of a known operation."""

    op_id: str
    state: str


class Problem(Struct):
    """Why a request was refused: `code` for programs, `message` for people."""

    code: str
    message: str


class BatchResult(Struct):
    """The receipt of an operation of a batch, or the problem."""

    receipt: Receipt | None = None
    problem: Problem | None = None


class BatchReply(Struct):
    """A result for each operation, in order."""

    results: list[BatchResult]


class ExtensionRequest(Struct, forbid_unknown_fields=True):
    """A new timeout, which counts from now."""

    timeout: Duration


class OperationReport(Struct):
    """An operation: `state` is pending, completed, failed, expired or cancelled.

    `result` is the value of `by_key` or, with `need` above 1, an object of keys and values; if it
    failed, the error's type and message. `left_out`: as of a job.
    """

    op_id: str
    state: str
    kind: str
    client: str
    keys: list[str]
    need: int
    submitted_ms: int
    deadline_ms: int
    at_ms: int | None
    by_key: str | None
    keys_done: list[str]
    result: Any
    payload: Any
    left_out: int


class OperationList(Struct):
    """A page of operations in order of submission; see `JobList`."""

    operations: list[OperationReport]
    cursor: int | None


class AccessReport(Struct):
    """The client and the rights of a token; `sees_all`: also the jobs of other clients."""

    client: str
    rights: list[str]
    sees_all: bool


class DeadSelection(Struct, forbid_unknown_fields=True):
    """The dead jobs that match; without a field, all."""

    kind: Name | None = None
    tag: Name | None = None
    client: Name | None = None


class JobSelection(DeadSelection):
    """The matching jobs; at least one of the fields is required."""

    state: JobState | None = None


class KindCount(Struct):
    """How many jobs of a kind are in each state; states without a job are left out.

    `is_stuck`: no worker takes the ready jobs soon; only without a filter.
    """

    kind: str
    states: dict[str, int]
    is_stuck: bool = False


class JobCountReport(Struct):
    """How many jobs are in each state, and by kind: the busiest, and `others` together.

    Only without a filter: kinds in trouble come first; `operations` by state, where ended
    operations count until the server forgets them; `troubles` of the server and its jobs, in
    sentences, the worst first.
    """

    states: dict[str, int]
    kinds: list[KindCount]
    others: dict[str, int]
    operations: dict[str, int] = {}
    troubles: list[str] = []


class LimitReport(Struct):
    """The limits of a kind, for all workers; null: no limit."""

    kind: str
    paused: bool
    running: int | None
    per_second: float | None


class LimitList(Struct):
    """The paused and the limited kinds."""

    limits: list[LimitReport]


class LimitRequest(Struct, forbid_unknown_fields=True):
    """A change of a kind's limits: null leaves a limit as before; 0 removes it.

    At least one of `paused`, `running` and `per_second` is required.
    """

    kind: Name
    paused: bool | None = None
    running: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    per_second: Annotated[float, Meta(ge=0, le=1e6)] | None = None


class Done(Struct):
    """Whether the request did something."""

    done: bool


class ErrorDetail(Struct, forbid_unknown_fields=True):
    """The error with which a key fails."""

    type: Text
    message: Annotated[str, Meta(max_length=1024)] = ""


class KeyChange(Struct, forbid_unknown_fields=True):
    """Completes a key with `value`, or fails the key with `error`.

    For completions only: `limit`: for at most so many operations, the longest waiting first.
    `hold`: for so long the event also counts for later operations.
    """

    value: Any = None
    limit: Annotated[int, Meta(ge=1, le=2**63 - 1)] | None = None
    hold: Duration = 0.0
    error: ErrorDetail | None = None


class Count(Struct):
    """How many were affected."""

    count: int


class OutcomeReport(Struct):
    """How an operation ended; `number` acknowledges it. For `result` see `OperationReport`."""

    number: int
    op_id: str
    outcome: str
    at_ms: int
    by_key: str | None
    kind: str
    submitted_ms: int
    deadline_ms: int
    result: Any
    payload: Any


class OutcomeList(Struct):
    """Outcomes in order; empty: no more."""

    outcomes: list[OutcomeReport]


class Acknowledgement(Struct, forbid_unknown_fields=True):
    """Numbers of outcomes to acknowledge."""

    numbers: Annotated[list[Annotated[int, Meta(ge=1, le=2**63 - 1)]], Meta(max_length=512)]


#: See `LeasedJobReport`.
LeaseName = Annotated[str, Meta(pattern=r"^[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,9}$")]
_Leases = Annotated[list[LeaseName], Meta(max_length=512)]
# With a text, as programs that make clients want a schema of each item.
_Result = Annotated[Any, Meta(description="what the job returns")]


class TakeRequest(Struct, forbid_unknown_fields=True):
    """Ask for up to `limit` due jobs of some kinds.

    If no job is due, the gateway answers with the first jobs, or after `wait` (the gateway has a
    limit). After `max_attempts` failures a job is dead.
    """

    kinds: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    limit: Annotated[int, Meta(ge=1, le=512)] = 1
    lease: Duration = 60.0
    wait: Duration = 20.0
    max_attempts: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 5


class LeasedJobReport(Struct):
    """A job leased to the caller: no other worker gets the job until `lease` ends.

    `attempt` counts from 1. `token` grows with each lease of any job: storage that keeps the
    highest token of a job can refuse a worker whose lease has ended. `traceparent`: the trace of
    the scheduling.
    """

    lease: str
    token: int
    job_id: str
    kind: str
    attempt: int
    submitted_ms: int
    due_ms: int
    payload: Any
    traceparent: str | None


class LeasedJobs(Struct):
    """Leased jobs; empty: no job came in time."""

    jobs: list[LeasedJobReport]


class LeaseList(Struct, forbid_unknown_fields=True):
    """Leases to keep."""

    leases: _Leases


class DoneJobs(Struct, forbid_unknown_fields=True):
    """Leases of done jobs. `results`: of the jobs, in the same order."""

    leases: _Leases
    results: Annotated[list[_Result], Meta(max_length=512)] = []


class ReturnRequest(Struct, forbid_unknown_fields=True):
    """Leases to give back.

    With an `error` an attempt has failed: the job is tried again in `delay` (default: longer with
    each attempt), or is dead. Without, another worker gets the job at once, and no attempt counts.
    """

    leases: _Leases
    error: ErrorDetail | None = None
    delay: Duration | None = None


class KeptLeases(Struct):
    """For each lease, in order: whether the lease lasts, and whether its job was cancelled.

    A cancelled job gets no other attempt: it ends as done if acknowledged, else as cancelled.
    """

    held: list[bool]
    cancelled: list[bool]


class LeaseResults(Struct):
    """For each lease, in order, whether it was held; else the job is done or another worker's."""

    held: list[bool]


def as_json(value: Any) -> Raw:
    """Return a value as JSON; bytes, or a value without a form in JSON, as base64.

    The latter: of its MessagePack, as for a map with lists as keys, or for the `msgspec.Raw` of a
    value that Python cannot hold.
    """
    try:
        # `encode` would copy a Raw, a value that Python cannot hold, into the JSON.
        return Raw(msgspec.json.encode(bytes(value) if isinstance(value, Raw) else value))
    except (TypeError, ValueError, RecursionError):
        return Raw(msgspec.json.encode(base64.b64encode(pack(value)).decode("ascii")))


def report(kind: type[Report], message: Any, **more: Any) -> Report:
    """Return a message of the server as a report, and `more` fields."""
    names = [name for name in kind.__struct_fields__ if name not in more]
    fields = {name: getattr(message, name) for name in names}
    for name in fields.keys() & {"result", "payload"}:
        fields[name] = as_json(fields[name])
    if "history" in fields:
        fields["history"] = [report(AttemptReport, each) for each in fields["history"]]
    return kind(**fields, **more)
