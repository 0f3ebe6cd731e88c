"""`/v1/counts`: counts of jobs and operations, and troubles; also as a stream."""

import contextlib
from collections.abc import AsyncGenerator

import msgspec

from purgatory.service.errors import ServiceError
from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.count_feed import counts_of, read_overview
from purgatory.service.gateway.endpoint import endpoint
from purgatory.service.gateway.messages import JobCountReport, JobState, Name
from purgatory.service.gateway.problems import ApiError, problem_of
from purgatory.service.job_messages import CountJobs


@endpoint("GET", "/v1/counts", CountJobs, "Count jobs")
async def count(
    caller: Caller,
    state: JobState | None = None,
    kind: Name | None = None,
    tag: Name | None = None,
    client: Name | None = None,
) -> JobCountReport:
    """Return how many jobs match; a filter makes the server look at each job."""
    wanted = {"state": state, "kind": kind, "tag": tag}
    client = caller.seen(client)
    if all(value is None for value in wanted.values()):  # "" is a kind, too
        return await read_overview(caller.client, client)
    return counts_of(await caller.client.job_counts(**wanted, client=client))


@endpoint("GET", "/v1/counts/stream", CountJobs, "Follow the counts")
async def follow(caller: Caller) -> AsyncGenerator[bytes]:
    """Send the counts of the jobs that the token sees as server-sent events, as they change.

    The event's name is `counts`. Without a change comments come. The last event is a `problem` if
    the token is revoked, or the server refuses.
    """
    sees_all = not caller.access.own_only
    async with contextlib.aclosing(caller.counts.read(sees_all=sees_all)) as feed:
        try:
            async for found in feed:
                caller.check()
                yield b":\n\n" if found is None else _event("counts", found)
        except (ApiError, ServiceError) as error:  # the answer has begun
            yield _event("problem", problem_of(error))


def _event(name: str, content: msgspec.Struct) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(content))
