"""`/v1/outcomes`: how a client's operations have ended, until it acknowledges that it knows."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Final

import msgspec
from litestar import get, post
from litestar.di import NamedDependency
from litestar.params import HeaderParameter, JSONBody, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage

from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.json_values import as_json
from purgatory.service.gateway.messages import Acknowledgement, Count, OutcomeList, OutcomeReport
from purgatory.service.gateway.problems import RESPONSES
from purgatory.service.protocol import OutcomeMessage

# Seconds without an outcome after which a stream says that it is there.
_QUIET_S: Final = 15.0
_Number = Annotated[
    int, QueryParameter(ge=0, le=2**63 - 1, description="tell those beyond this number")
]


@get("/v1/outcomes", opt={"right": "read"}, responses=RESPONSES, summary="Read outcomes")
async def unread(caller: NamedDependency[Caller], after: _Number = 0) -> OutcomeList:
    """Return the first unacknowledged outcomes beyond number `after`, in order."""
    found = await caller.client.unread(after)
    return OutcomeList([_shown(outcome) for outcome in found])


@post(
    "/v1/outcomes/acknowledge",
    opt={"right": "submit"},
    responses=RESPONSES,
    status_code=200,
    summary="Acknowledge outcomes",
)
async def acknowledge(caller: NamedDependency[Caller], data: JSONBody[Acknowledgement]) -> Count:
    """Have the server forget outcomes; returns how many of them were unread."""
    count = await caller.client.acknowledge(data.numbers)
    caller.feed.forget(data.numbers)
    return Count(count)


@get(
    "/v1/outcomes/stream",
    opt={"right": "read"},
    responses=RESPONSES,
    summary="Follow outcomes",
    media_type="text/event-stream",
)
async def follow(
    caller: NamedDependency[Caller],
    after: _Number = 0,
    last_event_id: Annotated[str, HeaderParameter(name="Last-Event-ID", max_length=20)] = "",
) -> ServerSentEvent:
    """Send unacknowledged outcomes as server-sent events, as they come.

    The event's name is `outcome`, its id the number, its data the outcome as JSON. A browser that
    connects anew goes on behind the last one that it had.
    """
    start = int(last_event_id) if last_event_id.isascii() and last_event_id.isdigit() else after
    return ServerSentEvent(_events(caller, start))


async def _events(caller: Caller, after: int) -> AsyncGenerator[ServerSentEventMessage]:
    async with contextlib.aclosing(caller.feed.read(after, _QUIET_S)) as outcomes:
        async for outcome in outcomes:
            yield _event(outcome)


def _event(outcome: OutcomeMessage | None) -> ServerSentEventMessage:
    if outcome is None:
        return ServerSentEventMessage(data=None, comment="")  # with data it would be an event
    data = msgspec.json.encode(_shown(outcome)).decode()
    return ServerSentEventMessage(data=data, event="outcome", id=outcome.number)


def _shown(outcome: OutcomeMessage) -> OutcomeReport:
    return OutcomeReport(
        outcome.number,
        outcome.op_id,
        outcome.outcome,
        outcome.at_ms,
        outcome.by_key,
        outcome.kind,
        outcome.submitted_ms,
        outcome.deadline_ms,
        as_json(outcome.result),
        as_json(outcome.payload),
    )
