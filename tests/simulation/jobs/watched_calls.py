"""WatchedCalls: tells the oracle what a worker and the server say to each other about leases."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from purgatory.service.client.calls import Keeping
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.later_calls import JobCalls
from purgatory.service.client.worker_link import WorkerLink
from purgatory.service.errors import ServiceError, Unavailable
from purgatory.service.protocol import How, Lease, LeasedJob, LeaseEnd


class Owner(Protocol):
    """Whose calls they are: a process of a world; what comes after its end is not told."""

    alive: bool


class LeaseWatcher(Protocol):
    """What is told of leases: the oracle of a world."""

    def leased(self, worker: str, job_id: str, token: int, attempt: int, lease_ns: int) -> None:
        """Note a lease that comes to a worker."""

    def keeps(self, job_id: str, token: int) -> Callable[[bool | None], None]:
        """Note that a worker asks for a lease to be kept; returns what notes the answer."""

    def ends(
        self, worker: str, job_id: str, token: int, how: How, delay_ms: int
    ) -> Callable[[bool | None], None]:
        """Note that a worker ends a lease; returns what notes the answer."""


class WatchedCalls(JobCalls):
    """The `calls` of `worker`, of `owner`, with leases of `lease_ns`."""

    def __init__(
        self, calls: JobCalls, owner: Owner, worker: str, lease_ns: int, oracle: LeaseWatcher
    ) -> None:
        self._calls = calls
        self._owner = owner
        self._worker = worker
        self._lease_ns = lease_ns
        self._oracle = oracle
        self._job_ids: dict[int, str] = {}  # by number

    def ask(self, link: WorkerLink) -> ReplyFuture[None]:
        """See `JobCalls`."""

        def on_jobs(jobs: list[LeasedJob]) -> None:
            for job in jobs:
                self._job_ids[job.number] = job.op_id
                self._oracle.leased(self._worker, job.op_id, job.token, job.attempt, self._lease_ns)
            link.on_jobs(jobs)

        return self._calls.ask(replace(link, on_jobs=on_jobs))

    def keep(self, lease: Lease, reply: ReplyFuture[Keeping] | None = None) -> ReplyFuture[Keeping]:
        """See `JobCalls`."""
        note = self._oracle.keeps(self._job_ids[lease.number], lease.token)
        return self._calls.keep(lease, self._noted(reply, note))

    @property
    def max_result_bytes(self) -> int | None:
        """See `JobCalls`."""
        return self._calls.max_result_bytes

    @property
    def failure(self) -> ServiceError | None:
        """See `JobCalls`."""
        return self._calls.failure

    def begin(self, leases: list[Lease]) -> None:
        """See `JobCalls`."""
        self._calls.begin(leases)

    def finish(self, end: LeaseEnd, reply: ReplyFuture[bool] | None = None) -> ReplyFuture[bool]:
        """See `JobCalls`."""
        job_id = self._job_ids[end.number]
        how = How(end.how)
        note = self._oracle.ends(self._worker, job_id, end.token, how, end.delay_ms)
        return self._calls.finish(end, self._noted(reply, note))

    def _noted(
        self, reply: ReplyFuture[Any] | None, note: Callable[[bool | None], None]
    ) -> ReplyFuture[Any]:
        """Return a reply whose answer is noted before its other callbacks, None for a refusal.

        Nothing is noted once the process is gone.
        """
        reply = ReplyFuture() if reply is None else reply

        def answered(future: Any) -> None:
            error = future.exception()
            if self._owner.alive and not isinstance(error, Unavailable):
                note(future.result() if error is None else None)

        reply._done_callbacks.insert(0, answered)
        return reply
