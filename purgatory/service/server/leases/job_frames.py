"""JobFrames: leases jobs, and makes the frames of jobs. Store thread alone."""

import logging
from typing import Final

from purgatory.service.encoding import encode
from purgatory.service.errors import refusal_of
from purgatory.service.protocol import Jobs, LeasedJob
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.job_leases import JobLeases
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.reads.outcome_frames import in_frames, raw_value
from purgatory.service.store.contract import Store
from purgatory.service.store.rows import MAX_BATCH, StoredOperation

log: logging.Logger = logging.getLogger(__name__)

_JOB_BYTES: Final = 200
# Unreadable jobs are leased again after this time.
RETRY_MS: Final = 1000
#: Jobs read at once: mostly a row, decoded as a whole.
PORTION: Final = MAX_BATCH


class JobFrames:
    """Makes frames of the jobs of `leases` and `store`. Raises StoreError."""

    def __init__(self, leases: JobLeases, store: Store) -> None:
        self._leases = leases
        self._store = store

    def assign(self, now_ms: int) -> list[tuple[bytes, bytes]]:
        """Lease jobs to workers; return routes and frames, notices first."""
        notices = [(route, encode(message)) for route, message in self._leases.take_notices()]
        given = self._leases.assign(now_ms)
        by_worker: dict[bytes, list[LeasedJob]] = {}
        for start in range(0, len(given), PORTION):
            portion = given[start : start + PORTION]
            try:
                self._add_messages(portion, by_worker)
            except Exception as error:
                refusal_of(error)  # raises it if the store is damaged
                log.exception("%d jobs cannot be read", len(portion))
                for _, job in portion:
                    self._leases.put_back(job, counts=False, at_ms=now_ms + RETRY_MS)
        return notices + [
            (route, encode(Jobs(jobs)))
            for route, messages in by_worker.items()
            for jobs in in_frames(messages, _size)
        ]

    def _add_messages(
        self, given: list[tuple[WorkerConnection, DueJob]], by_worker: dict[bytes, list[LeasedJob]]
    ) -> None:
        stored = self._store.by_numbers([job.record.number for _, job in given])
        for worker, job in given:
            message = _leased_job(job, stored[job.record.number])
            by_worker.setdefault(worker.route, []).append(message)


def _size(message: LeasedJob) -> int:
    # A character takes up to four bytes.
    return _JOB_BYTES + len(message.payload) + sum([5 + 4 * len(tag) for tag in message.tags])


def _leased_job(job: DueJob, row: StoredOperation) -> LeasedJob:
    return LeasedJob(
        job.record.seq,
        job.token,
        row.op_id,
        row.kind,
        job.attempts + 1,
        row.submitted_ms,
        row.deadline_ms,
        raw_value(row.payload),
        [] if row.options is None else list(row.options.tags),
    )
