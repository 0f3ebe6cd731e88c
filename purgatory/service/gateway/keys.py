"""`/v1/keys/{key}`: complete keys, and let them fail."""

from __future__ import annotations

from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.errors import OperationFailed
from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.json_values import seconds
from purgatory.service.gateway.messages import Count, KeyChange
from purgatory.service.gateway.operations import text_after
from purgatory.service.gateway.problems import RESPONSES


@post(
    "/v1/keys/{key:path}",
    opt={"right": "complete"},
    responses=RESPONSES,
    status_code=200,
    dependencies={"name": text_after("/v1/keys/")},
    summary="Complete a key, or let it fail",
)
async def change_key(
    caller: NamedDependency[Caller], name: NamedDependency[str], data: JSONBody[KeyChange]
) -> Count:
    """Return how many operations that ended; it is on disk then."""
    return Count(await _change(caller.client, name, data))


async def _change(client: AsyncClient, key: str, change: KeyChange) -> int:
    hold = seconds(change.hold)
    if change.error is None:
        return await client.complete(key, change.value, limit=change.limit, hold=hold)
    if change.value is not None or change.limit is not None or hold:
        raise ValueError("error comes alone; expected no value, limit or hold beside it")
    return await client.fail(key, OperationFailed(change.error.type, change.error.message))
