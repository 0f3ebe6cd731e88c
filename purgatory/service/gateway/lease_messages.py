"""What `/v1/leases` takes and returns, as JSON; see `messages`."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from purgatory.service.gateway.messages import Duration, ErrorDetail

_Kind = Annotated[str, Meta(max_length=1024)]
#: A lease, as a `LeasedJobReport` names it.
LeaseName = Annotated[str, Meta(pattern=r"^[0-9]{1,18}\.[0-9]{1,18}\.[0-9]{1,9}$")]
_Leases = Annotated[list[LeaseName], Meta(max_length=512)]


class TakeRequest(Struct, forbid_unknown_fields=True):
    """Ask for up to `limit` jobs of some kinds that are due.

    If there is none, the answer comes when there is, or after `wait`, of which the gateway has a
    longest. Each job is leased for `lease`. After `max_attempts` that failed it is dead.
    """

    kinds: Annotated[list[_Kind], Meta(min_length=1, max_length=100)]
    limit: Annotated[int, Meta(ge=1, le=512)] = 1
    lease: Duration = 60.0
    wait: Duration = 20.0
    max_attempts: Annotated[int, Meta(ge=1, le=2**31 - 1)] = 5


class LeasedJobReport(Struct):
    """A job that is leased to the caller: no other worker gets it until `lease` has ended.

    `attempt` counts from 1. `token` grows with each lease of any job: storage that keeps the
    highest that it has seen of a job can refuse one whose lease has ended. `traceparent`: of the
    trace in which the job was scheduled.
    """

    lease: str
    token: int
    op_id: str
    kind: str
    attempt: int
    submitted_ms: int
    due_ms: int
    payload: Any
    traceparent: str | None


class LeasedJobs(Struct):
    """Jobs that are leased; none: there was none in time."""

    jobs: list[LeasedJobReport]


class LeaseList(Struct, forbid_unknown_fields=True):
    """Leases to keep, or to end."""

    leases: _Leases


class ReturnRequest(Struct, forbid_unknown_fields=True):
    """Leases to give back.

    With an `error` an attempt has failed: the job is tried again in `delay` (not given: ever longer
    with each attempt), or is dead. Without, the job is another's at once, and nothing counts.
    """

    leases: _Leases
    error: ErrorDetail | None = None
    delay: Duration | None = None


class LeaseResults(Struct):
    """For each lease, in order, whether it was held; if not, the job is another's, or done."""

    held: list[bool]
