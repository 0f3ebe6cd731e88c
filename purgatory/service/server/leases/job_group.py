"""JobGroup: the jobs and the workers of one client name. Used by the store thread alone."""

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from purgatory.service.server.records.clients import OutcomeRecord


class WorkerConnection:
    """A connection by its `route`; `client` names the group of workers.

    `kinds`: kind -> how many attempts a job has. It holds at most `room` leases, of `lease_ms`; one
    that is `detached` holds none: it is given `room` jobs more, whose leases end by time alone.
    """

    __slots__ = (
        "client",
        "detached",
        "has_lapsed",
        "held",
        "kinds",
        "lease_ms",
        "room",
        "route",
        "turns",
    )

    def __init__(self, route: bytes, client: str) -> None:
        self.route: bytes = route
        self.client: str = client
        self.held: dict[int, None] = {}  # numbers of jobs
        self.has_lapsed: bool = False  # a lease has ended by time, and it has sent nothing since
        self.ask({}, 0, 0, detached=False)

    def ask(self, kinds: dict[str, int], room: int, lease_ms: int, *, detached: bool) -> None:
        """Note what the worker asks for; what it holds stays."""
        self.kinds: dict[str, int] = kinds
        self.room: int = room
        self.lease_ms: int = lease_ms
        self.detached: bool = detached
        self.turns: list[str] = list(kinds)  # the kind whose turn it is first

    @property
    def has_room(self) -> bool:
        """Whether it takes another job."""
        return self.room > (0 if self.detached else len(self.held)) and not self.has_lapsed

    def take(self, number: int) -> None:
        """Note that a job is leased to it."""
        if self.detached:
            self.room -= 1
        else:
            self.held[number] = None


class DueJob:
    """A job that is due: `record` is its outcome, `attempts` counts those that have ended.

    `max_attempts` is what the worker asked for that it was leased to last. It waits, or is leased
    (`holder`, until `until_ms` at the latest), or is given up (`is_dead`).
    """

    __slots__ = (
        "attempts",
        "holder",
        "is_dead",
        "kind",
        "max_attempts",
        "record",
        "token",
        "until_ms",
    )

    def __init__(self, record: "OutcomeRecord", kind: str, attempts: int = 0) -> None:
        self.record: OutcomeRecord = record
        self.kind: str = kind
        self.attempts: int = attempts
        self.max_attempts: int = 1
        self.is_dead: bool = False
        self.holder: WorkerConnection | None = None
        self.token: int = 0  # of the lease
        self.until_ms: int = 0  # when the lease ends


class JobGroup:
    """Jobs that wait for a worker, by kind, and the workers, which take turns."""

    __slots__ = ("dead", "ready", "workers")

    def __init__(self) -> None:
        self.ready: dict[str, deque[DueJob]] = {}  # no empty ones
        self.workers: dict[bytes, WorkerConnection] = {}  # by route, the next one first
        self.dead: dict[int, DueJob] = {}  # given up, by number

    def put(self, job: DueJob, *, first: bool = False) -> None:
        """Have a job wait for a worker; `first`: before the others of its kind."""
        waiting = self.ready.setdefault(job.kind, deque())
        if first:
            waiting.appendleft(job)
        else:
            waiting.append(job)

    def pop_for(self, worker: WorkerConnection) -> DueJob | None:
        """Remove the next job that a worker can do; its kinds take turns."""
        for at, kind in enumerate(worker.turns):
            waiting = self.ready.get(kind)
            if waiting is not None:
                job = waiting.popleft()
                if not waiting:
                    del self.ready[kind]
                worker.turns.append(worker.turns.pop(at))
                return job
        return None

    def has_work_for(self, worker: WorkerConnection) -> bool:
        """Whether a worker could be given a job now."""
        return worker.has_room and not self.ready.keys().isdisjoint(worker.kinds)

    def assign(self, limit: int) -> list[tuple[WorkerConnection, DueJob]]:
        """Give out up to `limit` jobs, one to each worker in turn; the caller leases them."""
        given: list[tuple[WorkerConnection, DueJob]] = []
        idle = 0  # workers in a row that could be given nothing
        while idle < len(self.workers) and len(given) < limit and self.ready:
            worker = next(iter(self.workers.values()))
            self.workers[worker.route] = self.workers.pop(worker.route)
            job = self.pop_for(worker) if worker.has_room else None
            if job is None:
                idle += 1
                continue
            idle = 0
            worker.take(job.record.seq)
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
