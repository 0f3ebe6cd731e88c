"""`/v1/batch/jobs`: cancel, or retry, all matching jobs."""

from __future__ import annotations

import asyncio

from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.endpoint import endpoint
from purgatory.service.gateway.messages import Count, DeadSelection, JobSelection
from purgatory.service.job_messages import CancelMatching, Cursor, RetryJobs

# Dead jobs that are read, and retried, at a time.
_PAGE = 500


@endpoint("POST", "/v1/batch/jobs/cancel", CancelMatching, "Cancel the jobs that match")
async def cancel_matching(caller: Caller, data: JobSelection) -> Count:
    """Cancel all jobs that match now; returns how many, which are on disk then."""
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
