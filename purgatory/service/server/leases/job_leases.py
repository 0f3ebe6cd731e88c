"""JobLeases: the jobs that are due, and which worker has which of them.

    due ──> ready ──> leased, and running from the beginning of its handler on ──> done
              ^         │
              ├─ later <┤ failed, or lost: the lease has ended, or the connection
              └─ dead <─┘ after the last attempt, until it is sent again or dropped

An attempt begins with its handler. If a lease is lost before, none has ended, and the job is ready
again, in its place. A worker that does not tell which handlers have begun begins with the lease.

What is on disk is that a job is due (its outcome), how many attempts have ended, that it is done,
and that it is dead; see `LeaseEnds`, which changes what is here when that is committed. A lease is
in memory alone: a restart ends all of them. A lease has a token, and each token is above all that
were given before, also by earlier runs: so storage that remembers the highest can refuse a worker
that has lost its lease without knowing it (a fencing token).

Used by the store thread alone; `counts` may be read by any.
"""

from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from purgatory.service.server.leases.due_job import (
    ANY_TIME,
    CANCELLED,
    DEAD,
    DONE,
    READY,
    RETRYING,
    RUNNING,
    SCHEDULED,
    DueJob,
    JobObserver,
)
from purgatory.service.server.leases.job_group import JobGroup
from purgatory.service.server.leases.job_times import JobTimes
from purgatory.service.server.leases.lease_notices import LeaseNotices
from purgatory.service.server.leases.worker_connection import WorkerConnection

#: Jobs that are given out after one transaction, at most.
MAX_ASSIGNED: Final = 512
#: A server that looks so much later for the ends of leases than it had planned was absent.
LATE_MS: Final = 200
# A heap may have so many stale entries, and as many as it has others.
_STALE_ENTRIES: Final = 1024
# A token is the epoch of the run and, in so many bits, a count: JSON can hold it for 100 years.
_COUNT_BITS: Final = 22


class JobCounts(NamedTuple):
    """How many jobs wait for a worker or a time, are leased, and are given up."""

    waiting: int
    leased: int
    dead: int


class JobLeases:
    """All jobs that are due and not done. `epoch` is above those of earlier runs."""

    def __init__(self, epoch: int) -> None:
        #: All of them, by number: without any there is nothing to do.
        self.by_number: dict[int, DueJob] = {}
        self._groups: dict[str, JobGroup] = {}
        self.times: JobTimes = JobTimes(self.by_number)
        # A heap: when a lease ends, token, number. An entry is stale if the token is another's.
        self._ends: list[tuple[int, int, int]] = []
        self._staffed: dict[str, JobGroup] = {}  # those that have workers
        self._last_token = epoch << _COUNT_BITS
        self._leased = 0
        self._dead = 0
        self._looked_ms = 0  # when leases were given, or looked at for their ends
        #: By route: connections that have let a lease lapse and sent nothing since.
        self.lapsed: dict[bytes, WorkerConnection] = {}
        #: Hears of every job that moves from one state to another.
        self.observer: JobObserver | None = None
        #: What workers are to be told.
        self.notices: LeaseNotices = LeaseNotices()

    @property
    def counts(self) -> JobCounts:
        """Return how many jobs there are."""
        leased, dead = self._leased, self._dead
        return JobCounts(len(self.by_number) - leased - dead, leased, dead)

    def groups(self) -> list[JobGroup]:
        """Return the groups of this moment; any thread."""
        return list(self._groups.values())

    def _group(self, name: str) -> JobGroup:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = JobGroup()
        return group

    def _drop_if_empty(self, name: str) -> None:
        if name in self._groups and self._groups[name].is_empty:
            del self._groups[name]

    def ask(
        self,
        route: bytes,
        client: str,
        kinds: dict[str, int],
        room: int,
        lease_ms: int,
        *,
        detached: bool = False,
        kind_rooms: dict[str, int] | None = None,
        begins: bool = False,
    ) -> None:
        """Note what a connection asks for; see `WorkerConnection`."""
        group = self._staffed[client] = self._group(client)
        workers = group.workers
        if route not in workers:
            workers[route] = WorkerConnection(route, client)
        workers[route].ask(
            kinds, room, lease_ms, detached=detached, kind_rooms=kind_rooms, begins=begins
        )

    def drop_worker(self, route: bytes, client: str) -> list[DueJob]:
        """Forget a connection that has gone; returns the jobs whose leases end with it.

        The last one first: each that is put back comes before those that wait.
        """
        group = self._staffed.get(client)
        worker = None if group is None else group.workers.pop(route, None)
        self.lapsed.pop(route, None)
        if group is None or worker is None:
            return []
        if not group.workers:
            del self._staffed[client]
            self._drop_if_empty(client)
        return [self.by_number[number] for number in reversed(worker.held)]

    def _move(self, job: DueJob, state: str, at_ms: int = 0) -> None:
        """Have a job be in another state; each change of a state is made here."""
        job.state = state
        job.at_ms = at_ms
        if self.observer is not None:
            self.observer.moved(job)

    def add(self, job: DueJob, at_ms: int = 0) -> None:
        """Have a job that is due wait for a worker, from `at_ms` on."""
        self.by_number[job.record.seq] = job
        if at_ms:
            self._wait_until(job, at_ms)
        else:
            self._wait(job, job.record.ended_ms)
        self.times.watch_start(job)

    def _wait(self, job: DueJob, ready_ms: int, *, first: bool = False) -> None:
        """Have a job wait for a worker."""
        job.ready_ms = ready_ms
        self._group(job.record.client.name).put(job, first=first)
        if job.state != READY:
            self._move(job, READY)

    def _wait_until(self, job: DueJob, at_ms: int) -> None:
        """Have a job wait for a time."""
        self.times.wait(job, at_ms)
        self._move(job, RETRYING if job.attempts else SCHEDULED, at_ms)

    def add_dead(self, job: DueJob) -> None:
        """Add a job that was given up."""
        self.by_number[job.record.seq] = job
        self._bury(job)

    def held(self, client: str, number: int, token: int) -> DueJob | None:
        """Return the job of a lease that lasts; None if it has ended."""
        job = self.by_number.get(number)
        if job is None or job.holder is None or job.token != token:
            return None
        return job if job.record.client.name == client else None

    def keep(self, client: str, number: int, token: int, now_ms: int) -> DueJob | None:
        """Have a lease last as long again, from now; returns its job, None if it has ended."""
        job = self.held(client, number, token)
        if job is None or job.holder is None:
            return None
        job.until_ms = now_ms + job.holder.lease_ms
        return job

    def begin(self, client: str, number: int, token: int, now_ms: int) -> None:
        """Note that the handler of a lease has begun; nothing if the lease has ended."""
        job = self.held(client, number, token)
        if job is not None and not job.has_begun:
            self._begin(job, now_ms)

    def _begin(self, job: DueJob, now_ms: int) -> None:
        job.has_begun = True
        job.begun_ms = now_ms
        job.start_within_ms = ANY_TIME
        job.is_recalled = False
        self._move(job, RUNNING)

    def recall(self, job: DueJob) -> None:
        """Have a worker give a job back, if no handler has begun it."""
        if not job.is_recalled:
            job.is_recalled = True
            self.notices.add(job, recall=True)

    def cancel(self, job: DueJob, reason: str) -> None:
        """Have the attempt that has begun be the last one, and tell the worker."""
        job.is_cancelled = True
        job.cancel_reason = reason
        self.notices.add(job, recall=False)

    def ended(self, now_ms: int, grace_ms: int = 0) -> list[DueJob]:
        """Return the jobs whose leases have ended by time; each once, the caller ends the lease.

        `grace_ms`: leases last so much longer this time, for the server has requests to handle. If
        it has come late, as after a stop of its process, leases last longer by its absence.
        """
        self._add_absence(now_ms)
        now_ms -= grace_ms
        found: list[DueJob] = []
        while self._ends and self._ends[0][0] <= now_ms:
            entry = heappop(self._ends)
            job = self._leased_job(*entry)
            if job is None:
                continue
            if job.until_ms > now_ms:  # it was kept
                heappush(self._ends, (job.until_ms, *entry[1:]))
            else:
                found.append(job)
        return found

    def _add_absence(self, now_ms: int) -> None:
        """Let all leases last longer by the time that the server was absent."""
        absent_ms = now_ms - self._looked_ms
        while self._ends and self._leased_job(*self._ends[0]) is None:
            heappop(self._ends)
        planned_ms = max(self._looked_ms, self._ends[0][0] if self._ends else now_ms)
        self._looked_ms = now_ms
        if now_ms - planned_ms <= LATE_MS:
            return
        leased = {entry[1:]: self._leased_job(*entry) for entry in self._ends}
        self._ends = []
        for (token, number), job in leased.items():
            if job is not None:
                job.until_ms += absent_ms
                self._ends.append((job.until_ms, token, number))
        heapify(self._ends)

    def hear(self, route: bytes) -> None:
        """Give jobs again to a connection that has let a lease lapse: it has sent a request."""
        worker = self.lapsed.pop(route, None)
        if worker is not None:
            worker.has_lapsed = False

    def lapse(self, job: DueJob) -> None:
        """Note that the lease of a job has ended by time: its worker gets none until it speaks."""
        worker = job.holder
        if worker is not None and not worker.detached:
            worker.has_lapsed = True
            self.lapsed[worker.route] = worker

    def watch_again(self, job: DueJob) -> None:
        """Have a lease that `ended` has returned be found by it again."""
        heappush(self._ends, (job.until_ms, job.token, job.record.seq))

    def dead_jobs(self, client: str, after: int, limit: int) -> list[DueJob]:
        """Return up to `limit` jobs of a client that were given up, by number, above `after`."""
        dead = self._groups[client].dead if client in self._groups else {}
        numbers = sorted(number for number in dead if number > after)
        return [dead[number] for number in numbers[:limit]]

    def dead_job(self, client: str, number: int) -> DueJob | None:
        """Return a job of a client that was given up; None if there is none."""
        return self._groups[client].dead.get(number) if client in self._groups else None

    # What follows takes effect when the change is on disk.

    def finish(self, job: DueJob, state: str = DONE) -> None:
        """Forget a job: it is done, or cancelled, or dropped."""
        self._release(job)
        del self.by_number[job.record.seq]
        self._drop_if_empty(job.record.client.name)
        self._move(job, state)

    def withdraw(self, job: DueJob) -> None:
        """Forget a job that no handler runs: it is cancelled. A worker that holds it is told."""
        self.notices.add(job, recall=False)
        self.finish(job, CANCELLED)

    def move(self, job: DueJob, at_ms: int, now_ms: int) -> None:
        """Have a job that no handler runs be due at `at_ms`; 0: now."""
        self.notices.add(job, recall=True)
        self._release(job)
        job.due_ms = at_ms or now_ms
        if at_ms > now_ms:
            self._wait_until(job, at_ms)
        else:
            self._wait(job, now_ms)
        self.times.watch_start(job)

    def put_back(self, job: DueJob, *, counts: bool, at_ms: int = 0) -> None:
        """Have a job wait again, from `at_ms` on; `counts`: an attempt has ended."""
        self._release(job)
        job.attempts += counts
        if at_ms:
            self._wait_until(job, at_ms)
        else:
            self._wait(job, self._looked_ms if counts else job.ready_ms, first=True)

    def give_up(self, job: DueJob) -> None:
        """Note that the last attempt has ended."""
        self._release(job)
        job.attempts += 1
        self._bury(job)

    def revive(self, job: DueJob) -> None:
        """Have a job that was given up wait for its first attempt, at any time."""
        self._release(job)
        job.attempts = 0
        job.start_within_ms = ANY_TIME
        self._wait(job, self._looked_ms)

    def _bury(self, job: DueJob) -> None:
        self._dead += 1
        self._group(job.record.client.name).dead[job.record.seq] = job
        self._move(job, DEAD)

    def _release(self, job: DueJob) -> None:
        """Take a job from its worker, or from where it waits, or from the dead."""
        number = job.record.seq
        if job.holder is not None:
            job.holder.release(number)
            job.holder = None
            job.has_begun = False
            job.is_recalled = False
            self._leased -= 1
        elif job.is_waiting:
            self._group(job.record.client.name).remove(job)
        elif job.state == DEAD:
            self._dead -= 1
            del self._group(job.record.client.name).dead[number]
        elif job.state in (SCHEDULED, RETRYING):
            self.times.waiting -= 1

    def assign(self, now_ms: int) -> list[tuple[WorkerConnection, DueJob]]:
        """Lease jobs to workers that have room, up to MAX_ASSIGNED; returns which to which."""
        self._looked_ms = max(self._looked_ms, now_ms)
        for job in self.times.take_ready(now_ms):
            self._wait(job, job.at_ms)
        given: list[tuple[WorkerConnection, DueJob]] = []
        for group in self._staffed.values():
            if group.ready:
                given += group.assign(MAX_ASSIGNED - len(given), now_ms)
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
        if not worker.begins:
            self._begin(job, now_ms)
        heappush(self._ends, (job.until_ms, job.token, job.record.seq))
        if len(self._ends) > 2 * self._leased + _STALE_ENTRIES:
            self._ends = [entry for entry in self._ends if self._leased_job(*entry) is not None]
            heapify(self._ends)

    def _leased_job(self, _: int, token: int, number: int) -> DueJob | None:
        """Return the job of an entry of `_ends`; None if it is stale."""
        job = self.by_number.get(number)
        return job if job is not None and job.holder is not None and job.token == token else None

    def next_wake_ms(self, now_ms: int) -> int | None:
        """Return when there is something to do; None: not before a command."""
        if any(group.has_work for group in self._staffed.values()):
            return now_ms
        while self._ends and self._leased_job(*self._ends[0]) is None:
            heappop(self._ends)
        times = [self._ends[0][0]] if self._ends else []
        if (next_ms := self.times.next_ms()) is not None:
            times.append(next_ms)
        return min(times) if times else None
