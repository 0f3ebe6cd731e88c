"""The answers about jobs: statuses, lists, counts; and the news of their ends.

Store thread alone.
"""

import logging
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import Final

from msgspec import Raw

from purgatory.service.encoding import encode
from purgatory.service.errors import Malformed, refusal_of
from purgatory.service.job_messages import (
    JOB_STATES,
    ORDERS,
    CountedJobs,
    CountJobs,
    JobEnds,
    JobFilter,
    JobPage,
    JobStates,
    JobStatus,
    ListJobs,
    Overview,
    ReadJobs,
    ReadOverview,
    WatchJobs,
)
from purgatory.service.protocol import NOTHING, Failure
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.jobs.job_index import DUE_START, NEWEST_START, matches, wrong_filter
from purgatory.service.server.jobs.job_statuses import job_statuses
from purgatory.service.server.jobs.kind_figures import in_few_kinds, kind_figures
from purgatory.service.server.reads.outcome_frames import in_frames
from purgatory.service.server.reads.remembered_answers import RememberedReader
from purgatory.service.server.reads.status_answers import (
    MAX_LISTED,
    PORTION,
    VALUE_BYTES,
    answer_ids,
    fit_values,
)
from purgatory.service.server.records.clients import OutcomeRecord
from purgatory.service.server.records.job_record import STATE_COUNT, JobRecord
from purgatory.service.server.records.operation import PendingOperation
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import Store

#: Jobs examined in a portion; portions of a request.
LOOKED_AT: Final = 2000
MAX_PORTIONS: Final = 500
_ANY: Final = JobFilter()


class JobAnswers:
    """Answers reads, in portions; an answer has about `max_bytes` at most."""

    def __init__(self, state: ServerState, store: Store, max_bytes: int) -> None:
        self._state = state
        self._store = store
        self._max_bytes = max_bytes
        self._remembered = RememberedReader(state, store)
        #: Returns why commits fail.
        self.commit_error: Callable[[], str] = str

    def read(self, command: ClientRequest, request: ReadJobs) -> Iterator[bytes | None]:
        """Read jobs by id."""
        return self._states(command, request.job_ids)

    def watch(self, command: ClientRequest, request: WatchJobs) -> Iterator[bytes | None]:
        """Read jobs by id, and report their ends to the connection from now on."""
        watches = self._state.jobs.watches
        if request.stop:
            watches.stop(command.route, request.job_ids)
        else:
            alive = [job_id for job_id in request.job_ids if self._may_end(job_id, command.owner)]
            refusal = watches.add(command.route, alive, command.owner)
            if refusal is not None:
                yield encode(Failure(request.seq, refusal.code, str(refusal)))
                return
        yield from self._states(command, request.job_ids)

    def _may_end(self, job_id: str, owner: str | None) -> bool:
        entry = self._state.find(job_id, owner)
        job = None if entry is None else entry.job
        return job is not None and job.is_alive

    def _states(self, command: ClientRequest, job_ids: list[str]) -> Iterator[bytes | None]:
        look_up = partial(self._look_up, command)
        return answer_ids(JobStates, command.request.seq, job_ids, look_up, self._max_bytes)

    def _look_up(self, command: ClientRequest, job_ids: Sequence[str]) -> Iterator[JobStatus]:
        owner, with_history = command.owner, isinstance(command.request, ReadJobs)
        entries: dict[str, PendingOperation | OutcomeRecord] = {}
        for job_id in job_ids:
            entry = self._state.find(job_id, owner)
            if entry is not None and entry.job is not None:
                entries[job_id] = entry
        found = list(entries.values())
        statuses = job_statuses(found, self._state, self._store, with_history=with_history)
        by_id = {status.job_id: status for status in statuses}
        for job_id in job_ids:
            yield by_id.get(job_id) or self._ended_status(job_id, owner)

    def _ended_status(self, job_id: str, owner: str | None) -> JobStatus:
        found = self._remembered.find(job_id, owner)
        status = None if found is None else self._remembered.job(found)
        return JobStatus(job_id, "unknown") if status is None else status

    def page(self, command: ClientRequest, request: ListJobs) -> Iterator[bytes | None]:
        """List a page of jobs; more may follow a short page."""
        wanted, order = request.wanted, request.order
        if order not in ORDERS:
            yield _malformed(request.seq, f"order is {order!r}; expected one of {ORDERS}")
            return
        if (wrong := wrong_filter(wanted)) is not None:
            yield _malformed(request.seq, wrong)
            return
        limit = min(max(1, request.limit), MAX_LISTED)
        after = request.after or (DUE_START if order == "due" else NEWEST_START)
        found: list[JobRecord] = []
        is_end = False
        meant = partial(matches, wanted, command.owner)
        for _ in range(MAX_PORTIONS):
            room = limit - len(found)
            jobs, after, is_end = self._state.jobs.look(
                wanted, order, after, meant, room, LOOKED_AT
            )
            found += jobs
            if is_end or len(found) >= limit:
                break
            yield None
        statuses = yield from self._listed(found)
        yield encode(JobPage(request.seq, statuses, None if is_end else after))

    def _listed(self, jobs: list[JobRecord]) -> Generator[None, None, list[JobStatus]]:
        """Read statuses in portions: the values may be large."""
        known, room = self._state.known, VALUE_BYTES
        listed: list[JobStatus] = []
        for start in range(0, len(jobs), PORTION):
            entries = [
                entry
                for job in jobs[start : start + PORTION]
                if (entry := known.get(job.op_id)) is not None and entry.job is job
            ]
            for status in job_statuses(entries, self._state, self._store):
                room -= fit_values(status, room)
                listed.append(status)
            yield None
        return listed

    def count(self, command: ClientRequest, request: CountJobs) -> Iterator[bytes | None]:
        """Count jobs, with a filter in portions."""
        wanted, owner = request.wanted or _ANY, command.owner
        if (wrong := wrong_filter(wanted)) is not None:
            yield _malformed(request.seq, wrong)
            return
        counts = self._state.jobs.counts
        if owner is not None or wanted != _ANY:
            counts = {}
            yield from self._count_one_by_one(wanted, owner, counts)
        rows = [
            (kind, JOB_STATES[state], count)
            for kind, by_state in in_few_kinds(counts).items()
            for state, count in enumerate(by_state)
            if count
        ]
        yield encode(CountedJobs(request.seq, rows))

    def overview(self, command: ClientRequest, request: ReadOverview) -> Iterator[bytes | None]:
        """Count jobs and operations; for a client, in portions."""
        state, client = self._state, command.owner or request.client
        if client != request.client and request.client is not None:
            yield encode(Overview(request.seq, [], {}))
            return
        counts = state.jobs.counts
        if client is not None:
            counts = {}
            yield from self._count_one_by_one(_ANY, client, counts)
        kinds = kind_figures(state, state.stamp.now_ms, counts, client)
        counted = state.operation_counts.of(client)
        yield encode(Overview(request.seq, kinds, counted, self.commit_error()))

    def _count_one_by_one(
        self, wanted: JobFilter, owner: str | None, counts: dict[str, list[int]]
    ) -> Iterator[None]:
        """Count by number: numbers never change, so no job is counted twice."""
        meant, index = partial(matches, wanted, owner), self._state.jobs
        after, is_end = NEWEST_START, False
        while not is_end:
            jobs, after, is_end = index.look(wanted, "newest", after, meant, LOOKED_AT, LOOKED_AT)
            for job in jobs:
                counts.setdefault(job.kind, [0] * STATE_COUNT)[job.state] += 1
            yield None


def _malformed(seq: int, message: str) -> bytes:
    return encode(Failure(seq, Malformed.code, message))


log: logging.Logger = logging.getLogger(__name__)

_STATUS_BYTES = 300


def job_end_frames(state: ServerState, store: Store) -> list[tuple[bytes, bytes]]:
    """Encode the noted ends for each connection, without payloads.

    Raises StoreError for damage.
    """
    ended, state.jobs.watches.ended = state.jobs.watches.ended, []
    by_route: dict[bytes, list[JobStatus]] = {}
    for start in range(0, len(ended), PORTION):
        portion = ended[start : start + PORTION]
        statuses = _statuses([job for job, _ in portion], state, store)
        for job, routes in portion:
            status = statuses.get(job.op_id) or JobStatus(job.op_id, "unknown")  # it was dropped
            for route in routes:
                by_route.setdefault(route, []).append(status)
    return [
        (route, encode(JobEnds(jobs)))
        for route, found in by_route.items()
        for jobs in in_frames(found, _size)
    ]


def _statuses(jobs: list[JobRecord], state: ServerState, store: Store) -> dict[str, JobStatus]:
    entries = [
        entry
        for job in jobs
        if (entry := state.known.get(job.op_id)) is not None and entry.job is job
    ]
    try:
        statuses = job_statuses(entries, state, store)
    except Exception as error:
        refusal_of(error)  # raises it if the store is damaged
        log.exception("%d jobs that have ended cannot be read", len(entries))
        return {}
    for status in statuses:
        status.payload = Raw(NOTHING)
    return {status.job_id: status for status in statuses}


def _size(status: JobStatus) -> int:
    return _STATUS_BYTES + len(status.result)
