"""The health of a server: whether it works and is ready, and the last failures.

*Works*: its threads live and no transaction is stuck; else restart the process. *Ready*: also,
commits succeed and return, and outcomes are soon delivered. Any thread.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from purgatory.service.encoding import unpack
from purgatory.service.errors import ServiceError
from purgatory.service.server.store_activity import NS_PER_S, StoreActivity

#: Beyond it, a commit that runs or a due outcome makes a server unready.
READY_BOUND_S: Final = 5.0
#: A longer transaction, commit included, is stuck. A wait for an absent database has no such bound:
#: a restart would not bring the database back.
STUCK_S: Final = 60.0
#: `next_due_s` if nothing waits: statistics are numbers.
NEVER: Final = -1.0
_MS_PER_S: Final = 1000
#: Kept failures, and characters of an error.
KEPT: Final = 10
ERROR_LENGTH: Final = 200


@dataclass(frozen=True, slots=True)
class HealthReport:
    """The health of a server at one moment.

    `broken`: why it does not work; else empty.
    `not_ready`: why it is not ready; else empty.
    `last_commit_age_s`: seconds since a commit succeeded.
    `oldest_due_age_s`: how late the oldest due outcome not on disk is.
    `failing_s`: how long all commits have failed; 0 after a success.
    `next_due_s`: seconds until work may be due; NEVER if nothing waits.
    """

    broken: str
    not_ready: str
    last_commit_age_s: float
    oldest_due_age_s: float
    failing_s: float
    next_due_s: float = NEVER


def report_health(
    activity: StoreActivity, ended: str, now_ms: int, waits_for: str = ""
) -> HealthReport:
    """Judge by `activity` at the server's `now_ms`.

    `ended`: the thread that has ended, or empty. `waits_for`: see `Store.waits_for`.
    """
    late_s, next_due_s = 0.0, NEVER
    if deadline_ms := activity.deadline_ms:
        left_s = (deadline_ms - now_ms) / _MS_PER_S
        late_s, next_due_s = max(0.0, -left_s), max(0.0, left_s)
    failing_s = _seconds_since(activity.failing_since_ns, activity)
    broken = ended or ("" if waits_for else _stuck(activity))
    return HealthReport(
        broken=broken,
        not_ready=(
            broken
            or _silence(activity, waits_for)
            or _disk_trouble(activity, failing_s)
            or _lateness(late_s)
        ),
        last_commit_age_s=_seconds_since(activity.committed_ns, activity),
        oldest_due_age_s=late_s,
        failing_s=failing_s,
        next_due_s=next_due_s,
    )


def _stuck(activity: StoreActivity) -> str:
    seconds = _seconds_since(activity.step_since_ns, activity)
    return f"a transaction has not ended for {seconds:.0f} s" if seconds > STUCK_S else ""


def _silence(activity: StoreActivity, waits_for: str) -> str:
    seconds = _seconds_since(activity.step_since_ns, activity)
    if not waits_for or seconds <= READY_BOUND_S:
        return ""
    return f"a transaction has waited {seconds:.0f} s for the database {waits_for}"


def _disk_trouble(activity: StoreActivity, failing_s: float) -> str:
    seconds = _seconds_since(activity.commit_since_ns, activity)
    if seconds > READY_BOUND_S:
        return f"a commit has not returned for {seconds:.0f} s: the disk hangs"
    if activity.failing_since_ns:
        count = activity.failures_in_a_row
        return f"commits have failed for {failing_s:.0f} s, {count} in a row: {activity.error}"
    return ""


def _seconds_since(moment_ns: int, activity: StoreActivity) -> float:
    return max(0, activity.now_ns() - moment_ns) / NS_PER_S if moment_ns else 0.0


def _lateness(late_s: float) -> str:
    if late_s <= READY_BOUND_S:
        return ""
    return f"the oldest due outcome is {late_s:.0f} s late; expected at most {READY_BOUND_S:g} s"


class RecentFailure(NamedTuple):
    """A failure. `attempt`: of a job, dead if it was the last; 0: of an operation."""

    at_ms: int
    op_id: str
    kind: str
    client: str
    error: str
    attempt: int = 0
    is_dead: bool = False


class RecentFailures:
    """The last KEPT failures. The store thread adds, any thread reads."""

    def __init__(self) -> None:
        self._rows: deque[RecentFailure] = deque(maxlen=KEPT)

    def add(self, failure: RecentFailure) -> None:
        """Add a failure."""
        self._rows.append(failure._replace(error=failure.error[:ERROR_LENGTH]))

    def latest(self) -> list[RecentFailure]:
        """Return the failures, the latest first."""
        return list(reversed(self._rows.copy()))


def failure_text(error: bytes) -> str:
    """Return type and message of a failed key, as a text."""
    try:
        return ": ".join(str(part) for part in unpack(error)[:2] if part)
    except (ServiceError, TypeError, KeyError):  # of a client of another kind
        return ""
