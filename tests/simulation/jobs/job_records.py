"""Records of jobs: what was scheduled in a world, to which workers it was leased, and what came."""

from dataclasses import dataclass, field

from purgatory.service.protocol import How
from tests.simulation.records import NEVER, CallRecord


@dataclass(slots=True)
class LeaseRecord:
    """A lease, as its worker knows it; moments of the world's clock."""

    token: int
    attempt: int
    worker: str
    lease_ns: int
    given_ns: int
    #: When the server had it last for sure: it came, or was asked to be kept, and was.
    kept_ns: int
    begun_ns: int = NEVER
    #: What the worker has said last, and whether the server took it; None: it has not answered.
    how: How | None = None
    taken: bool | None = None
    #: When the job may be tried again, if the attempt has failed: at the earliest.
    retry_ns: int = NEVER


@dataclass(slots=True)
class JobRecord(CallRecord):
    """A job; its scheduling is the call."""

    job_id: str = ""
    kind: str = ""
    delay_ns: int = 0
    #: Its handler always raises.
    is_poison: bool = False
    #: How long its handler runs; 0: as chance has it.
    handler_ns: int = 0
    #: Calls that end it before a handler begins: it is cancelled, or its key is completed.
    ends: list[CallRecord] = field(default_factory=list)
    #: Calls that have it tried again, or forgotten, when it is dead.
    revivals: list[CallRecord] = field(default_factory=list)
    drops: list[CallRecord] = field(default_factory=list)
    leases: dict[int, LeaseRecord] = field(default_factory=dict)  # by token
    #: How often a handler has returned without an error.
    returns: int = 0
    #: The token under which a worker was told that the end is on disk.
    done_token: int = NEVER

    @property
    def last_token(self) -> int:
        """The highest token that a worker was given so far."""
        return max(self.leases, default=NEVER)

    @property
    def is_ended(self) -> bool:
        """Whether the server has said that it ended before a handler began."""
        return any(call.answer for call in self.ends)

    def had_ended(self, by_ns: int) -> bool:
        """Whether the server had said so by a time."""
        return any(call.answer and call.replied_ns <= by_ns for call in self.ends)

    @property
    def may_be_over(self) -> bool:
        """Whether a call or a worker may have ended it without being told so."""
        calls = [*self.ends, *self.drops]
        if any(call.answer or not (call.is_answered or call.refused) for call in calls):
            return True
        return any(lease.how is How.DONE and lease.taken is None for lease in self.leases.values())
