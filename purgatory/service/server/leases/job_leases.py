"""JobLeases: the due jobs, and the workers with leases.

    due ──> ready ──> leased, and running from the beginning of its handler on ──> done
              ^         │
              ├─ later <┤ failed, or lost: the lease has ended, or the connection
              └─ dead <─┘ after the last attempt, until it is sent again or dropped

An attempt begins with its handler; for a worker that does not report the beginning, with the lease.
If a lease is lost before, the job is ready again, in its place.

The disk has the due job (its outcome), its number of ended attempts, and whether done or dead;
`LeaseEnds` changes the jobs here after the commit. Leases are in memory alone. A lease's token is
above all earlier ones, even of earlier runs: storage that remembers the highest can refuse a worker
that has lost its lease (a fencing token).

Store thread alone; any may read `counts`.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from purgatory.service.job_messages import CancelLeases
from purgatory.service.protocol import Lease
from purgatory.service.server.leases.due_job import ANY_TIME, DueJob
from purgatory.service.server.leases.job_group import JobGroup
from purgatory.service.server.leases.job_times import JobTimes
from purgatory.service.server.leases.lease_times import LeaseTimes
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.limits.kind_limits import KindLimits
from purgatory.service.server.records.job_record import (
    DEAD,
    DONE,
    READY,
    RETRYING,
    RUNNING,
    SCHEDULED,
)

#: Jobs leased at once, at most.
MAX_ASSIGNED: Final = 512
#: After so many losses an attempt begins with the lease: a handler could kill each worker before
#: the server hears of the beginning, for ever.
MAX_LOSSES: Final = 5
#: Why a ready job, of a kind without a limit, has no worker.
NO_WORKER: Final = "no worker of this client for this kind"
BUSY: Final = "the workers are busy"
#: A token is the epoch, about Unix seconds, then in so many bits a count: a million leases a
#: second. It is below 2^53, so exact in JavaScript, until 2242.
COUNT_BITS: Final = 20


class JobCounts(NamedTuple):
    """How many jobs wait, are leased, and are dead."""

    waiting: int
    leased: int
    dead: int


class JobLeases:
    """All due jobs that are not done. `epoch` is above earlier runs'."""

    def __init__(self, epoch: int) -> None:
        self.by_number: dict[int, DueJob] = {}
        self._groups: dict[str, JobGroup] = {}
        self.limits: KindLimits = KindLimits()
        self.times: JobTimes = JobTimes(self.by_number)
        self.lease_times: LeaseTimes = LeaseTimes(self.by_number)
        self._staffed: dict[str, JobGroup] = {}  # groups with workers
        self._last_token = epoch << COUNT_BITS
        self._leased = 0
        self._dead = 0
        #: By route: connections silent since a lease lapsed.
        self.lapsed: dict[bytes, WorkerConnection] = {}
        #: Called after the commit with a job whose `state` or `at_ms` has changed.
        self.on_moved: Callable[[DueJob], None] | None = None
        #: Leases of cancelled or moved jobs, by route and whether to recall them.
        self.untold: dict[tuple[bytes, bool], list[Lease]] = {}
        #: Begun jobs with `start_within`, not yet in the store.
        self.begun: list[DueJob] = []

    @property
    def counts(self) -> JobCounts:
        """Return the numbers of jobs."""
        leased, dead = self._leased, self._dead
        return JobCounts(len(self.by_number) - leased - dead, leased, dead)

    def groups(self, client: str | None = None) -> list[JobGroup]:
        """Return all groups, or a client's; any thread."""
        if client is None:
            return list(self._groups.values())
        group = self._groups.get(client)
        return [] if group is None else [group]

    def _group(self, name: str) -> JobGroup:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = JobGroup(self.limits)
        return group

    def _drop_if_empty(self, name: str) -> None:
        if name in self._groups and self._groups[name].is_empty:
            del self._groups[name]

    def worker(self, route: bytes, client: str) -> WorkerConnection:
        """Return a worker's connection, perhaps new."""
        group = self._staffed[client] = self._group(client)
        worker = group.workers.get(route)
        if worker is None:
            worker = group.workers[route] = WorkerConnection(route)
        return worker

    def drop_worker(self, route: bytes, client: str) -> list[DueJob]:
        """Forget a connection; return its jobs, the last first, to put back."""
        group = self._staffed.get(client)
        worker = None if group is None else group.workers.pop(route, None)
        self.lapsed.pop(route, None)
        if group is None or worker is None:
            return []
        if not group.workers:
            del self._staffed[client]
            self._drop_if_empty(client)
        worker.detached = True  # after a failed commit, its leases end by time
        jobs = [self.by_number[number] for number in worker.held]
        following = next((job for job in jobs if not job.has_begun), None)
        if following is not None:
            following.losses += 1
        jobs.reverse()
        return jobs

    def _move(self, job: DueJob, state: int, at_ms: int = 0) -> None:
        """Change the state of a job: no other code does."""
        job.state = state
        job.at_ms = at_ms
        if self.on_moved is not None:
            self.on_moved(job)

    def add(self, job: DueJob, at_ms: int = 0, now_ms: int = 0) -> None:
        """Let a due job wait, until `at_ms`; if `now_ms` is not before, since then."""
        self.by_number[job.record.seq] = job
        if at_ms <= now_ms:
            self._wait(job, at_ms or job.record.ended_ms)
        else:
            self._wait_until(job, at_ms)
        self.times.watch_start(job)

    def _wait(self, job: DueJob, ready_ms: int, *, first: bool = False) -> None:
        job.ready_ms = ready_ms
        self._group(job.record.client.name).put(job, first=first)
        if job.state != READY:
            self._move(job, READY)

    def _wait_until(self, job: DueJob, at_ms: int) -> None:
        self._move(job, RETRYING if job.attempts else SCHEDULED, at_ms)
        self.times.wait(job)

    def add_dead(self, job: DueJob) -> None:
        """Add a dead job."""
        self.by_number[job.record.seq] = job
        self._bury(job)

    def held(self, client: str, number: int, token: int) -> DueJob | None:
        """Return the job of a lease, unless the lease has ended."""
        job = self.by_number.get(number)
        if job is None or job.holder is None or job.token != token:
            return None
        return job if job.record.client.name == client else None

    def keep(self, client: str, number: int, token: int, now_ms: int) -> DueJob | None:
        """Extend a lease; return its job, None if ended."""
        job = self.held(client, number, token)
        if job is None or job.holder is None:
            return None
        before_ms = job.until_ms
        job.until_ms = now_ms + job.holder.lease_ms
        if job.until_ms < before_ms:  # the worker now asks for shorter leases
            self.lease_times.watch(job)
        return job

    def begin(self, client: str, number: int, token: int, now_ms: int) -> None:
        """Note that a handler has begun, unless its lease has ended."""
        job = self.held(client, number, token)
        if job is not None and not job.has_begun:
            job.losses = 0
            self._begin(job, now_ms)

    def _begin(self, job: DueJob, now_ms: int) -> None:
        job.has_begun = True
        job.begun_ms = now_ms
        if job.start_within_ms != ANY_TIME and not job.attempts:
            self.begun.append(job)
        job.start_within_ms = ANY_TIME
        job.is_recalled = False
        self._move(job, RUNNING)

    def recall(self, job: DueJob) -> None:
        """Ask a worker for a job whose handler has not begun."""
        if not job.is_recalled:
            job.is_recalled = True
            self._tell(job, recall=True)

    def cancel(self, job: DueJob, reason: str) -> None:
        """Make an attempt the last, and tell the worker."""
        job.is_cancelled = True
        job.cancel_reason = reason
        self._tell(job, recall=False)

    def _tell(self, job: DueJob, *, recall: bool) -> None:
        """Tell the worker of a job; see `CancelLeases`."""
        worker = job.holder
        if worker is not None and worker.begins:
            lease = Lease(job.record.seq, job.token)
            self.untold.setdefault((worker.route, recall), []).append(lease)

    def take_notices(self) -> list[tuple[bytes, CancelLeases]]:
        """Return messages about leases, with routes."""
        taken, self.untold = self.untold, {}
        return [(route, CancelLeases(leases, recall)) for (route, recall), leases in taken.items()]

    def hear(self, route: bytes) -> None:
        """Give a lapsed connection jobs again, after its request."""
        worker = self.lapsed.pop(route, None)
        if worker is not None:
            worker.has_lapsed = False
            for kind in worker.held.values():
                self.limits.count(kind, 1)

    def lapse(self, job: DueJob) -> None:
        """Note that a job's lease ended by time.

        Until its next request the worker gets no jobs, and its jobs count for no limit.
        """
        worker = job.holder
        if worker is not None and not worker.detached and not worker.has_lapsed:
            worker.has_lapsed = True
            self.lapsed[worker.route] = worker
            for kind in worker.held.values():
                self.limits.count(kind, -1)

    def why(self, job: DueJob, now_ms: int) -> str:
        """Return why a ready job has no worker; else empty."""
        if not job.is_waiting:
            return ""
        reason = self.limits.blocked(job.kind, now_ms)
        if reason:
            return reason
        workers = self._group(job.record.client.name).workers.values()
        if any(job.kind in one.kinds and one.is_at_work for one in workers):
            return BUSY
        return NO_WORKER

    # Called after the commit.

    def finish(self, job: DueJob, state: int = DONE) -> None:
        """Forget a job that is done, cancelled or dropped."""
        self._release(job)
        del self.by_number[job.record.seq]
        self._drop_if_empty(job.record.client.name)
        self._move(job, state)

    def move(self, job: DueJob, at_ms: int, now_ms: int) -> None:
        """Let a job without a worker be due at `at_ms`, `now_ms` or later."""
        self._release(job)
        job.due_ms = at_ms
        if at_ms > now_ms:
            self._wait_until(job, at_ms)
        else:
            self._wait(job, now_ms)
        self.times.watch_start(job)

    def put_back(self, job: DueJob, *, counts: bool, at_ms: int = 0) -> None:
        """Let a job wait again, until `at_ms`; `counts`: an attempt has ended."""
        if not counts and job.holder is not None:  # the lease made no attempt
            self.limits.give_back(job.kind)
        self._release(job)
        job.attempts += counts
        if at_ms:
            self._wait_until(job, at_ms)
        else:
            self._wait(job, self.lease_times.looked_ms if counts else job.ready_ms, first=True)

    def give_up(self, job: DueJob) -> None:
        """Note that the last attempt has failed."""
        self._release(job)
        job.attempts += 1
        self._bury(job)

    def revive(self, job: DueJob) -> None:
        """Let a dead job wait for its first attempt, at any time."""
        self._release(job)
        job.attempts = 0
        job.start_within_ms = ANY_TIME
        self._wait(job, self.lease_times.looked_ms)

    def _bury(self, job: DueJob) -> None:
        self._dead += 1
        self._move(job, DEAD)

    def _release(self, job: DueJob) -> None:
        number = job.record.seq
        if job.holder is not None:
            # A lapsed worker's held jobs do not count; one from when it was detached does.
            if not job.holder.has_lapsed or number not in job.holder.held:
                self.limits.count(job.kind, -1)
            job.holder.release(number)
            job.holder = None
            job.has_begun = False
            job.is_recalled = False
            self._leased -= 1
        elif job.is_waiting:
            self._group(job.record.client.name).remove(job)
        elif job.state == DEAD:
            self._dead -= 1
        elif job.state in (SCHEDULED, RETRYING):
            self.times.waiting -= 1

    def assign(self, now_ms: int) -> list[tuple[WorkerConnection, DueJob]]:
        """Lease up to MAX_ASSIGNED jobs to workers with room."""
        lease_times = self.lease_times
        lease_times.looked_ms = max(lease_times.looked_ms, now_ms)
        for job in self.times.take_ready(now_ms):
            self._wait(job, job.at_ms)
        given: list[tuple[WorkerConnection, DueJob]] = []
        for name, group in list(self._staffed.items()):
            if group.ready:
                before = len(given)
                given += group.assign(MAX_ASSIGNED - before, now_ms)
                if len(given) > before and self.limits.is_used:  # the groups take turns
                    self._staffed[name] = self._staffed.pop(name)
        for worker, job in given:
            self._lease(worker, job, now_ms)
        return given

    def _lease(self, worker: WorkerConnection, job: DueJob, now_ms: int) -> None:
        self._last_token += 1
        self._leased += 1
        job.token = self._last_token
        job.holder = worker
        job.max_attempts = worker.kinds[job.kind]
        job.until_ms = now_ms + worker.lease_ms
        if not worker.begins or job.losses >= MAX_LOSSES:
            self._begin(job, now_ms)
        self.lease_times.watch(job, self._leased)

    def next_wake_ms(self, now_ms: int) -> int | None:
        """Return when work is due; None: not before a command."""
        if any(group.has_work(now_ms) for group in self._staffed.values()):
            return now_ms
        times: list[int] = []
        if (end_ms := self.lease_times.next_ms()) is not None:
            times.append(end_ms)
        if (next_ms := self.times.next_ms()) is not None:
            times.append(next_ms)
        if self.limits.is_used:
            opens = [group.opens_ms(now_ms) for group in self._staffed.values()]
            times += [at_ms for at_ms in opens if at_ms is not None]
        return min(times) if times else None
