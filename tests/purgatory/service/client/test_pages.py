"""Lists of jobs, operations or repeats, page by page."""

import asyncio

import pytest

from purgatory.service import JobPage, JobStatus
from purgatory.service.client.pages import PAGE, async_items_of, items_of
from purgatory.service.server.jobs import job_statuses
from purgatory.service.server.reads import status_answers
from purgatory.service.server.repeats import repeat_requests


class Pages:
    """Ten jobs, on pages of at most three, some of which are empty."""

    def __init__(self):
        self.asked = []

    def read(self, *, cursor=None, limit, kind):
        """Return the page after a cursor."""
        self.asked.append((limit, kind))
        start = 0 if cursor is None else cursor[0]
        count = 0 if start == 3 and cursor[1] == 0 else min(limit, 3)
        jobs = [JobStatus(f"{n}", "ready") for n in range(start, min(10, start + count))]
        after = start + count
        return JobPage(1, jobs, None if after >= 10 else (after, 1 if count == 0 else 0))


def jobs_on(page):
    """The items of a page."""
    return page.jobs


def listed(pages, left, way):
    """The ids that are listed, by an iterator or an async one."""
    if way == "iterator":
        return [job.id for job in items_of(pages.read, jobs_on, left, {"kind": "mail"})]

    async def read(**options):
        return pages.read(**options)

    async def main():
        found = async_items_of(read, jobs_on, left, {"kind": "mail"})
        return [job.id async for job in found]

    return asyncio.run(main())


@pytest.mark.parametrize("way", ["iterator", "async"])
def test_all(way):
    """All jobs come, over empty pages, until there are no more."""
    pages = Pages()
    assert listed(pages, 10**9, way) == [f"{n}" for n in range(10)]
    assert pages.asked == [(PAGE, "mail")] * 5


@pytest.mark.parametrize("way", ["iterator", "async"])
@pytest.mark.parametrize(
    ("left", "asked"), [(0, []), (1, [1]), (3, [3]), (4, [4, 1, 1]), (5, [5, 2, 2])]
)
def test_a_limit(way, left, asked):
    """No more are asked for than are wanted, and no fewer."""
    pages = Pages()
    assert listed(pages, left, way) == [f"{n}" for n in range(left)]
    assert [limit for limit, _ in pages.asked] == asked


def test_a_page_is_the_largest_that_a_server_sends():
    """Of jobs, operations and repeats: fewer would cost more calls."""
    assert PAGE == job_statuses.MOST == status_answers.MAX_LISTED == repeat_requests.MAX_LISTED
