"""`/v1/operations` and `/v1/keys`: submit, list, look at, extend, cancel, complete, fail."""

import asyncio
from typing import Annotated, Final, Literal

from msgspec import Meta, Raw

from purgatory.service.client.arguments import duration_ms
from purgatory.service.errors import OperationFailed, ServiceError
from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.endpoint import decoded, endpoint
from purgatory.service.gateway.messages import (
    BatchItems,
    BatchReply,
    BatchResult,
    Count,
    Done,
    ExtensionRequest,
    KeyChange,
    Name,
    OperationList,
    OperationReport,
    OperationRequest,
    PageLimit,
    Receipt,
    report,
)
from purgatory.service.gateway.problems import ApiError, problem_of
from purgatory.service.protocol import (
    Cancel,
    Complete,
    Extend,
    OperationStatus,
    Query,
    ReadOperations,
    Submit,
)

_UNKNOWN: Final = "unknown"
_OperationState = Literal["pending", "completed", "failed", "expired", "cancelled"] | None


@endpoint("POST", "/v1/operations", Submit, "Submit an operation", 201)
async def submit(caller: Caller, data: OperationRequest) -> Receipt:
    """Have an operation wait; with the answer it is on disk."""
    return await _submit(caller, data)


@endpoint("POST", "/v1/batch/operations", Submit, "Submit many")
async def submit_batch(caller: Caller, data: BatchItems) -> BatchReply:
    """Have operations wait; each is submitted, or refused, by itself."""
    replies = await asyncio.gather(
        *[_submit_item(caller, each) for each in data.operations], return_exceptions=True
    )
    return BatchReply([_result(reply) for reply in replies])


async def _submit_item(caller: Caller, item: Raw) -> Receipt:
    return await _submit(caller, decoded(item, OperationRequest, "operation"))


async def _submit(caller: Caller, wanted: OperationRequest) -> Receipt:
    receipt = await caller.client.submit(
        *wanted.keys,
        timeout=wanted.timeout,
        need=wanted.need,
        kind=wanted.kind,
        op_id=wanted.op_id,
        unique_for=wanted.unique_for,
        payload=wanted.payload,
    )
    return Receipt(receipt.op_id, receipt.state)


def _result(reply: Receipt | BaseException) -> BatchResult:
    if isinstance(reply, Receipt):
        return BatchResult(receipt=reply)
    if isinstance(reply, (ApiError, ServiceError, ValueError, TypeError)):
        return BatchResult(problem=problem_of(reply))
    raise reply


@endpoint("GET", "/v1/operations", ReadOperations, "List operations")
async def list_operations(
    caller: Caller,
    state: _OperationState = None,
    kind: Name | None = None,
    key: Name | None = None,
    client: Name | None = None,
    order: Literal["oldest", "newest"] = "oldest",
    limit: PageLimit = 100,
    cursor: Annotated[int, Meta(ge=0, le=2**63 - 1, description="of the page before")] = 0,
) -> OperationList:
    """Return a page of operations in order of submission; `key`: those watching it."""
    if caller.access.own_only and client not in (None, caller.name):
        return OperationList([], None)
    page = await caller.client.list_page(
        state=state,
        kind=kind,
        key=key,
        client=caller.seen(client),
        order=order,
        with_jobs=False,
        limit=limit,
        cursor=cursor,
    )
    return OperationList([report(OperationReport, each) for each in page.states], page.after)


@endpoint("GET", "/v1/operations/{op_id}", Query, "Look at an operation")
async def look(caller: Caller, name: str) -> OperationReport:
    """Return the state of an operation. The outcome stays unread."""
    return report(OperationReport, await _status(caller, name))


@endpoint("PATCH", "/v1/operations/{op_id}", Extend, "Extend an operation")
async def extend(caller: Caller, name: str, data: ExtensionRequest) -> Done:
    """Restart the timeout of an operation, unless ended."""
    duration_ms(data.timeout, "timeout")  # before a look
    await _status(caller, name)
    return Done(await caller.client.extend(name, data.timeout))


@endpoint("DELETE", "/v1/operations/{op_id}", Cancel, "Cancel an operation")
async def cancel(caller: Caller, name: str) -> Done:
    """Cancel an operation, unless ended."""
    await _status(caller, name)
    return Done(await caller.client.cancel(name))


async def _status(caller: Caller, op_id: str) -> OperationStatus:
    """Return an operation that the caller may see. Raises ApiError."""
    status = await caller.client.query(op_id)
    foreign = caller.access.own_only and status.client != caller.name
    if status.state == _UNKNOWN or foreign:
        raise ApiError(404, "unknown", f"operation {op_id!r} is not known")
    return status


@endpoint("POST", "/v1/keys/{key}", Complete, "Complete a key, or let it fail")
async def change_key(caller: Caller, name: str, data: KeyChange) -> Count:
    """Return how many operations ended; with the answer it is on disk."""
    client = caller.client
    if data.error is None:
        return Count(await client.complete(name, data.value, limit=data.limit, hold=data.hold))
    if data.value is not None or data.limit is not None or duration_ms(data.hold, "hold"):
        raise ValueError("error comes alone; expected no value, limit or hold beside it")
    error = OperationFailed(data.error.type, data.error.message)
    return Count(await client.fail(name, error))
