"""JobIndex: all jobs of a server, in orders and counts, with their states on disk.

Changes after a commit. Store thread alone.
"""

from collections.abc import Callable, Iterator
from heapq import merge, nlargest
from typing import Final

from purgatory.service.job_messages import JOB_STATES, JobFilter
from purgatory.service.protocol import RESERVED
from purgatory.service.server.jobs.due_order import FEW, UNDIVIDED, NumberedOrder, place_of
from purgatory.service.server.jobs.job_timings import JobTimings
from purgatory.service.server.jobs.job_watches import JobWatches
from purgatory.service.server.jobs.number_order import NumberOrder
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.memory import job_bytes
from purgatory.service.server.records.job_record import (
    DONE,
    READY,
    RETRYING,
    SCHEDULED,
    STATE_COUNT,
    JobRecord,
)

_BEFORE_ALL: Final = -1
_SCHEDULED: Final = JOB_STATES[SCHEDULED]
# A job may become ready so much later than later jobs.
_LATE_MS: Final = 1000
#: The cursor before the first job of an order.
DUE_START: Final = (_BEFORE_ALL, _BEFORE_ALL)
NEWEST_START: Final = ((1 << 62), (1 << 62))


class JobIndex:
    """Jobs that wait, run, or have ended and are remembered."""

    def __init__(self) -> None:
        # Scheduled and ready jobs have one order: becoming due is no move.
        waiting, retrying = NumberedOrder(), NumberedOrder()
        running, done = NumberedOrder(UNDIVIDED), NumberedOrder(UNDIVIDED)
        dead, cancelled = NumberedOrder(), NumberedOrder()
        self._orders: list[NumberedOrder] = [waiting, running, retrying, done, dead, cancelled]
        self._by_state: list[NumberedOrder] = [waiting, *self._orders]
        self._ready_ms: int = 0  # the last due time of a ready job
        self._by_kind: dict[str, NumberedOrder] = {}
        self._by_tag: dict[str, NumberedOrder] = {}
        self._by_number: NumberOrder = NumberOrder()
        #: By key of `unless`: unfinished jobs.
        self.by_key: dict[str, dict[int, JobRecord]] = {}
        #: By kind: jobs in each state.
        self.counts: dict[str, list[int]] = {}
        #: Charged at submission.
        self.bytes: int = 0
        self.watches: JobWatches = JobWatches()
        self.timings: JobTimings = JobTimings()

    def add(self, job: JobRecord) -> None:
        """Add a job in its state."""
        counts = self.counts.get(job.kind)
        if counts is None:
            counts = self.counts[job.kind] = [0] * STATE_COUNT
            self._by_kind[job.kind] = NumberedOrder()
        counts[job.state] += 1
        self._by_state[job.state].add(job)
        self._by_kind[job.kind].add(job)
        self._by_number.add(job)
        if job.options is not None:
            self._tag(job)
        if job.has_unless and job.is_alive:
            self._add_keys(job)

    def _add_keys(self, job: JobRecord) -> None:
        for key in job.keys:
            if not key.startswith(RESERVED):
                self.by_key.setdefault(key, {})[job.number] = job

    def _forget_keys(self, job: JobRecord) -> None:
        for key in job.keys:
            if not key.startswith(RESERVED):
                jobs = self.by_key[key]
                del jobs[job.number]
                if not jobs:
                    del self.by_key[key]

    def _tag(self, job: JobRecord) -> None:
        for tag in job.tags:
            order = self._by_tag.get(tag)
            if order is None:
                order = self._by_tag[tag] = NumberedOrder()
            order.add(job)

    def _untag(self, job: JobRecord) -> None:
        for tag in job.tags:
            order = self._by_tag[tag]
            order.remove(job)
            if not order.length:
                del self._by_tag[tag]

    def set_state(self, job: JobRecord, state: int) -> None:
        """Move a job to a state."""
        before = job.state
        if before == state:
            return
        order = self._by_state[state]
        if self._by_state[before] is not order:
            self._by_state[before].remove(job)
            order.add(job)
        elif job.due_ms > self._ready_ms:  # it is ready
            self._ready_ms = job.due_ms
        job.state = state
        counts = self.counts[job.kind]
        counts[before] -= 1
        counts[state] += 1
        if state >= DONE:
            if self.watches.count:
                self.watches.note_end(job)
            if before < DONE:
                self.timings.end_job(job.kind, state)
                if job.has_unless:
                    self._forget_keys(job)
        elif before >= DONE and job.has_unless:
            self._add_keys(job)

    def move(self, job: JobRecord, state: int, due_ms: int) -> None:
        """Move a job to a state and a due time."""
        if due_ms == job.due_ms:
            self.set_state(job, state)
            return
        kind = self._by_kind[job.kind]
        counts = self.counts[job.kind]
        self._by_state[job.state].remove(job)
        kind.remove(job)
        self._untag(job)
        counts[job.state] -= 1
        if job.state >= DONE and job.has_unless:  # it was dead
            self._add_keys(job)
        job.state, job.due_ms = state, due_ms
        self._by_state[state].add(job)
        kind.add(job)
        self._tag(job)
        counts[state] += 1

    def moved(self, due: DueJob) -> None:
        """Take over the changed state or time of a due job."""
        job, state = due.record.job, due.state
        assert job is not None
        job.began_ms = due.begun_ms or job.began_ms
        if state in (SCHEDULED, RETRYING):
            self.move(job, state, due.at_ms)
        elif state == READY and due.ready_ms < job.due_ms:  # it was moved to now
            self.move(job, state, due.ready_ms)
        else:
            self.set_state(job, state)

    def remove(self, job: JobRecord) -> None:
        """Forget a job."""
        self.bytes -= life_bytes(job)
        self._by_state[job.state].remove(job)
        self._by_number.remove(job)
        self._untag(job)
        kind = self._by_kind[job.kind]
        kind.remove(job)
        if kind.length:
            self.counts[job.kind][job.state] -= 1
        else:
            del self.counts[job.kind], self._by_kind[job.kind]

    def walk(self, wanted: JobFilter, order: str, after: tuple[int, int]) -> Iterator[JobRecord]:
        """Yield jobs beyond a cursor, in order, not only matching ones.

        No job may change meanwhile.
        """
        narrowest = self._narrowest(wanted)
        if order == "due":
            if wanted.state == _SCHEDULED:  # skip ready jobs
                after = max(after, (self._ready_ms - _LATE_MS, _BEFORE_ALL))
            if narrowest is None:
                yield from merge(*[one.after(*after) for one in self._orders], key=place_of)
            else:
                yield from narrowest.after(*after)
        elif narrowest is None:
            yield from self._by_number.before(after[1])
        elif narrowest.length > FEW:
            yield from self._by_number.before(after[1], narrowest.blocks)
        else:
            older = [job for job in narrowest.after(*DUE_START) if job.number < after[1]]
            yield from nlargest(len(older), older, key=lambda job: job.number)

    def look(
        self,
        wanted: JobFilter,
        order: str,
        after: tuple[int, int],
        meant: Callable[[JobRecord], bool],
        most: int,
        looks: int,
    ) -> tuple[list[JobRecord], tuple[int, int], bool]:
        """Return the next jobs of `walk` that are meant, the cursor, and whether it is the end.

        Returns `most` jobs at most, and examines `looks` at most.
        """
        found: list[JobRecord] = []
        by_due = order == "due"
        for job in self.walk(wanted, order, after):
            if not looks or len(found) >= most:
                return found, after, False
            looks -= 1
            after = (job.due_ms, job.number) if by_due else (job.number, job.number)
            if meant(job):
                found.append(job)
        return found, after, True

    def _narrowest(self, wanted: JobFilter) -> NumberedOrder | None:
        """Return the shortest order with all matching jobs, if not all jobs match."""
        found: list[NumberedOrder] = []
        if wanted.tag is not None:
            found.append(self._by_tag.get(wanted.tag) or NumberedOrder())
        if wanted.kind is not None:
            found.append(self._by_kind.get(wanted.kind) or NumberedOrder())
        if wanted.state is not None:
            found.append(self._by_state[JOB_STATES.index(wanted.state)])
        return min(found, key=lambda order: order.length, default=None)


def life_bytes(job: JobRecord) -> int:
    """See `job_bytes`."""
    return job_bytes(job.tags, job.keys)


def matches(wanted: JobFilter, owner: str | None, job: JobRecord) -> bool:
    """Whether a job matches; `owner`: see `ServerState.find`."""
    return (
        (owner is None or job.client == owner)
        and (wanted.client is None or job.client == wanted.client)
        and (wanted.kind is None or job.kind == wanted.kind)
        and (wanted.state is None or JOB_STATES[job.state] == wanted.state)
        and (wanted.tag is None or wanted.tag in job.tags)
    )


def wrong_filter(wanted: JobFilter) -> str | None:
    """Return what is wrong with a filter, if anything."""
    if wanted.state is not None and wanted.state not in JOB_STATES:
        return f"state is {wanted.state!r}; expected one of {JOB_STATES}"
    return None
