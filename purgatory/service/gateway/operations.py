"""`/v1/operations`, `/v1/jobs` and `/v1/keys`: submit, look at, extend, cancel, complete, fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from litestar import Request, delete, get, patch, post
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody

from purgatory.service.client.async_client import AsyncClient
from purgatory.service.errors import OperationFailed, Refused
from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.json_values import as_json, seconds
from purgatory.service.gateway.messages import (
    BatchReply,
    BatchRequest,
    BatchResult,
    Count,
    Done,
    ExtensionRequest,
    JobRequest,
    KeyChange,
    OperationReport,
    OperationRequest,
    Receipt,
)
from purgatory.service.gateway.problems import RESPONSES, ApiError, problem_of
from purgatory.service.protocol import OperationStatus

_UNKNOWN: Final = "unknown"


def text_after(prefix: str) -> Any:
    """Return a dependency: the text behind `prefix` in a request's path, as it was meant.

    The path itself would not tell `a%2Fb` from `a/b`, nor keep `a//b`. Raises ApiError.
    """

    async def text(request: Request[Any, Any, Any]) -> str:
        raw = request.scope["raw_path"].partition(b"?")[0]
        try:
            found = unquote_to_bytes(raw.removeprefix(prefix.encode())).decode()
        except UnicodeDecodeError as error:
            raise ApiError(400, "malformed", f"path is {raw!r}; expected UTF-8") from error
        return found

    return Provide(text)


_OPERATION: Final = "/v1/operations/"


@post("/v1/operations", opt={"right": "submit"}, responses=RESPONSES, summary="Submit an operation")
async def submit(caller: NamedDependency[Caller], data: JSONBody[OperationRequest]) -> Receipt:
    """Have an operation wait; it is on disk when this is answered."""
    return await _submit(caller, data)


@post("/v1/jobs", opt={"right": "submit"}, responses=RESPONSES, summary="Schedule a job")
async def schedule(caller: NamedDependency[Caller], data: JSONBody[JobRequest]) -> Receipt:
    """Have a worker do a job when it is due; it is on disk when this is answered."""
    reply = caller.client.calls.schedule_later(
        seconds(data.delay),
        kind=data.kind,
        payload=data.payload,
        job_id=data.op_id,
        unless=data.unless,
    )
    receipt = await caller.client.result_of(reply)
    return Receipt(receipt.op_id, receipt.state)


@post(
    "/v1/batch/operations",
    opt={"right": "submit"},
    responses=RESPONSES,
    status_code=200,
    summary="Submit many",
)
async def submit_batch(caller: NamedDependency[Caller], data: JSONBody[BatchRequest]) -> BatchReply:
    """Have operations wait; each is submitted, or refused, by itself."""
    replies = await asyncio.gather(
        *[_submit(caller, each) for each in data.operations], return_exceptions=True
    )
    return BatchReply([_result(reply) for reply in replies])


async def _submit(caller: Caller, wanted: OperationRequest) -> Receipt:
    receipt = await caller.client.submit(
        *wanted.keys,
        timeout=seconds(wanted.timeout),
        need=wanted.need,
        kind=wanted.kind,
        op_id=wanted.op_id,
        payload=wanted.payload,
    )
    return Receipt(receipt.op_id, receipt.state)


def _result(reply: Receipt | BaseException) -> BatchResult:
    if isinstance(reply, Receipt):
        return BatchResult(receipt=reply)
    if isinstance(reply, (Refused, ValueError, TypeError)):
        return BatchResult(problem=problem_of(reply))
    raise reply


@get(
    "/v1/operations/{op_id:path}",
    opt={"right": "read"},
    responses=RESPONSES,
    dependencies={"name": text_after(_OPERATION)},
    summary="Look at an operation",
)
async def look(caller: NamedDependency[Caller], name: NamedDependency[str]) -> OperationReport:
    """Return the state of an operation. Its outcome stays unread."""
    return _shown(await _status(caller, name))


@patch(
    "/v1/operations/{op_id:path}",
    opt={"right": "submit"},
    responses=RESPONSES,
    dependencies={"name": text_after(_OPERATION)},
    summary="Extend an operation",
)
async def extend(
    caller: NamedDependency[Caller], name: NamedDependency[str], data: JSONBody[ExtensionRequest]
) -> Done:
    """Have its timeout count anew from now, unless it has ended."""
    timeout = seconds(data.timeout)
    return await _change(caller, name, lambda: caller.client.extend(name, timeout))


@delete(
    "/v1/operations/{op_id:path}",
    opt={"right": "submit"},
    responses=RESPONSES,
    status_code=200,
    dependencies={"name": text_after(_OPERATION)},
    summary="Cancel an operation",
)
async def cancel(caller: NamedDependency[Caller], name: NamedDependency[str]) -> Done:
    """End it as cancelled, unless it has ended."""
    return await _change(caller, name, lambda: caller.client.cancel(name))


async def _change(caller: Caller, op_id: str, change: Callable[[], Awaitable[bool]]) -> Done:
    """Change an operation that the caller may see; whose it is never changes."""
    await _status(caller, op_id)
    return Done(await change())


async def _status(caller: Caller, op_id: str) -> OperationStatus:
    status = await caller.client.query(op_id)
    foreign = caller.access.own_only and status.client != caller.name
    if status.state == _UNKNOWN or foreign:
        raise ApiError(404, "unknown", f"operation {op_id!r} is not known")
    return status


def _shown(status: OperationStatus) -> OperationReport:
    return OperationReport(
        status.op_id,
        status.state,
        status.kind,
        status.client,
        status.keys,
        status.need,
        status.submitted_ms,
        status.deadline_ms,
        status.at_ms,
        status.by_key,
        status.keys_done,
        as_json(status.result),
        as_json(status.payload),
    )


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
    return Count(await _change_key(caller.client, name, data))


async def _change_key(client: AsyncClient, key: str, change: KeyChange) -> int:
    hold = seconds(change.hold)
    if change.error is None:
        return await client.complete(key, change.value, limit=change.limit, hold=hold)
    if change.value is not None or change.limit is not None or hold:
        raise ValueError("error comes alone; expected no value, limit or hold beside it")
    return await client.fail(key, OperationFailed(change.error.type, change.error.message))
