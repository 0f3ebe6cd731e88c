"""`/v1/keys/{key}`: complete keys, and let them fail."""

from __future__ import annotations

from litestar import post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from purgatory.service.client.futures import ReplyFuture
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
    return Count(await caller.reply(_sent(caller, name, data)))


def _sent(caller: Caller, key: str, event: KeyChange) -> ReplyFuture[int]:
    if event.error is None:
        return caller.client.complete_later(
            key, event.value, limit=event.limit, hold=seconds(event.hold)
        )
    if event.value is not None or event.limit is not None or seconds(event.hold):
        raise ValueError("error comes alone; expected no value, limit or hold beside it")
    return caller.client.fail_later(key, OperationFailed(event.error.type, event.error.message))
