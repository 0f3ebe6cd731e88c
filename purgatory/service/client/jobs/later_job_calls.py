"""LaterJobCalls: the calls of `LaterCalls` about jobs. Any thread may make a call."""

import contextlib
import sys
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, cast

from purgatory.service.client.arguments import (
    Duration,
    JobName,
    checked_choice,
    checked_cursor,
    checked_number,
    checked_text,
    checked_texts,
    duration_ms,
    filter_text,
    moment_ms,
    not_one_of_two,
    unique_ms_of,
)
from purgatory.service.client.call_sender import CallSender
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.jobs.job_handle import ClientJobs, JobHandle, ScheduledFuture
from purgatory.service.client.jobs.job_waits import JobEndFuture
from purgatory.service.errors import Unavailable
from purgatory.service.job_messages import (
    JOB_STATES,
    ORDERS,
    PRIORITIES,
    CancelJobs,
    CancelMatching,
    CountJobs,
    Cursor,
    JobFilter,
    JobPage,
    JobStatus,
    KindLimit,
    ListJobs,
    Overview,
    ReadJobs,
    ReadLimits,
    ReadOverview,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
    WatchJobs,
)
from purgatory.service.protocol import (
    MADE_UP,
    MAX_INT,
    Submission,
    SubmissionOptions,
    Submit,
    own_key,
)
from timingwheel.lowlevel import check_count, plain_number


class LaterJobCalls(CallSender):
    """The calls about jobs; see `LaterCalls`."""

    def schedule_later(
        self,
        delay: Duration | None = None,
        *,
        kind: str = "",
        payload: Any = None,
        job_id: str | None = None,
        at: datetime | None = None,
        tags: Iterable[str] = (),
        unless: Iterable[str] = (),
        unique_for: Duration | None = None,
        priority: int = 0,
        start_within: Duration | None = None,
    ) -> ReplyFuture[JobHandle]:
        """Schedule a job for a worker of this client's name; answers with its handle.

        The job is due after `delay`, in seconds, as a timedelta or a text like "30m"; or at `at`,
        an aware datetime. One is required. `kind` chooses the worker's handler, which gets
        `payload`. With the answer the job is on disk; it is done at least once.

        `job_id`: the server adds no second job of this id while the job lives, and for `unique_for`
        after its end, as in `defer`. `tags`: to list and cancel jobs. `unless`: an event of any of
        these keys cancels the job, unless it runs or has ended. `priority`: from -10 to 10; of a
        kind, higher ones first. `start_within`: the server cancels the job if no handler has begun
        it for so long after it was due.
        """
        timeout_ms, due_ms = _time_of(delay, at)
        start_within_ms = None
        if start_within is not None:
            start_within_ms = duration_ms(start_within, "start_within")
        options = SubmissionOptions(
            unique_ms_of(unique_for, job_id),
            checked_texts(tags, "tags"),
            check_count("priority", priority, PRIORITIES[0], PRIORITIES[-1]),
            start_within_ms,
            due_ms,
        )
        is_made_up = job_id is None
        if job_id is None:
            with self._batcher.lock:
                job_id = self._next_id()
        job_id = checked_text(job_id, "job_id")
        keys = tuple(dict.fromkeys(checked_texts(unless, "unless"))) or (own_key(job_id),)
        kind, packed = checked_text(kind, "kind"), self._packed(payload)
        submission = Submission(
            job_id, keys, timeout_ms, 0, kind, packed, None if options == _PLAIN else options
        )
        # `self` is a `Client`.
        future = ScheduledFuture(cast("ClientJobs", self), is_made_up=is_made_up)
        return self._call(Submit, submission, future)

    def job_later(self, job: JobName) -> ReplyFuture[JobStatus | None]:
        """Read the status of a job; None: unknown."""
        return self._call(ReadJobs, job_id_of(job))

    def jobs_page_later(
        self,
        *,
        state: str | None = None,
        kind: str | None = None,
        tag: str | None = None,
        client: str | None = None,
        order: str = "due",
        cursor: Cursor | None = None,
        limit: int = 100,
    ) -> ReplyFuture[JobPage]:
        """Read a page of `jobs`, as `list_page` does; `cursor` None: the first page."""
        wanted = check_filters(state=state, kind=kind, tag=tag, client=client, order=order)
        after = None
        if cursor is not None:
            value, number = checked_cursor(cursor)
            after = checked_number(value, "cursor", -MAX_INT), checked_number(number, "cursor")
        return self._call(ListJobs, (wanted, order, checked_number(limit, "limit", 1), after))

    def job_counts_later(
        self,
        *,
        kind: str | None = None,
        tag: str | None = None,
        state: str | None = None,
        client: str | None = None,
    ) -> ReplyFuture[dict[tuple[str, str], int]]:
        """Count the matching jobs by kind and state, without zeros.

        Kinds beyond the 100 busiest are counted as "other". With a filter the server looks at each
        job.
        """
        wanted = check_filters(kind=kind, tag=tag, state=state, client=client)
        return self._call(CountJobs, (None if wanted == JobFilter() else wanted,))

    def overview_later(self, *, client: str | None = None) -> ReplyFuture[Overview]:
        """Read how many jobs, by kind, and operations are in each state.

        Of a kind also the wait of the oldest ready job, the workers, and whether it is paused.
        `client`: of that client alone; the server looks at each job.
        """
        wanted = None if client is None else checked_text(client, "client")
        return self._call(ReadOverview, (wanted,))

    def cancel_job_later(self, job: JobName) -> ReplyFuture[bool]:
        """Cancel a job; False if it has ended, is dead or is not known.

        A job that no worker holds ends at once. For a running job, `job.cancelled` is set in the
        handler, and no attempt follows: the job ends as done if the handler succeeds, else as
        cancelled. `drop_job` forgets a dead job.
        """
        return self._call(CancelJobs, job_id_of(job))

    def cancel_jobs_later(
        self,
        *,
        kind: str | None = None,
        tag: str | None = None,
        state: str | None = None,
        client: str | None = None,
    ) -> ReplyFuture[int]:
        """Cancel all jobs that match now, as `cancel_job` does; answers how many.

        Raises TypeError without a filter.
        """
        wanted = check_filters(state=state, kind=kind, tag=tag, client=client)
        if wanted == JobFilter():
            raise TypeError("no filter is given; expected kind, tag, state or client")
        return self._call(CancelMatching, (wanted,))

    def reschedule_job_later(
        self, job: JobName, delay: Duration | None = None, *, at: datetime | None = None
    ) -> ReplyFuture[bool]:
        """Move a job to another time, `delay` from now or `at` an aware datetime.

        False if the job runs, has ended, is dead or is not known. `at` in the past: due now.
        """
        timeout_ms, due_ms = _time_of(delay, at)
        job_id = job_id_of(job)
        delay_ms = timeout_ms if due_ms is None else None
        return self._call(RescheduleJobs, Reschedule(job_id, delay_ms, due_ms))

    def run_job_later(self, job: JobName) -> ReplyFuture[bool]:
        """Have a job run now; False unless scheduled, ready or retrying."""
        return self._call(RescheduleJobs, Reschedule(job_id_of(job), 0))

    def retry_job_later(self, job: JobName) -> ReplyFuture[bool]:
        """Have a dead job tried again, from the first attempt; False: not dead."""
        return self._call(RetryJobs, ([job_id_of(job)], False))

    def drop_job_later(self, job: JobName) -> ReplyFuture[bool]:
        """Forget a dead job; False: not dead."""
        return self._call(RetryJobs, ([job_id_of(job)], True))

    def pause_later(self, kind: str) -> ReplyFuture[None]:
        """Lease no more jobs of a kind; leased jobs may begin."""
        return self._call(SetLimit, (checked_text(kind, "kind"), True))

    def resume_later(self, kind: str) -> ReplyFuture[None]:
        """End the pause of a kind."""
        return self._call(SetLimit, (checked_text(kind, "kind"), False))

    def limit_later(
        self, kind: str, running: int | None = None, per_second: float | None = None
    ) -> ReplyFuture[None]:
        """Limit jobs of a kind, over all workers of the server, also after a restart.

        `running`: most jobs leased at a time, running or taken ahead. `per_second`: jobs leased a
        second, on average; up to twice as many in the second after a quiet one. None leaves a limit
        as before; 0 removes it. Raises TypeError if both are None.
        """
        if running is None and per_second is None:
            raise TypeError("no limit is given; expected running or per_second; 0: no limit")
        if running is not None:
            running = checked_number(running, "running")
        rate = None if per_second is None else _checked_rate(per_second)
        return self._call(SetLimit, (checked_text(kind, "kind"), None, running, rate))

    def limits_later(self) -> ReplyFuture[list[KindLimit]]:
        """Read the limits of the limited or paused kinds."""
        return self._call(ReadLimits, ())

    @contextlib.contextmanager
    def _end_of(self, job_id: str) -> Iterator[JobEndFuture]:
        future = JobEndFuture(job_id)
        try:
            self._watch(future)
            yield future
        finally:
            self._job_waits.leave(future)

    def _watch(self, future: JobEndFuture) -> None:
        watch = self._job_waits.enter(future)
        if watch is None:
            return
        try:
            self._call(WatchJobs, future.job_id, watch)
        except BaseException:
            # Other callers may wait for the same job by now.
            self._job_waits.fail([(future.job_id, watch)], Unavailable("the call was not made"))
            raise


#: These options are not sent.
_PLAIN = SubmissionOptions(MADE_UP)


def job_id_of(job: JobName) -> str:
    """Return the id of a job. Raises TypeError, ValueError."""
    job_id = getattr(job, "id", job)
    if not isinstance(job_id, str):
        raise TypeError(f"job is {job!r}; expected the job's id, handle or status")
    return checked_text(job_id, "job")


def check_filters(*, order: str = "due", **filters: str | None) -> JobFilter:
    """Return a filter of state, kind, tag and client."""
    checked_choice(order, "order", ORDERS)
    texts = {name: filter_text(text, name) for name, text in filters.items()}
    wanted = JobFilter(**texts)
    if wanted.state is not None:
        checked_choice(wanted.state, "state", JOB_STATES)
    return wanted


def _time_of(delay: Duration | None, at: datetime | None) -> tuple[int, int | None]:
    if (delay is None) == (at is None):
        raise not_one_of_two("delay", "at", is_both=at is not None)
    if delay is not None:
        return duration_ms(delay, "delay"), None
    return 0, moment_ms(at, "at")


def _checked_rate(per_second: object) -> float:
    rate = plain_number(per_second)
    if rate is None:
        raise TypeError(f"per_second is {per_second!r}; expected a number")
    if not 0 <= rate <= sys.float_info.max:
        raise ValueError(f"per_second is {per_second!r}; expected a finite number of 0 or more")
    return float(rate)
