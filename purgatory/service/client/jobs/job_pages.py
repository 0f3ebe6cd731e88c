"""Lists of jobs, page by page. Any thread."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Final

from purgatory.service.job_messages import JobPage, JobStatus

#: Most jobs asked for at once.
PAGE: Final = 500


def jobs_of(
    read: Callable[..., JobPage], left: int, filters: dict[str, Any]
) -> Iterator[JobStatus]:
    """Yield at most `left` jobs; `read` returns a page of matching jobs."""
    cursor = None
    while left > 0:
        page = read(cursor=cursor, limit=min(left, PAGE), **filters)
        yield from page.jobs
        left -= len(page.jobs)
        cursor = page.after
        if cursor is None:
            return


async def async_jobs_of(
    read: Callable[..., Awaitable[JobPage]], left: int, filters: dict[str, Any]
) -> AsyncIterator[JobStatus]:
    """Yield jobs as `jobs_of` does; `read` is awaited."""
    cursor = None
    while left > 0:
        page = await read(cursor=cursor, limit=min(left, PAGE), **filters)
        for status in page.jobs:
            yield status
        left -= len(page.jobs)
        cursor = page.after
        if cursor is None:
            return
