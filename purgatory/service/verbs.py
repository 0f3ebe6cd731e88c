"""The verbs of the protocol: each request but `Hello` and `Bye`."""

from typing import Final, NamedTuple

from purgatory.service import job_messages as jobs
from purgatory.service import protocol


class Verb(NamedTuple):
    """The answer to a request, and the needs of a sender.

    `right`: of the client's key. `version`: the first of the protocol. `is_batch`: the items of the
    request's only list are separate calls.
    """

    answer: type[protocol.Answer]
    right: str
    version: int = 2
    is_batch: bool = True


#: By the type of the request.
VERBS: Final[dict[type[protocol.Request], Verb]] = {
    protocol.Submit: Verb(protocol.Submitted, "submit", version=1),
    protocol.Complete: Verb(protocol.Completed, "complete", version=1),
    protocol.Cancel: Verb(protocol.Cancelled, "submit", version=1),
    protocol.Query: Verb(protocol.States, "read", version=1),
    # In version 1 without an answer.
    protocol.Acknowledge: Verb(protocol.Acknowledged, "submit", is_batch=False),
    protocol.Stats: Verb(protocol.StatsReply, "read", version=1, is_batch=False),
    protocol.Extend: Verb(protocol.Extended, "submit"),
    protocol.Fail: Verb(protocol.Failed, "complete"),
    protocol.Unread: Verb(protocol.UnreadOutcomes, "read", is_batch=False),
    protocol.Work: Verb(protocol.Working, "work", is_batch=False),
    protocol.Keep: Verb(protocol.Kept, "work"),
    protocol.Finish: Verb(protocol.Finished, "work"),
    protocol.ReadOperations: Verb(protocol.Operations, "read", is_batch=False),
    jobs.ReadJobs: Verb(jobs.JobStates, "read", version=3),
    jobs.WatchJobs: Verb(jobs.JobStates, "read", version=3),
    jobs.ListJobs: Verb(jobs.JobPage, "read", version=3, is_batch=False),
    jobs.CountJobs: Verb(jobs.CountedJobs, "read", version=3, is_batch=False),
    jobs.ReadOverview: Verb(jobs.Overview, "read", version=3, is_batch=False),
    jobs.CancelJobs: Verb(jobs.JobsCancelled, "submit", version=3),
    jobs.CancelMatching: Verb(jobs.MatchingCancelled, "submit", version=3, is_batch=False),
    jobs.RescheduleJobs: Verb(jobs.JobsRescheduled, "submit", version=3),
    jobs.RetryJobs: Verb(jobs.JobsRetried, "work", version=3, is_batch=False),
    jobs.SetLimit: Verb(jobs.LimitSet, "work", version=3, is_batch=False),
    jobs.ReadLimits: Verb(jobs.Limited, "read", version=3, is_batch=False),
    jobs.SetRepeat: Verb(jobs.RepeatSet, "submit", version=3, is_batch=False),
    jobs.ChangeRepeat: Verb(jobs.RepeatChanged, "submit", version=3, is_batch=False),
    jobs.ReadRepeats: Verb(jobs.Repeats, "read", version=3, is_batch=False),
    jobs.TakeLease: Verb(jobs.LeaseTaken, "submit", version=3, is_batch=False),
    jobs.KeepLease: Verb(jobs.LeaseKept, "submit", version=3, is_batch=False),
    jobs.EndLease: Verb(jobs.LeaseKept, "submit", version=3, is_batch=False),
}
