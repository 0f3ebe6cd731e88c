"""JobLeases: the jobs that are due, and which worker has which of them.

    due ──> ready ──> leased ──> done
              ^         │
              ├─ later <┤ failed, or lost: the lease has ended, or the connection
              └─ dead <─┘ after the last attempt, until it is sent again or dropped

What is on disk is that a job is due (its outcome), how many attempts have ended, that it is done,
and that it is dead; see `LeaseEnds`, which changes what is here when that is committed. A lease is
in memory alone: a restart ends all of them. A lease has a token, and each token is above all that
were given before, also by earlier runs: so storage that remembers the highest can refuse a worker
that has lost its lease without knowing it (a fencing token).

Used by the store thread alone; `counts` may be read by any.
"""

from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from purgatory.service.server.leases.job_group import DueJob, JobGroup, WorkerConnection

#: Jobs that are given out after one transaction, at most.
MAX_ASSIGNED: Final = 512
#: A server that looks so much later for the ends of leases than it had planned was absent.
LATE_MS: Final = 200
# The heap of ends may have so many stale entries, and as many as there are leases.
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
        self._later: list[tuple[int, int]] = []  # a heap: when, and number of a job
        # A heap: when a lease ends, token, number. An entry is stale if the token is another's.
        self._ends: list[tuple[int, int, int]] = []
        self._staffed: dict[str, JobGroup] = {}  # those that have workers
        self._last_token = epoch << _COUNT_BITS
        self._leased = 0
        self._dead = 0
        self._looked_ms = 0  # when leases were given, or looked at for their ends
        #: By route: connections that have let a lease lapse and sent nothing since.
        self.lapsed: dict[bytes, WorkerConnection] = {}

    @property
    def counts(self) -> JobCounts:
        """Return how many jobs there are."""
        leased, dead = self._leased, self._dead
        return JobCounts(len(self.by_number) - leased - dead, leased, dead)

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
    ) -> None:
        """Note what a connection asks for."""
        group = self._staffed[client] = self._group(client)
        workers = group.workers
        if route not in workers:
            workers[route] = WorkerConnection(route, client)
        workers[route].ask(kinds, room, lease_ms, detached=detached)

    def drop_worker(self, route: bytes, client: str) -> list[DueJob]:
        """Forget a connection that has gone; returns the jobs whose leases end with it."""
        group = self._staffed.get(client)
        worker = None if group is None else group.workers.pop(route, None)
        self.lapsed.pop(route, None)
        if group is None or worker is None:
            return []
        if not group.workers:
            del self._staffed[client]
            self._drop_if_empty(client)
        return [self.by_number[number] for number in worker.held]

    def add(self, job: DueJob, at_ms: int = 0) -> None:
        """Have a job that is due wait for a worker, from `at_ms` on."""
        self.by_number[job.record.seq] = job
        if at_ms:
            heappush(self._later, (at_ms, job.record.seq))
        else:
            self._group(job.record.client.name).put(job)

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

    def keep(self, client: str, number: int, token: int, now_ms: int) -> bool:
        """Have a lease last as long again, from now; False if it has ended."""
        job = self.held(client, number, token)
        if job is None or job.holder is None:
            return False
        job.until_ms = now_ms + job.holder.lease_ms
        return True

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

    def finish(self, job: DueJob) -> None:
        """Forget a job: it is done, or dropped."""
        self._release(job)
        del self.by_number[job.record.seq]
        self._drop_if_empty(job.record.client.name)

    def put_back(self, job: DueJob, *, counts: bool, at_ms: int = 0) -> None:
        """Have a job wait again, from `at_ms` on; `counts`: an attempt has ended."""
        self._release(job)
        job.attempts += counts
        if at_ms:
            heappush(self._later, (at_ms, job.record.seq))
        else:
            self._group(job.record.client.name).put(job, first=True)

    def give_up(self, job: DueJob) -> None:
        """Note that the last attempt has ended."""
        self._release(job)
        job.attempts += 1
        self._bury(job)

    def revive(self, job: DueJob) -> None:
        """Have a job that was given up wait for its first attempt."""
        self._release(job)
        job.attempts = 0
        self._group(job.record.client.name).put(job)

    def _bury(self, job: DueJob) -> None:
        job.is_dead = True
        self._dead += 1
        self._group(job.record.client.name).dead[job.record.seq] = job

    def _release(self, job: DueJob) -> None:
        """End the lease of a job, or take it from the dead."""
        if job.holder is not None:
            job.holder.held.pop(job.record.seq, None)
            job.holder = None
            self._leased -= 1
        if job.is_dead:
            job.is_dead = False
            self._dead -= 1
            del self._group(job.record.client.name).dead[job.record.seq]

    def assign(self, now_ms: int) -> list[tuple[WorkerConnection, DueJob]]:
        """Lease jobs to workers that have room, up to MAX_ASSIGNED; returns which to which."""
        self._looked_ms = max(self._looked_ms, now_ms)
        while self._later and self._later[0][0] <= now_ms:
            job = self.by_number.get(heappop(self._later)[1])
            if job is not None:
                self._group(job.record.client.name).put(job)
        given: list[tuple[WorkerConnection, DueJob]] = []
        for group in self._staffed.values():
            if group.ready:
                given += group.assign(MAX_ASSIGNED - len(given))
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
        times = [heap[0][0] for heap in (self._later, self._ends) if heap]
        return min(times) if times else None
