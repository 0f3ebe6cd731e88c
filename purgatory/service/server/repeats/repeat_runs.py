"""RepeatRuns: submits the jobs of repeats whose time has come.

A run is an ordinary job with the repeat's name as a tag. Its id has the name and the time, and the
job is committed with the repeat's next time: so no restart submits it twice.

    time comes ──> missed? ── no ──> a run has not ended, and overlap is skip? ── no ──> job
                     │                          yes: skipped
                     └─ yes: none, one, or all in turn

A time is *missed* if no server ran, or the repeat was paused; or if the server examines it more
than LATE_MS too late, as after a stop of its process. Of missed times that run in turn, each waits
for the end of the run before, unless overlaps are allowed.

A transaction makes few jobs, so that no request or other repeat waits. Store thread alone.
"""

import logging
from itertools import islice
from typing import Final

from msgspec.structs import astuple

from purgatory.service.errors import Refused, TooMuchMemory
from purgatory.service.job_messages import JobFilter, Repeat
from purgatory.service.protocol import MADE_UP, Submission, own_key
from purgatory.service.server.jobs.job_index import NEWEST_START
from purgatory.service.server.memory import job_bytes, operation_bytes
from purgatory.service.server.records.job_record import (
    DEAD,
    READY,
    RETRYING,
    RUNNING,
    SCHEDULED,
    JobRecord,
)
from purgatory.service.server.repeats.repeat_record import (
    RepeatKey,
    RepeatRecord,
    name_of_run,
    run_id,
)
from purgatory.service.server.state import ServerState
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.server.validation import RequestValidator, SubmissionValues
from purgatory.service.store.rows import Options

log: logging.Logger = logging.getLogger(__name__)

LATE_MS: Final = 60_000
#: Times that a transaction handles, of all repeats and of one; then a pause.
STEPS: Final = 50
STEPS_OF_ONE: Final = 20
PAUSE_MS: Final = 10
#: A repeat that waits for its run is examined after this time, longer with many repeats; a refused
#: job is retried after the third.
POLL_MS: Final = 100
REPEATS_PER_MS: Final = 5
REFUSED_MS: Final = 1000
#: Kept ids of a repeat's jobs.
RUNS_KEPT: Final = 20
#: Jobs examined for runs of a deleted repeat.
JOBS_SEEN: Final = 10_000
#: Ids of runs at shorter intervals are kept for minutes only.
REMEMBERED_EVERY_MS: Final = 60_000
#: States of a run that prevent another, if overlaps are skipped.
LIVE: Final = (READY, RUNNING, RETRYING)


class RepeatRuns:
    """Submits the runs of repeats."""

    def __init__(self, state: ServerState, validator: RequestValidator) -> None:
        self._state = state
        self._validator = validator

    def run_due(self, transaction: Transaction) -> None:
        """Submit some of the due runs."""
        wake_ms = self._state.repeats.next_wake_ms()
        if wake_ms is None or wake_ms > transaction.clock_ms:
            return
        steps = STEPS
        for record in transaction.repeats.take_due(transaction.clock_ms, STEPS):
            if steps <= 0:
                break  # the rest comes again
            steps -= self.advance(transaction, record, min(steps, STEPS_OF_ONE))

    def advance(self, transaction: Transaction, record: RepeatRecord, most: int) -> int:
        """Handle up to `most` due times; return how many."""
        now_ms = transaction.clock_ms
        record = record._replace(wake_ms=0)
        steps = 0
        while not record.wake_ms and steps < most and record.next_ms and record.due_ms <= now_ms:
            record = self._step(transaction, record)
            steps += 1
        if not record.wake_ms and record.next_ms:
            due_ms = record.due_ms
            record = record._replace(wake_ms=due_ms if due_ms > now_ms else now_ms + PAUSE_MS)
        transaction.repeats.put(record)
        return steps

    def _step(self, transaction: Transaction, record: RepeatRecord) -> RepeatRecord:
        at_ms, now_ms = record.next_ms, transaction.clock_ms
        skips = record.settings.overlap == "skip"
        was_busy = skips and at_ms <= record.busy_until_ms
        is_late = now_ms - record.due_ms > LATE_MS and not was_busy
        if is_late and at_ms > record.missed_until_ms:
            record = record._replace(missed_until_ms=now_ms)
        if at_ms <= record.missed_until_ms:
            return self._step_missed(transaction, record, skips=skips)
        if was_busy:
            return record.skip(at_ms)
        if skips:
            record = self.without_ended(record)
            if self.is_busy(record):
                return record.skip(at_ms)
        return self.begin(transaction, record, at_ms, record.time_after(at_ms))

    def _step_missed(
        self, transaction: Transaction, record: RepeatRecord, *, skips: bool
    ) -> RepeatRecord:
        at_ms, now_ms, missed = record.next_ms, transaction.clock_ms, record.settings.missed
        if missed == "none":
            return record._replace(next_ms=record.time_after(record.missed_until_ms))
        record = self.without_ended(record) if skips else record
        is_busy = skips and self.is_busy(record)
        if missed == "all":
            if is_busy:
                poll_ms = now_ms + POLL_MS + len(self._state.repeats) // REPEATS_PER_MS
                return record._replace(busy_until_ms=now_ms, wake_ms=poll_ms)
            return self.begin(transaction, record, at_ms, record.time_after(at_ms))
        if is_busy:
            return record.skip(record.missed_until_ms)
        return self.begin(transaction, record, at_ms, record.time_after(record.missed_until_ms))

    def begin(
        self, transaction: Transaction, record: RepeatRecord, at_ms: int, next_ms: int
    ) -> RepeatRecord:
        """Submit a time's run, once; continue with `next_ms`. A refused job is retried."""
        before = self._state.known.get(run_id(record.settings.name, at_ms))
        if before is not None and before.client.name == record.client:
            return record._replace(last_ms=at_ms, next_ms=next_ms)
        try:
            return self.submit(transaction, record, at_ms)._replace(next_ms=next_ms)
        except Refused as refusal:
            name = record.settings.name
            log.warning("repeat %r of %r cannot run now: %s", name, record.client, refusal)
            return record._replace(wake_ms=transaction.clock_ms + REFUSED_MS)

    def submit(self, transaction: Transaction, record: RepeatRecord, at_ms: int) -> RepeatRecord:
        """Submit a run; return the repeat, with the same next time. Raises Refused."""
        state = self._state
        client = state.clients.record(record.client)
        job_id = self._free_id(run_id(record.settings.name, at_ms))
        repeat = record.settings
        submission = Submission(job_id, (own_key(job_id),), 0, 0, repeat.kind, repeat.payload)
        options = Options(self._unique_ms(repeat), (repeat.name,))
        values: SubmissionValues = astuple(submission)[:6]
        total = transaction.total
        refusal = self._validator.check_submission(submission, values, client, total)
        size = operation_bytes(job_id, values[4], values[1])
        if refusal is None and size + job_bytes(options.tags, submission.keys) > state.memory_left:
            refusal = TooMuchMemory(f"no room for the job {job_id!r}")
        if refusal is not None:
            state.clients.drop_if_idle(client)
            raise refusal
        transaction.submit(client, values, size, options)
        return record._replace(last_ms=at_ms, runs=(*record.runs, job_id)[-RUNS_KEPT:])

    def _unique_ms(self, repeat: Repeat) -> int:
        """Return for how long to remember a run's id after its end.

        Ids of frequent runs would fill the memory.
        """
        remembered = self._state.remembered
        is_frequent = 0 < (repeat.every_ms or 0) < REMEMBERED_EVERY_MS
        if is_frequent or remembered.refusal(remembered.remember_ms) is not None:
            return MADE_UP
        return remembered.remember_ms

    def _free_id(self, job_id: str) -> str:
        """Return a free id: two clients' repeats may have one name."""
        number, free = 1, job_id
        while free in self._state.known:
            number += 1
            free = f"{job_id}#{number}"
        return free

    def runs_of_deleted(self, transaction: Transaction, key: RepeatKey) -> tuple[str, ...]:
        """Return the ids of a deleted repeat's unfinished runs, the latest last.

        A new repeat of the name does not overlap with them. Examines the newest jobs.
        """
        walk = self._state.jobs.walk(JobFilter(tag=key[1]), "newest", NEWEST_START)
        newest = [job.op_id for job in islice(walk, JOBS_SEEN) if _is_run(job, key)]
        # The index does not have the runs of this transaction.
        runs = dict.fromkeys((*reversed(newest), *transaction.repeats.removed_runs(key)))
        return tuple(runs)[-RUNS_KEPT:]

    def is_busy(self, record: RepeatRecord) -> bool:
        """Whether a run is due and has not ended."""
        return any(self._is_live(job_id) for job_id in record.runs)

    def without_ended(self, record: RepeatRecord) -> RepeatRecord:
        """Return a repeat without the ids of runs that cannot run again."""
        runs = tuple(
            job_id
            for job_id in record.runs
            if (job := self._job(job_id)) is not None and _may_run(job)
        )
        return record if len(runs) == len(record.runs) else record._replace(runs=runs)

    def _is_live(self, job_id: str) -> bool:
        job = self._job(job_id)
        if job is None:
            return False
        # A run that is due now, or postponed, is not ready yet.
        is_due = job.state == SCHEDULED and job.due_ms <= self._state.stamp.now_ms
        return is_due or job.state in LIVE

    def _job(self, job_id: str) -> JobRecord | None:
        entry = self._state.known.get(job_id)
        return None if entry is None else entry.job


def _is_run(job: JobRecord, key: RepeatKey) -> bool:
    return (job.client, name_of_run(job.op_id)) == key and key[1] in job.tags and _may_run(job)


def _may_run(job: JobRecord) -> bool:
    """Whether a job may run: a dead job may be retried."""
    return job.is_alive or job.state == DEAD
