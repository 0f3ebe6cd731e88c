"""JobGroup: the jobs and the workers of one client name. For the store thread.

Of ready jobs the highest priority is first, and within a priority the order is that of arrival. A
job that has been ready for AGED_MS is taken as if its priority were the highest, so that none
starves.
"""

import contextlib
from collections import deque
from typing import Final

from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.limits.kind_limits import KindLimits

#: After so long a job is taken as if its priority were the highest.
AGED_MS: Final = 600_000
#: The highest priority.
HIGHEST: Final = 10
# Entries of jobs that have left otherwise: so many may stay, and as many as jobs wait.
_STALE_ENTRIES: Final = 64


class ReadyJobs:
    """A queue by priority; O(1) for jobs of one priority, else O(priorities)."""

    __slots__ = ("_levels", "_stale", "count")

    def __init__(self) -> None:
        self._levels: dict[int, deque[DueJob]] = {}  # by priority, the highest first
        self._stale = 0  # entries of jobs that do not wait any more
        self.count: int = 0

    def put(self, job: DueJob, *, first: bool = False) -> None:
        """Add a job; `first`: before jobs of its priority."""
        level = self._levels.get(job.priority)
        if level is None:
            self._levels[job.priority] = level = deque()
            if len(self._levels) > 1:
                self._levels = dict(sorted(self._levels.items(), reverse=True))
        if first:
            level.appendleft(job)
        else:
            level.append(job)
        job.is_waiting = True
        self.count += 1

    def remove(self, job: DueJob) -> None:
        """Remove a job that waits."""
        job.is_waiting = False
        self.count -= 1
        self._stale += 1
        if self._stale > self.count + _STALE_ENTRIES:
            self._drop_stale()

    def _drop_stale(self) -> None:
        self._stale = 0
        for priority, level in list(self._levels.items()):
            seen = dict.fromkeys([job for job in level if job.is_waiting])
            if seen:
                self._levels[priority] = deque(seen)
            else:
                del self._levels[priority]

    def pop(self, now_ms: int) -> DueJob | None:
        """Remove the next job; None if none waits."""
        while self._levels:
            priority = self._next_level(now_ms)
            level = self._levels[priority]
            job = level.popleft()
            if not level:
                del self._levels[priority]
            if job.is_waiting:
                job.is_waiting = False
                self.count -= 1
                return job
            self._stale -= 1
        return None

    def oldest_ms(self) -> int | None:
        """Return since when the oldest job at the head of a level is ready; None without.

        Withdrawn jobs at the head may hide others. Any thread.
        """
        found: int | None = None
        for level in list(self._levels.values()):
            with contextlib.suppress(IndexError):  # the store thread has taken it
                job = level[0]
                if job.is_waiting and (found is None or job.ready_ms < found):
                    found = job.ready_ms
        return found

    def _next_level(self, now_ms: int) -> int:
        """Return the priority whose first job is next; there is one."""
        first = next(iter(self._levels))
        if len(self._levels) == 1:
            return first
        found, since_ms = first, now_ms + 1
        for priority, level in self._levels.items():
            ready_ms = level[0].ready_ms
            is_urgent = priority == HIGHEST or ready_ms <= now_ms - AGED_MS
            if is_urgent and ready_ms < since_ms:
                found, since_ms = priority, ready_ms
        return found


class JobGroup:
    """Jobs that wait for a worker, by kind, and the workers, which take turns.

    `limits` are those of the kinds, for all groups.
    """

    def __init__(self, limits: KindLimits) -> None:
        self._limits = limits
        self.ready: dict[str, ReadyJobs] = {}  # no empty ones
        self.workers: dict[bytes, WorkerConnection] = {}  # by route, the next one first
        self.dead: dict[int, DueJob] = {}  # given up, by number

    def put(self, job: DueJob, *, first: bool = False) -> None:
        """Queue a job for a worker; `first`: before others of its kind and priority."""
        waiting = self.ready.get(job.kind)
        if waiting is None:
            waiting = self.ready[job.kind] = ReadyJobs()
        waiting.put(job, first=first)

    def remove(self, job: DueJob) -> None:
        """Have a job wait no longer."""
        waiting = self.ready[job.kind]
        waiting.remove(job)
        if not waiting.count:
            del self.ready[job.kind]

    def pop_for(self, worker: WorkerConnection, now_ms: int) -> DueJob | None:
        """Remove the next job that fits a worker; the worker's kinds take turns."""
        for at, kind in enumerate(worker.turns):
            waiting = self.ready.get(kind)
            if waiting is not None and self._is_open(worker, kind, now_ms):
                job = waiting.pop(now_ms)
                if not waiting.count:
                    del self.ready[kind]
                worker.turns.append(worker.turns.pop(at))
                return job
        return None

    def _is_open(self, worker: WorkerConnection, kind: str, now_ms: int) -> bool:
        """Whether a worker that has room may be given a job of a kind."""
        if not worker.has_room_for(kind):
            return False
        return not self._limits.is_used or not self._limits.blocked(kind, now_ms)

    def has_work_for(self, worker: WorkerConnection, now_ms: int) -> bool:
        """Whether a worker could be given a job now."""
        if not worker.has_room or self.ready.keys().isdisjoint(worker.kinds):
            return False
        if not worker.kind_rooms and not self._limits.is_used:
            return True
        return any(
            kind in self.ready and self._is_open(worker, kind, now_ms) for kind in worker.kinds
        )

    def assign(self, limit: int, now_ms: int) -> list[tuple[WorkerConnection, DueJob]]:
        """Give out up to `limit` jobs, one to each worker in turn; the caller makes the leases."""
        given: list[tuple[WorkerConnection, DueJob]] = []
        idle = 0  # workers in a row that could be given nothing
        while idle < len(self.workers) and len(given) < limit and self.ready:
            worker = next(iter(self.workers.values()))
            self.workers[worker.route] = self.workers.pop(worker.route)
            job = self.pop_for(worker, now_ms) if worker.has_room else None
            if job is None:
                idle += 1
                continue
            idle = 0
            worker.take(job.record.seq, job.kind)
            self._limits.take(job.kind)
            given.append((worker, job))
        return given

    def has_work(self, now_ms: int) -> bool:
        """Whether a job could be given to a worker now."""
        return bool(self.ready) and any(
            self.has_work_for(worker, now_ms) for worker in self.workers.values()
        )

    def opens_ms(self, now_ms: int) -> int | None:
        """Return when a kind of which jobs wait is not limited any more; None: not by time."""
        times = [self._limits.next_ms(kind, now_ms) for kind in self.ready]
        return min([at_ms for at_ms in times if at_ms is not None], default=None)

    @property
    def is_empty(self) -> bool:
        """Whether empty."""
        return not (self.ready or self.workers or self.dead)
