"""`/v1/limits`: pause and limit the kinds of jobs, for all workers of the server."""

from __future__ import annotations

from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.endpoint import endpoint
from purgatory.service.gateway.messages import LimitList, LimitReport, LimitRequest
from purgatory.service.job_messages import ReadLimits, SetLimit


@endpoint("GET", "/v1/limits", ReadLimits, "List the limits of kinds")
async def list_limits(caller: Caller) -> LimitList:
    """Return the paused and the limited kinds."""
    return await _limits(caller)


@endpoint("PATCH", "/v1/limits", SetLimit, "Limit, pause or resume a kind")
async def change(caller: Caller, data: LimitRequest) -> LimitList:
    """Change the limits of a kind. After the answer they are on disk."""
    client = caller.client
    if data.running is not None or data.per_second is not None:
        await client.limit(data.kind, data.running, data.per_second)
    if data.paused is not None:
        await (client.pause if data.paused else client.resume)(data.kind)
    return await _limits(caller)


async def _limits(caller: Caller) -> LimitList:
    found = await caller.client.limits()
    return LimitList(
        [LimitReport(each.kind, each.paused, each.running, each.per_second) for each in found]
    )
