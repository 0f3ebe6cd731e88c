"""The verbs of the protocol: what belongs to each request, but for `Hello` and `Bye`."""

from typing import Final, NamedTuple

from purgatory.service.job_messages import (
    CancelJobs,
    CancelMatching,
    ChangeRepeat,
    CountedJobs,
    CountJobs,
    EndLease,
    JobPage,
    JobsCancelled,
    JobsRescheduled,
    JobsRetried,
    JobStates,
    KeepLease,
    LeaseKept,
    LeaseTaken,
    Limited,
    LimitSet,
    ListJobs,
    MatchingCancelled,
    Overview,
    ReadJobs,
    ReadLimits,
    ReadOverview,
    ReadRepeats,
    RepeatChanged,
    Repeats,
    RepeatSet,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
    SetRepeat,
    TakeLease,
    WatchJobs,
)
from purgatory.service.protocol import (
    Acknowledge,
    Acknowledged,
    Answer,
    Cancel,
    Cancelled,
    Complete,
    Completed,
    DeadEnded,
    DeadJobs,
    EndDead,
    Extend,
    Extended,
    Fail,
    Failed,
    Finish,
    Finished,
    Keep,
    Kept,
    Operations,
    Query,
    ReadDead,
    ReadOperations,
    Request,
    States,
    Stats,
    StatsReply,
    Submit,
    Submitted,
    Unread,
    UnreadOutcomes,
    Work,
    Working,
)


class Verb(NamedTuple):
    """The answer to a request, and the keys with the right to send the request.

    `right`: the right that a client's key needs. `version`: the first protocol version with the
    request. `is_batch`: one message makes many calls, the items of its only list.
    """

    answer: type[Answer]
    right: str
    version: int = 2
    is_batch: bool = True


#: Every verb of a client, by the type of its request.
VERBS: Final[dict[type[Request], Verb]] = {
    Submit: Verb(Submitted, "submit", version=1),
    Complete: Verb(Completed, "complete", version=1),
    Cancel: Verb(Cancelled, "submit", version=1),
    Query: Verb(States, "read", version=1),
    Acknowledge: Verb(Acknowledged, "submit", is_batch=False),  # in version 1 without an answer
    Stats: Verb(StatsReply, "read", version=1, is_batch=False),
    Extend: Verb(Extended, "submit"),
    Fail: Verb(Failed, "complete"),
    Unread: Verb(UnreadOutcomes, "read", is_batch=False),
    Work: Verb(Working, "work", is_batch=False),
    Keep: Verb(Kept, "work"),
    Finish: Verb(Finished, "work"),
    ReadDead: Verb(DeadJobs, "read", is_batch=False),
    EndDead: Verb(DeadEnded, "work", is_batch=False),
    ReadOperations: Verb(Operations, "read", is_batch=False),
    ReadJobs: Verb(JobStates, "read", version=3),
    WatchJobs: Verb(JobStates, "read", version=3),
    ListJobs: Verb(JobPage, "read", version=3, is_batch=False),
    CountJobs: Verb(CountedJobs, "read", version=3, is_batch=False),
    ReadOverview: Verb(Overview, "read", version=3, is_batch=False),
    CancelJobs: Verb(JobsCancelled, "submit", version=3),
    CancelMatching: Verb(MatchingCancelled, "submit", version=3, is_batch=False),
    RescheduleJobs: Verb(JobsRescheduled, "submit", version=3),
    RetryJobs: Verb(JobsRetried, "work", version=3, is_batch=False),
    SetLimit: Verb(LimitSet, "work", version=3, is_batch=False),
    ReadLimits: Verb(Limited, "read", version=3, is_batch=False),
    SetRepeat: Verb(RepeatSet, "submit", version=3, is_batch=False),
    ChangeRepeat: Verb(RepeatChanged, "submit", version=3, is_batch=False),
    ReadRepeats: Verb(Repeats, "read", version=3, is_batch=False),
    TakeLease: Verb(LeaseTaken, "submit", version=3, is_batch=False),
    KeepLease: Verb(LeaseKept, "submit", version=3, is_batch=False),
    EndLease: Verb(LeaseKept, "submit", version=3, is_batch=False),
}
