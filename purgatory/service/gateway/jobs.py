"""`/v1/jobs`: schedule, list, look at, move, cancel, run, retry; `/v1/limits` of their kinds."""

import asyncio
import re
from typing import Annotated, Final, Literal

from msgspec import Meta

from purgatory.service.gateway.callers import Caller, check_right
from purgatory.service.gateway.endpoint import endpoint
from purgatory.service.gateway.messages import (
    Count,
    DeadSelection,
    Done,
    JobDetails,
    JobList,
    JobReceipt,
    JobReport,
    JobRequest,
    JobSelection,
    JobState,
    LimitList,
    LimitReport,
    LimitRequest,
    Name,
    PageLimit,
    RescheduleRequest,
    report,
)
from purgatory.service.gateway.problems import ApiError
from purgatory.service.job_messages import (
    CancelJobs,
    CancelMatching,
    Cursor,
    JobStatus,
    ListJobs,
    ReadJobs,
    ReadLimits,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
)
from purgatory.service.protocol import Submit
from purgatory.service.verbs import VERBS

_CURSOR: Final = re.compile(r"(-?\d{1,18})\.(\d{1,18})")


@endpoint("POST", "/v1/jobs", Submit, "Schedule a job", 201)
async def schedule(caller: Caller, data: JobRequest) -> JobReceipt:
    """Have a worker do a job when due; with the answer the job is on disk."""
    job = await caller.client.schedule(
        data.delay,
        at=data.at,
        kind=data.kind,
        payload=data.payload,
        job_id=data.job_id,
        tags=data.tags,
        unless=data.unless,
        unique_for=data.unique_for,
        priority=data.priority,
        start_within=data.start_within,
    )
    return JobReceipt(job.id, job.is_new)


@endpoint("GET", "/v1/jobs", ListJobs, "List jobs")
async def list_jobs(
    caller: Caller,
    state: JobState | None = None,
    kind: Name | None = None,
    tag: Name | None = None,
    client: Name | None = None,
    order: Literal["due", "newest"] = "due",
    limit: PageLimit = 100,
    cursor: Annotated[str, Meta(max_length=40, description="of the page before")] | None = None,
) -> JobList:
    """Return a page of jobs: earliest due first or, newest, latest submission first."""
    if caller.access.own_only and client not in (None, caller.name):
        return JobList([], None)
    page = await caller.client.jobs_page(
        state=state,
        kind=kind,
        tag=tag,
        client=caller.seen(client),
        order=order,
        limit=limit,
        cursor=None if cursor is None else _cursor(cursor),
    )
    after = None if page.after is None else f"{page.after[0]}.{page.after[1]}"
    return JobList([report(JobReport, job) for job in page.jobs], after)


def _cursor(text: str) -> Cursor:
    found = _CURSOR.fullmatch(text)
    if found is None:
        raise ValueError(f"cursor is {text!r}; expected that of an answer")
    return int(found[1]), int(found[2])


@endpoint("GET", "/v1/jobs/{job_id}", ReadJobs, "Look at a job")
async def look(caller: Caller, name: str) -> JobDetails:
    """Return the state of a job, and its attempts."""
    return report(JobDetails, await _status(caller, name))


@endpoint("PATCH", "/v1/jobs/{job_id}", RescheduleJobs, "Move a job")
async def reschedule(caller: Caller, name: str, data: RescheduleRequest) -> Done:
    """Move a job to another time, unless it runs, is dead or has ended."""
    await _status(caller, name)
    return Done(await caller.client.reschedule_job(name, data.delay, at=data.at))


@endpoint("DELETE", "/v1/jobs/{job_id}", None, "Cancel a job, or drop a dead one")
async def cancel(caller: Caller, name: str) -> Done:
    """Cancel a job: a running job gets no further attempt. Dropping a dead job needs `work`."""
    cancels, drops = VERBS[CancelJobs].right, VERBS[RetryJobs].right
    check_right(caller.access, drops if caller.access.has(drops) else cancels)  # before a look
    is_dead = (await _status(caller, name)).state == "dead"
    check_right(caller.access, drops if is_dead else cancels)
    return Done(await (caller.client.drop_job if is_dead else caller.client.cancel_job)(name))


@endpoint("POST", "/v1/jobs/{job_id}/run", RescheduleJobs, "Run a job now")
async def run(caller: Caller, name: str) -> Done:
    """Have a job run now that is scheduled, ready or retrying."""
    await _status(caller, name)
    return Done(await caller.client.run_job(name))


@endpoint("POST", "/v1/jobs/{job_id}/retry", RetryJobs, "Retry a dead job")
async def retry(caller: Caller, name: str) -> Done:
    """Have a dead job tried again, from the first attempt."""
    await _status(caller, name)
    return Done(await caller.client.retry_job(name))


async def _status(caller: Caller, job_id: str) -> JobStatus:
    """Return a job that the caller may see. Raises ApiError."""
    status = await caller.client.job(job_id)
    if status is None or (caller.access.own_only and status.client != caller.name):
        raise ApiError(404, "unknown", f"job {job_id!r} is not known")
    return status


# Dead jobs read and retried at a time.
_PAGE = 500


@endpoint("POST", "/v1/batch/jobs/cancel", CancelMatching, "Cancel the jobs that match")
async def cancel_matching(caller: Caller, data: JobSelection) -> Count:
    """Cancel all jobs that match now; with the answer, how many, it is on disk."""
    if data == JobSelection():
        raise ValueError("no filter is given; expected kind, tag, state or client")
    count = await caller.client.cancel_jobs(
        kind=data.kind, tag=data.tag, state=data.state, client=caller.seen(data.client)
    )
    return Count(count)


@endpoint("POST", "/v1/batch/jobs/retry", RetryJobs, "Retry the dead jobs that match")
async def retry_dead(caller: Caller, data: DeadSelection) -> Count:
    """Have dead jobs tried again from the first attempt; returns how many."""
    owner, count = caller.seen(data.client), 0
    cursor: Cursor | None = None
    while True:
        page = await caller.client.jobs_page(
            state="dead",
            kind=data.kind,
            tag=data.tag,
            client=owner,
            order="newest",  # a retried job keeps its place
            cursor=cursor,
            limit=_PAGE,
        )
        caller.check()
        done = await asyncio.gather(*[caller.client.retry_job(job) for job in page.jobs])
        count, cursor = count + sum(done), page.after
        if cursor is None:
            return Count(count)


@endpoint("GET", "/v1/limits", ReadLimits, "List the limits of kinds")
async def list_limits(caller: Caller) -> LimitList:
    """Return the paused and the limited kinds."""
    return await _limits(caller)


@endpoint("PATCH", "/v1/limits", SetLimit, "Limit, pause or resume a kind")
async def limit(caller: Caller, data: LimitRequest) -> LimitList:
    """Change the limits of a kind; with the answer they are on disk."""
    if data == LimitRequest(data.kind):
        raise ValueError("no change is given; expected paused, running or per_second")
    client = caller.client
    if data.running is not None or data.per_second is not None:
        await client.limit(data.kind, data.running, data.per_second)
    if data.paused is not None:
        await (client.pause if data.paused else client.resume)(data.kind)
    return await _limits(caller)


async def _limits(caller: Caller) -> LimitList:
    return LimitList([report(LimitReport, each) for each in await caller.client.limits()])
