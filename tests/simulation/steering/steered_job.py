"""SteeredJob: one life of a job id, as the program and the workers of a world know it.

Moments are nanoseconds of the world's clock.
"""

from dataclasses import dataclass, field

from tests.simulation.records import NEVER

#: A moment that never comes.
FOREVER_NS = 1 << 62


@dataclass(slots=True)
class AttemptRecord:
    """An attempt whose handler has begun in a worker."""

    token: int
    number: int
    worker: str
    begun_ns: int
    ended_ns: int = NEVER
    #: Of the lease under which the worker told of its end: the one it began with, or a newer one.
    end_token: int = NEVER
    #: Whether the handler has returned a value.
    is_ok: bool = False
    #: Whether the server took what the worker said of its end; None: nobody knows.
    taken: bool | None = None
    #: The worker has given the handler up, or has died.
    is_lost: bool = False

    @property
    def runs(self) -> bool:
        """Whether the handler runs."""
        return self.ended_ns == NEVER and not self.is_lost


@dataclass(slots=True)
class SteeredJob:
    """What was asked for, and what has come of it."""

    job_id: str
    kind: str
    called_ns: int
    #: It may not begin before; and is ready then, if that is certain, else NEVER.
    due_ns: int
    ready_ns: int
    unique_ns: int
    priority: int = 0
    tag: str = ""
    within_ns: int = NEVER  # not begun later than that after it is due
    least_within_ns: int = NEVER  # and not cancelled for that before
    is_poison: bool = False
    is_answered: bool = False
    #: A call about it was not answered, or has opened what cannot be judged.
    is_unsure: bool = False
    attempts: list[AttemptRecord] = field(default_factory=list)
    #: The token of its first lease.
    first_token: int = NEVER
    #: When a cancellation began that was acknowledged, and when one may have come first.
    cancelled_ns: int = NEVER
    may_be_cancelled_ns: int = FOREVER_NS
    #: What it was told last about when to begin: leases from before may be under way.
    moved_ns: int = NEVER
    #: The state in which it has ended, as the server has said.
    end: str = ""
    ended_by_ns: int = NEVER
    is_revived: bool = False

    @property
    def done(self) -> AttemptRecord | None:
        """The attempt of which the server has taken the result."""
        return next((one for one in self.attempts if one.is_ok and one.taken), None)

    @property
    def waits(self) -> bool:
        """Whether it certainly waits for its first attempt."""
        is_free = self.may_be_cancelled_ns == FOREVER_NS and self.within_ns == NEVER
        is_here = self.is_answered and not (self.is_unsure or self.end)
        return is_here and is_free and not self.attempts

    @property
    def has_begun(self) -> bool:
        """Whether it was certainly begun in time: the server took the end of its first attempt."""
        return any(one.number == 1 and one.taken for one in self.attempts)

    @property
    def earliest_end_ns(self) -> int:
        """When it can have ended at the earliest; FOREVER_NS if nothing can have ended it."""
        ends = [one.ended_ns for one in self.attempts if one.is_ok and one.taken is not False]
        ends.append(self.may_be_cancelled_ns)
        if self.within_ns != NEVER and not self.has_begun:
            ends.append(self.due_ns + self.least_within_ns)
        return min(ends)

    def value(self, attempt: AttemptRecord) -> str:
        """Return what the handler of an attempt returns."""
        return f"{self.job_id}:{attempt.token}"
