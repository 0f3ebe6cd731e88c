"""ModelLeases: the jobs that are due, and which worker has which of them, until when.

Which of the ready jobs a worker gets is open. All else is not: a job is given only if it waits and
its time has come, to a worker that has asked for its kind and has room; the token is a new one; a
lease lasts for as long as its worker has asked for, from when it was given or kept; an attempt ends
once, and counts if its handler has begun.
"""

from collections.abc import Callable
from functools import partial

from purgatory.service.job_messages import Begin, JobsRetried, RetryJobs
from purgatory.service.protocol import (
    Finish,
    Finished,
    How,
    Keep,
    Kept,
    LeasedJob,
    LeaseEnd,
    Work,
)
from tests.simulation.model.model_operation import ModelOperation
from tests.simulation.model.undo import Undo

# A job that was lost so often may be what ends its workers: it begins with its next lease.
_MOST_LOSSES = 5


class ModelWorker:
    """A connection of a worker, and what it asks for."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.request: Work = Work(0, {}, 0, 0)
        self.has_lapsed = False
        self.held: dict[str, None] = {}  # the first one first

    def has_room_for(self, kind: str, jobs: dict[str, "ModelJob"]) -> bool:
        """Whether it takes one more job of a kind."""
        if self.has_lapsed or kind not in self.request.kinds:
            return False
        if len(self.held) >= self.request.room:
            return False
        most = self.request.kind_rooms.get(kind)
        return most is None or sum(jobs[one].kind == kind for one in self.held) < most


class ModelJob:
    """A job that is due and has not ended: ready, or leased, or to be tried later, or dead."""

    def __init__(self, operation: ModelOperation, attempts: int = 0) -> None:
        self.operation = operation
        self.kind = operation.kind
        self.attempts = attempts  # that have ended
        self.max_attempts = 1
        self.at_ms = 0  # it waits until then
        self.stored_at_ms = 0  # and would after a start: a job that is given back is not written
        self.is_dead = False
        self.is_cancelled = False  # this lease is the last one
        self.worker: ModelWorker | None = None
        self.token = 0
        self.until_ms = 0
        self.has_begun = False
        self.losses = 0  # of connections, each time when its handler was the next to begin
        #: Whether its attempt may have ended by time, in a commit of which nobody knows.
        self.may_be_lost = False

    def __repr__(self) -> str:
        lease = f"token {self.token} until {self.until_ms}" if self.worker else "no lease"
        return (
            f"job {self.operation.op_id} attempts={self.attempts} of {self.max_attempts} "
            f"begun={self.has_begun} dead={self.is_dead} at={self.at_ms} {lease}"
        )


class ModelLeases:
    """The due jobs of a server, by operation id, and its workers, by route."""

    def __init__(self, undo: Undo) -> None:
        self._undo = undo
        self.jobs: dict[str, ModelJob] = {}
        self.by_seq: dict[int, ModelJob] = {}
        self.workers: dict[bytes, ModelWorker] = {}
        self.last_token = 0
        #: Numbers of the outcomes of dead jobs that were dropped: a start knows nothing of them.
        self.dropped: set[int] = set()
        #: Jobs of which an attempt, or being dead, ends in this transaction.
        self.changed: set[str] = set()
        self._waits: set[str] = set()  # those of them that wait afterwards
        self._cancelled: set[str] = set()  # those whose lease goes on, and is the last one
        #: Jobs that are due in this transaction, and were not cancelled in it.
        self.just_due: dict[str, ModelOperation] = {}
        self._with_key: dict[
            str, dict[int, ModelOperation]
        ] = {}  # by key and place, ended ones too
        self._effects: list[Callable[[], object]] = []

    # Requests

    def hear(self, route: bytes) -> None:
        """Note that a connection has sent something: a lease that lapsed is forgiven."""
        if route in self.workers:
            self.workers[route].has_lapsed = False

    def work(self, route: bytes, client: str, request: Work) -> None:
        """Note what a connection asks for."""
        self.workers.setdefault(route, ModelWorker(client)).request = request

    def disconnect(self, route: bytes) -> None:
        """Note that a connection has gone: its attempts have ended."""
        worker = self.workers.pop(route, None)
        jobs = [self.jobs[op_id] for op_id in worker.held] if worker is not None else []
        following = next((job for job in jobs if not job.has_begun), None)
        if following is not None:
            following.losses += 1
        for job in jobs:
            self.lose(job)

    def keep(self, client: str, request: Keep, now_ms: int) -> Kept:
        """Have leases last anew from now."""
        done: list[bool] = []
        cancelled: list[int] = []
        for at, lease in enumerate(request.leases):
            job = self._held(client, lease.number, lease.token)
            done.append(job is not None)
            if job is not None and job.worker is not None:
                job.until_ms = now_ms + job.worker.request.lease_ms
                cancelled += [at] if job.is_cancelled else []
        return Kept(request.seq, done, cancelled)

    def begin(self, client: str, request: Begin) -> None:
        """Note that handlers have begun."""
        for lease in request.leases:
            job = self._held(client, lease.number, lease.token)
            if job is not None:
                job.losses = 0 if not job.has_begun else job.losses
                job.has_begun = True

    def finish(self, client: str, request: Finish, now_ms: int) -> Finished:
        """End leases, as their worker says."""
        return Finished(request.seq, [self._finish(client, end, now_ms) for end in request.ends])

    def _held(self, client: str, number: int, token: int) -> ModelJob | None:
        job = self.by_seq.get(number)
        if job is None or job.worker is None or job.token != token:
            return None
        return job if job.operation.client == client else None

    def _finish(self, client: str, end: LeaseEnd, now_ms: int) -> bool:
        job = self._held(client, end.number, end.token)
        if job is None or not self._change(job):
            return False
        if end.how == How.DONE:
            self._effects.append(partial(self._forget, job))
        elif end.how == How.RETURNED:
            self._have_wait(job, job.attempts, 0)
        else:
            self._fail(job, now_ms + end.delay_ms if end.delay_ms else 0)
        return True

    def retry(self, _: str, request: RetryJobs) -> JobsRetried:
        """Try dead jobs again, or drop them."""
        done: list[bool] = []
        by_id = {job.operation.op_id: job for job in self.by_seq.values()}
        for job_id in request.job_ids:
            job = by_id.get(job_id)
            done.append(job is not None and job.is_dead and self._change(job))
            if job is not None and done[-1]:
                again = partial(self._wait, job, 0, 0)
                self._effects.append(partial(self._drop, job) if request.drop else again)
        return JobsRetried(request.seq, done)

    # Ends

    def _change(self, job: ModelJob) -> bool:
        """Note that a job changes in this transaction; False if it does so already."""
        is_first = job.operation.op_id not in self.changed
        self.changed.add(job.operation.op_id)
        return is_first

    def lose(self, job: ModelJob, *, by_time: bool = False) -> None:
        """End an attempt of which the lease has ended."""
        if not self._change(job):
            return
        if by_time and job.worker is not None:
            self._effects.append(partial(setattr, job.worker, "has_lapsed", True))
        if job.has_begun:
            self._fail(job, 0)
        else:
            self._have_wait(job, job.attempts, 0)

    def _have_wait(self, job: ModelJob, attempts: int, at_ms: int) -> None:
        if job.is_cancelled or job.operation.op_id in self._cancelled:
            self._effects.append(partial(self._forget, job))
            return
        self._waits.add(job.operation.op_id)
        self._effects.append(partial(self._wait, job, attempts, at_ms))

    def cancel_by_key(self, key: str, units: int) -> int:
        """Cancel jobs that were due and whose handlers have not begun; returns how many.

        The lease of a job that a worker has goes on, and is the last one: no later key counts. The
        longest waiting first; `units` below 0: all of them.
        """
        count = 0
        for _, operation in sorted(self._with_key.get(key, {}).items()):
            if count == units:
                break
            if not self._is_last(operation.op_id):
                count += self._cancel(operation)
        return count

    def _is_last(self, op_id: str) -> bool:
        job = self.jobs.get(op_id)
        return op_id in self._cancelled or (job is not None and job.is_cancelled)

    def _cancel(self, operation: ModelOperation) -> bool:
        op_id = operation.op_id
        if self.just_due.pop(op_id, None) is not None:
            return True
        job = self.jobs.get(op_id)
        if job is None or job.is_dead or job.has_begun:
            return False
        if op_id in self.changed and op_id not in self._waits:
            return False
        if job.worker is not None and op_id not in self.changed:
            self._cancelled.add(op_id)  # whether a handler has begun, the worker knows
            self._effects.append(partial(self._undo.set, job, "is_cancelled", True))
            return True
        self.changed.add(op_id)
        self._waits.discard(op_id)
        self._effects.append(partial(self._forget, job))
        return True

    def _fail(self, job: ModelJob, at_ms: int) -> None:
        attempts = job.attempts + 1
        is_cancelled = job.is_cancelled or job.operation.op_id in self._cancelled
        if attempts >= job.max_attempts and not is_cancelled:
            self._effects.append(partial(self._bury, job, attempts))
        else:
            self._have_wait(job, attempts, at_ms)

    def _release(self, job: ModelJob) -> None:
        if job.worker is not None:
            job.worker.held.pop(job.operation.op_id, None)
            self._undo.set(job, "worker", None)
        self._undo.set(job, "has_begun", False)

    def _wait(self, job: ModelJob, attempts: int, at_ms: int) -> None:
        self._release(job)
        if at_ms or attempts != job.attempts or job.is_dead:
            self._undo.set(job, "stored_at_ms", at_ms)
        self._undo.set(job, "attempts", attempts)
        self._undo.set(job, "at_ms", at_ms)
        self._undo.set(job, "is_dead", False)

    def _bury(self, job: ModelJob, attempts: int) -> None:
        self._wait(job, attempts, 0)
        self._undo.set(job, "is_dead", True)

    def _forget(self, job: ModelJob) -> None:
        self._release(job)
        self._undo.set_item(self.jobs, job.operation.op_id, None)
        self._undo.set_item(self.by_seq, job.operation.seq, None)

    def _drop(self, job: ModelJob) -> None:
        self.dropped.add(job.operation.seq)
        self._forget(job)
        self._undo.set(job.operation, "is_dropped", True)

    # Of a transaction

    def begin_transaction(self) -> None:
        """Begin with no changes."""
        self.changed.clear()
        self._waits.clear()
        self._cancelled.clear()
        self.just_due.clear()
        self._effects.clear()

    def publish(self) -> None:
        """Make the changes: they are on disk."""
        effects, self._effects = self._effects, []
        for effect in effects:
            effect()

    def add(self, operation: ModelOperation, attempts: int = 0) -> ModelJob:
        """Add a job that is due: that is on disk."""
        job = ModelJob(operation, attempts)
        self._note_keys(operation)
        self._undo.set_item(self.jobs, operation.op_id, job)
        self._undo.set_item(self.by_seq, operation.seq, job)
        return job

    def expire(self, operation: ModelOperation) -> None:
        """Note that a job is due, from the end of this transaction on."""
        self.just_due[operation.op_id] = operation
        self._note_keys(operation)

    def _note_keys(self, operation: ModelOperation) -> None:
        for key in operation.keys:
            self._with_key.setdefault(key, {})[operation.place] = operation

    def add_due(self) -> None:
        """Add the jobs that are due: the transaction is about to be on disk."""
        for operation in self.just_due.values():
            self._effects.append(partial(self.add, operation))

    def restart(self) -> None:
        """Forget all leases and jobs: a process has ended."""
        self.begin_transaction()
        self.workers.clear()
        self.jobs.clear()
        self.by_seq.clear()
        self._with_key.clear()

    def give(self, route: bytes, message: LeasedJob, now_ms: int) -> str:
        """Note that a job is leased to a worker; returns what is wrong with that, or nothing."""
        job, worker = self.by_seq.get(message.number), self.workers.get(route)
        if job is None or worker is None:
            return "no such job, or no such worker"
        if job.worker is not None or job.is_dead or job.at_ms > now_ms:
            return f"it is not ready: {job}"
        if worker.client != job.operation.client or not worker.has_room_for(job.kind, self.jobs):
            return f"no room for {job} in {worker.request}, which has {worker.held}"
        if message.token <= self.last_token:
            return f"the token {message.token} comes after {self.last_token}"
        operation = job.operation
        found = (message.op_id, message.kind, message.attempt, message.deadline_ms)
        expected = (operation.op_id, job.kind, job.attempts + 1, operation.deadline_ms)
        self._lease(job, worker, message.token, now_ms)
        return "" if found == expected else f"{found}; expected {expected}"

    def _lease(self, job: ModelJob, worker: ModelWorker, token: int, now_ms: int) -> None:
        self.last_token = job.token = token
        job.worker = worker
        worker.held[job.operation.op_id] = None
        job.max_attempts = worker.request.kinds[job.kind]
        job.until_ms = now_ms + worker.request.lease_ms
        job.has_begun = not worker.request.begins or job.losses >= _MOST_LOSSES

    def idle(self, now_ms: int) -> str:
        """Return a job that waits though a worker has room for it; empty if there is none."""
        ready: dict[tuple[str, str], ModelJob] = {}
        for job in self.jobs.values():
            if job.worker is None and not job.is_dead and job.at_ms <= now_ms:
                ready.setdefault((job.operation.client, job.kind), job)
        for (client, kind), job in ready.items():
            for worker in self.workers.values():
                if worker.client == client and worker.has_room_for(kind, self.jobs):
                    return repr(job)
        return ""
