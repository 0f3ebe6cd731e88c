"""The frames about ends of jobs, for connections that watch them. Store thread alone."""

import logging

from msgspec import Raw

from purgatory.service.encoding import encode
from purgatory.service.errors import refusal_of
from purgatory.service.job_messages import JobEnds, JobStatus
from purgatory.service.protocol import NOTHING
from purgatory.service.server.jobs.job_statuses import job_statuses
from purgatory.service.server.reads.outcome_frames import PORTION, in_frames
from purgatory.service.server.records.job_record import JobRecord
from purgatory.service.server.state import ServerState
from purgatory.service.store.contract import Store

log: logging.Logger = logging.getLogger(__name__)

_STATUS_BYTES = 300


def job_end_frames(state: ServerState, store: Store) -> list[tuple[bytes, bytes]]:
    """Encode the noted ends, for each connection; raises StoreError for damage.

    They have results, but no payloads.
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
