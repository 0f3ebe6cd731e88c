"""JobGroup: the jobs and the workers of one client name. Used by the store thread alone."""

from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.ready_jobs import ReadyJobs
from purgatory.service.server.leases.worker_connection import WorkerConnection


class JobGroup:
    """Jobs that wait for a worker, by kind, and the workers, which take turns."""

    __slots__ = ("dead", "ready", "workers")

    def __init__(self) -> None:
        self.ready: dict[str, ReadyJobs] = {}  # no empty ones
        self.workers: dict[bytes, WorkerConnection] = {}  # by route, the next one first
        self.dead: dict[int, DueJob] = {}  # given up, by number

    def put(self, job: DueJob, *, first: bool = False) -> None:
        """Have a job wait for a worker; `first`: before the others of its kind and priority."""
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
        """Remove the next job that a worker can do; its kinds take turns."""
        for at, kind in enumerate(worker.turns):
            waiting = self.ready.get(kind)
            if waiting is not None and worker.has_room_for(kind):
                job = waiting.pop(now_ms)
                if not waiting.count:
                    del self.ready[kind]
                worker.turns.append(worker.turns.pop(at))
                return job
        return None

    def has_work_for(self, worker: WorkerConnection) -> bool:
        """Whether a worker could be given a job now."""
        if not worker.has_room or self.ready.keys().isdisjoint(worker.kinds):
            return False
        return not worker.kind_rooms or any(
            kind in self.ready and worker.has_room_for(kind) for kind in worker.kinds
        )

    def assign(self, limit: int, now_ms: int) -> list[tuple[WorkerConnection, DueJob]]:
        """Give out up to `limit` jobs, one to each worker in turn; the caller leases them."""
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
            given.append((worker, job))
        return given

    @property
    def has_work(self) -> bool:
        """Whether a job could be given to a worker now."""
        return bool(self.ready) and any(map(self.has_work_for, self.workers.values()))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.ready or self.workers or self.dead)
