"""JobGroup: jobs and workers of a client name. Store thread alone."""

from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.ready_jobs import ReadyJobs
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.limits.kind_limits import KindLimits


class JobGroup:
    """The ready jobs by kind, and the workers, which take turns.

    `limits`: of the kinds in all groups.
    """

    __slots__ = ("_limits", "ready", "workers")

    def __init__(self, limits: KindLimits) -> None:
        self._limits = limits
        self.ready: dict[str, ReadyJobs] = {}  # no empty ones
        self.workers: dict[bytes, WorkerConnection] = {}  # by route, the next one first

    def put(self, job: DueJob, *, first: bool = False) -> None:
        """Queue a job; `first`: before all of its kind and priority."""
        waiting = self.ready.get(job.kind)
        if waiting is None:
            waiting = self.ready[job.kind] = ReadyJobs()
        waiting.put(job, first=first)

    def remove(self, job: DueJob) -> None:
        """Take a job off its queue."""
        waiting = self.ready[job.kind]
        waiting.remove(job)
        if not waiting.count:
            del self.ready[job.kind]

    def pop_for(self, worker: WorkerConnection, now_ms: int) -> DueJob | None:
        """Remove the next job for a worker; the worker's kinds take turns."""
        for at, kind in enumerate(worker.turns):
            waiting = self.ready.get(kind)
            if waiting is not None and self._is_open(worker, kind, now_ms):
                job = waiting.pop(now_ms)
                if not waiting.count:
                    del self.ready[kind]
                if job is not None:
                    worker.turns.append(worker.turns.pop(at))
                    return job
        return None

    def _is_open(self, worker: WorkerConnection, kind: str, now_ms: int) -> bool:
        if not worker.has_room_for(kind):
            return False
        return not self._limits.is_used or not self._limits.blocked(kind, now_ms)

    def has_work_for(self, worker: WorkerConnection, now_ms: int) -> bool:
        """Whether a worker could get a job now."""
        if not worker.has_room or self.ready.keys().isdisjoint(worker.kinds):
            return False
        if not worker.kind_rooms and not self._limits.is_used:
            return True
        return any(
            kind in self.ready and self._is_open(worker, kind, now_ms) for kind in worker.kinds
        )

    def assign(self, limit: int, now_ms: int) -> list[tuple[WorkerConnection, DueJob]]:
        """Give out up to `limit` jobs; the caller makes the leases."""
        given: list[tuple[WorkerConnection, DueJob]] = []
        idle = 0  # workers in a row without a job
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
        """Whether a worker could get a job."""
        return bool(self.ready) and any(
            self.has_work_for(worker, now_ms) for worker in self.workers.values()
        )

    def opens_ms(self, now_ms: int) -> int | None:
        """Return when a rate limit next allows a job, if ever."""
        times = [self._limits.next_ms(kind, now_ms) for kind in self.ready]
        return min([at_ms for at_ms in times if at_ms is not None], default=None)

    @property
    def is_empty(self) -> bool:
        """Whether jobs and workers are absent."""
        return not (self.ready or self.workers)
