"""The messages of protocol 3 about jobs, limits of kinds, repeats and named leases.

See `protocol`. Any thread may use these. Past 400 lines: the list of all messages about jobs.
"""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, TypeAlias

from msgspec import Meta, Raw

from purgatory.service.protocol import (
    NOTHING,
    Answer,
    Count,
    DoneAnswer,
    Int64,
    Item,
    Lease,
    Push,
    Request,
    Value,
)

#: See the states of jobs in docs/protocol.md.
JOB_STATES: Final = ("scheduled", "ready", "running", "retrying", "done", "dead", "cancelled")
ENDED_STATES: Final = ("done", "dead", "cancelled")
#: Of `ListJobs`: by due time, or the latest submission first.
ORDERS: Final = ("due", "newest")
PRIORITIES: Final = range(-10, 11)
#: So many kinds have figures of their own, in answers and metrics; the rest is OTHER.
MOST_KINDS: Final = 100
OTHER: Final = "other"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

#: The beginning of `JobStatus.error`; then the key.
CANCELLED_BY_KEY: Final = "cancelled by key "

# The end of a page: the value of its order, and the job's number.
Cursor: TypeAlias = tuple[Int64, Int64]
# The end of a page: client and name.
RepeatCursor: TypeAlias = tuple[str, str]
#: See `Client.repeat`.
OVERLAPS: Final = ("skip", "allow")
MISSED: Final = ("one", "none", "all")
CHANGES: Final = ("pause", "resume", "delete", "run")


class JobAttempt(Item):
    """An attempt of a job; `ended_ms` None: it runs.

    `number` counts from 1, again after a retry of a dead job. `worker`: the connection of its
    handler. `error`: why it failed, if so.
    """

    number: int
    began_ms: int
    ended_ms: int | None
    worker: str
    error: str

    @property
    def began(self) -> datetime:
        """When it began."""
        return moment_of(self.began_ms)

    @property
    def ended(self) -> datetime | None:
        """When it ended; None: it runs."""
        return None if self.ended_ms is None else moment_of(self.ended_ms)

    @property
    def seconds(self) -> float | None:
        """How long it took; None: it runs."""
        return None if self.ended_ms is None else (self.ended_ms - self.began_ms) / 1000


class JobStatus(Item):
    """The status of a job; `state` is one of JOB_STATES, or unknown.

    `number` grows with each submission. Moments are Unix milliseconds: `due_ms` of the job, or of
    its next attempt; `began_ms` of its latest attempt since the server's start. `attempts` counts
    running and ended attempts. `error`: of the last failed attempt, until the job is done or moved;
    or the reason for the cancellation. `worker`: the connection that runs the job. `why`: why a
    ready job does not run. `left_out`: see `OperationStatus`. `history`: the last attempts, up to
    20; lists leave them out.
    """

    job_id: str
    state: str
    number: int = 0
    kind: str = ""
    client: str = ""
    tags: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    priority: int = 0
    submitted_ms: int = 0
    due_ms: int = 0
    began_ms: int | None = None
    ended_ms: int | None = None
    attempts: int = 0
    max_attempts: int | None = None
    error: str = ""
    worker: str = ""
    why: str = ""
    payload: Value = Raw(NOTHING)
    result: Value = Raw(NOTHING)
    left_out: int = 0
    history: tuple[JobAttempt, ...] = ()

    @property
    def id(self) -> str:
        """The job's id."""
        return self.job_id

    @property
    def submitted(self) -> datetime:
        """When the server took the job."""
        return moment_of(self.submitted_ms)

    @property
    def due(self) -> datetime:
        """When the job or, while it is retrying, its next attempt is due."""
        return moment_of(self.due_ms)

    @property
    def began(self) -> datetime | None:
        """When the latest attempt since the server's start began."""
        return None if self.began_ms is None else moment_of(self.began_ms)

    @property
    def ended(self) -> datetime | None:
        """When the job ended, if so."""
        return None if self.ended_ms is None else moment_of(self.ended_ms)


def moment_of(ms: int) -> datetime:
    """Return Unix milliseconds as a datetime in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


class JobFilter(Item):
    """Select jobs by their fields; None matches any value."""

    kind: str | None = None
    state: str | None = None
    tag: str | None = None
    client: str | None = None


class KindOverview(Item):
    """The jobs of a kind: `counts` by state, in the order of JOB_STATES.

    `oldest_ready_ms`: the wait of the oldest ready job, or 0. `workers`: connections that take the
    kind.
    """

    kind: str
    counts: tuple[int, ...]
    oldest_ready_ms: int = 0
    workers: int = 0
    paused: bool = False

    def count(self, state: str) -> int:
        """Return how many jobs are in a state."""
        return self.counts[JOB_STATES.index(state)]


class KindLimit(Item):
    """The limits of a kind, for all workers; None: no limit."""

    kind: str
    paused: bool = False
    running: Int64 | None = None
    per_second: float | None = None


class Repeat(Item):
    """A repeat: jobs by the calendar `cron`, or each `every_ms`; exactly one is given."""

    name: str
    cron: str | None = None
    every_ms: Int64 | None = None
    tz: str = "UTC"
    kind: str = ""
    payload: Value = Raw(NOTHING)
    overlap: str = "skip"
    missed: str = "one"
    jitter_ms: Int64 = 0


class RepeatState(Item):
    """A repeat at the server; moments are Unix milliseconds.

    `next_ms`: when its next job is due; `last_ms`: when its last was. `skipped` counts times
    without a job, because of `overlap`.
    """

    repeat: Repeat
    client: str
    paused: bool = False
    next_ms: int | None = None
    last_ms: int | None = None
    skipped: int = 0


# Requests.


class ReadJobs(Request, tag=80):
    """Ask for the state of jobs."""

    job_ids: list[str]


class WatchJobs(Request, tag=81):
    """Like `ReadJobs`, and ask for `JobEnds` of the pending ones while connected.

    `stop`: for no `JobEnds` any more.
    """

    job_ids: list[str]
    stop: bool = False


class ListJobs(Request, tag=82):
    """Ask for a page of jobs; `after`: the end of the previous page."""

    wanted: JobFilter
    order: str = "due"
    limit: Count = 100
    after: Cursor | None = None


class CountJobs(Request, tag=83):
    """Count the jobs that match, by kind and state."""

    wanted: JobFilter | None = None


class ReadOverview(Request, tag=97):
    """Ask for an overview by kind and state; `client`: of that client alone."""

    client: str | None = None


class CancelJobs(Request, tag=84):
    """Cancel jobs."""

    job_ids: list[str]


class CancelMatching(Request, tag=85):
    """Cancel all jobs that match now; at least one filter is required."""

    wanted: JobFilter


class Reschedule(Item):
    """A new time of a job: `delay_ms` from now, or at `due_ms`."""

    job_id: str
    delay_ms: Int64 | None = None
    due_ms: Int64 | None = None


class RescheduleJobs(Request, tag=86):
    """Move scheduled, ready or retrying jobs to another time."""

    moves: list[Reschedule]


class RetryJobs(Request, tag=87):
    """Have dead jobs tried again, from the first attempt; `drop`: forget them."""

    job_ids: list[str]
    drop: bool = False


class Begin(Request, tag=88):
    """Tell the server which handlers have begun; without an answer.

    A `Finish` implies it.
    """

    leases: list[Lease]


class SetLimit(Request, tag=89):
    """Change the limits of a kind; None: unchanged, 0: no limit any more."""

    kind: str
    paused: bool | None = None
    running: Count | None = None
    per_second: Annotated[float, Meta(ge=0)] | None = None


class ReadLimits(Request, tag=90):
    """Ask for the limits of all limited kinds."""


class SetRepeat(Request, tag=91):
    """Declare a repeat, or replace its settings."""

    repeat: Repeat


class ChangeRepeat(Request, tag=92):
    """Pause, resume, delete or run a repeat of `client`; None: of the sender."""

    name: str
    change: str
    client: str | None = None


class ReadRepeats(Request, tag=93):
    """Ask for the repeats beyond `after`, in order of clients and names."""

    after: RepeatCursor | None = None
    limit: Count = 100
    client: str | None = None
    name: str | None = None


class TakeLease(Request, tag=94):
    """Take a named lease for `keep_ms`, or wait in its queue for at most `wait_ms`.

    `holder`: an id from the caller. The same request again keeps the place in the queue, or has the
    lease's time count anew.
    """

    name: str
    holder: str
    keep_ms: Int64
    wait_ms: Int64


class KeepLease(Request, tag=95):
    """Have a named lease last for `keep_ms` from now."""

    name: str
    holder: str
    keep_ms: Int64


class EndLease(Request, tag=96):
    """End a named lease, or leave its queue."""

    name: str
    holder: str


# Answers.


class JobStates(Answer, tag=112):
    """Answer to `ReadJobs` and to `WatchJobs`."""

    jobs: list[JobStatus]


class JobPage(Answer, tag=113):
    """Answer to `ListJobs`: continue beyond `after`; None: there are no more."""

    jobs: list[JobStatus]
    after: Cursor | None


class CountedJobs(Answer, tag=114):
    """Answer to `CountJobs`: kind, state, and how many."""

    counts: list[tuple[str, str, int]]


class Overview(Answer, tag=126):
    """Answer to `ReadOverview`: the 100 busiest kinds, then "other"; operations by state.

    Jobs are no operations here. Ended operations count until the server forgets them.
    `commit_error`: why commits fail now, or empty.
    """

    kinds: list[KindOverview]
    operations: dict[str, int]
    commit_error: str = ""


class JobsCancelled(DoneAnswer, tag=115):
    """Answer to `CancelJobs`; True: the job ends cancelled, or done if its handler succeeds."""


class MatchingCancelled(Answer, tag=116):
    """Answer to `CancelMatching`."""

    count: int


class JobsRescheduled(DoneAnswer, tag=117):
    """Answer to `RescheduleJobs`; False: the job is running or dead, has ended, or is unknown."""


class JobsRetried(DoneAnswer, tag=118):
    """Answer to `RetryJobs`; False: there is no such dead job."""


class LimitSet(Answer, tag=119):
    """Answer to `SetLimit`."""


class Limited(Answer, tag=120):
    """Answer to `ReadLimits`."""

    limits: list[KindLimit]


class RepeatSet(Answer, tag=121):
    """Answer to `SetRepeat`."""

    state: RepeatState


class RepeatChanged(Answer, tag=122):
    """Answer to `ChangeRepeat`: whether it was done, and the repeat now, if any.

    Not done: the repeat is unknown, or `overlap` forbids the run.
    """

    done: bool
    state: RepeatState | None


class Repeats(Answer, tag=123):
    """Answer to `ReadRepeats`; see `JobPage`."""

    repeats: list[RepeatState]
    after: RepeatCursor | None


class LeaseTaken(Answer, tag=124):
    """Answer to `TakeLease`, at once; `token` None: wait for `LeaseReady`."""

    token: int | None


class LeaseKept(Answer, tag=125):
    """Answer to `KeepLease` and `EndLease`; False: the holder no longer has the lease."""

    done: bool


# Messages of the server that answer no request.


class JobEnds(Push, tag=67):
    """Watched jobs have ended."""

    jobs: list[JobStatus]


class CancelLeases(Push, tag=68):
    """Tell a worker about cancelled jobs, to give back those not begun.

    `recall`: handlers that have begun continue.
    """

    leases: list[Lease]
    recall: bool = False


class LeaseReady(Push, tag=69):
    """Tell a waiting program to ask for a named lease again."""

    name: str
    holder: str
