"""Books: what was asked for, what was acknowledged and what came of it; and whether that agrees.

Any thread writes; one reads when the load has ended. All times are those of `clock`.
"""

import itertools
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.drill.clock import now
from tests.drill.job_entry import JobEntry, Moment, Violation

#: Seconds by which two processes' clocks may differ: both count whole milliseconds.
ROUNDING = 0.002


class Seen(NamedTuple):
    """An outcome of an operation that some client received."""

    number: int
    outcome: str
    at_ms: int


@dataclass
class Operation:
    """An operation of the load. Times are None as long as something has not happened."""

    op_id: str
    called_at: float
    timeout: float
    acked_at: float | None = None
    seen: set[Seen] = field(default_factory=set)
    seen_at: float | None = None
    result: object = None
    #: The value of the one event that was sent for it, and the answer: a count.
    event: object = None
    event_count: int | None = None
    cancelled: bool | None = None
    extended: bool | None = None
    extended_at: float = 0.0
    extended_by: float = 0.0

    @property
    def earliest_end(self) -> float | None:
        """Before when it may not expire; None: that is not known, for an extension is in doubt."""
        if self.extended_at == 0.0 or self.extended is False:
            return self.called_at + self.timeout
        if self.extended is None:
            return None
        return self.extended_at + self.extended_by


class Held(NamedTuple):
    """A named lease that a program had, and until when it could believe so."""

    name: str
    token: int
    began_at: float
    ended_at: float


KINDS = ("lost", "twice", "contradicted", "early", "overlap", "token", "stale")


class Books:
    """Everything that a drill has seen."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.operations: dict[str, Operation] = {}
        self.jobs: dict[str, JobEntry] = {}
        self.held: list[Held] = []
        self.violations: list[Violation] = []
        #: When requests were acknowledged: called at, answered at.
        self.acks: list[tuple[float, float]] = []
        self.reads = 0
        #: What happened to the servers and the database.
        self.moments: list[Moment] = [Moment(now(), "the drill begins")]

    def note(self, kind: str, text: str) -> None:
        """Note a violation that was seen at once."""
        assert kind in KINDS, kind
        with self._lock:
            self.violations.append(Violation(kind, text))

    def outcome(self, op_id: str, seen: Seen, at: float, result: object = None) -> None:
        """Note an outcome that a client received; it may come more than once."""
        with self._lock:
            operation = self.operations.get(op_id)
            if operation is not None:
                operation.seen.add(seen)
                operation.seen_at = min(operation.seen_at or at, at)
                operation.result = result

    def check(self) -> list[Violation]:
        """Check all; returns what was not kept."""
        for operation in self.operations.values():
            self._check_operation(operation)
        for job in self.jobs.values():
            self._check_job(job)
        self._check_leases()
        return self.violations

    def _check_operation(self, one: Operation) -> None:
        if len(one.seen) > 1:
            self.note("twice", f"{one.op_id}: {sorted(one.seen)}")
        if not one.seen:
            if one.acked_at is not None:
                self.note("lost", f"{one.op_id} was acknowledged and never ended")
            return
        (seen, *_) = one.seen
        if one.event_count and (seen.outcome, one.result) != ("completed", one.event):
            self.note("contradicted", f"{one.op_id}: an event has ended it, and it {seen.outcome}")
        if one.event_count == 0 and one.result == one.event and seen.outcome == "completed":
            self.note("contradicted", f"{one.op_id}: an event ended it, and was answered with 0")
        if one.cancelled and seen.outcome != "cancelled":
            self.note("contradicted", f"{one.op_id} was cancelled, and it {seen.outcome}")
        self._check_early(one, seen)

    def _check_early(self, one: Operation, seen: Seen) -> None:
        earliest = one.earliest_end
        if seen.outcome != "expired" or earliest is None or one.seen_at is None:
            return
        if one.seen_at < earliest - ROUNDING:
            self.note("early", f"{one.op_id} expired {earliest - one.seen_at:.3f} s early")

    def _check_job(self, job: JobEntry) -> None:
        for violation in job.broken():
            self.note(violation.kind, f"{violation.text}\n{self.history_of(job)}")

    def history_of(self, job: JobEntry) -> str:
        """Tell what happened to a job, a line each, in seconds since the drill began."""
        moments = job.history(self.moments)
        return "\n".join(f"{at - self.moments[0].at:14.3f} {text}" for at, text in moments)

    @property
    def overtaken(self) -> list[JobEntry]:
        """The jobs that are done with the result of another handler than the last."""
        return [job for job in self.jobs.values() if job.was_overtaken]

    def _check_leases(self) -> None:
        by_name: defaultdict[str, list[Held]] = defaultdict(list)
        for held in self.held:
            by_name[held.name].append(held)
        for name, leases in by_name.items():
            leases.sort(key=lambda held: held.began_at)
            for first, second in itertools.pairwise(leases):
                if second.began_at < first.ended_at:
                    gap = first.ended_at - second.began_at
                    self.note("overlap", f"lease {name}: {first} and {second}, {gap:.3f} s")
                if second.token <= first.token:
                    self.note("token", f"lease {name}: {second.token} after {first.token}")

    def first_ack_after(self, moment: float) -> float | None:
        """Return when a request that was sent after a moment was first acknowledged."""
        acks = [answered for called, answered in list(self.acks) if called >= moment]
        return min(acks, default=None)

    def longest_gap_after(self, moment: float) -> float:
        """Return the longest time without an acknowledgement after a moment, seconds."""
        answered = sorted(each for _, each in list(self.acks) if each >= moment)
        return max((b - a for a, b in itertools.pairwise([moment, *answered])), default=0.0)

    def summary(self) -> dict[str, int]:
        """Return how much there is of each."""
        operations = self.operations.values()
        return {
            "operations": len(operations),
            "acknowledged": sum(one.acked_at is not None for one in operations),
            "completed": sum(any(s.outcome == "completed" for s in one.seen) for one in operations),
            "expired": sum(any(s.outcome == "expired" for s in one.seen) for one in operations),
            "jobs": sum(job.acked_at is not None for job in self.jobs.values()),
            "job_runs": sum(len(job.runs) for job in self.jobs.values()),
            "went_on": sum(job.went_on for job in self.jobs.values()),
            "overtaken": len(self.overtaken),
            "leases": len(self.held),
            "reads": self.reads,
        }
