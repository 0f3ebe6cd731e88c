"""`/v1/outcomes`: how a client's operations ended, until acknowledged."""

import contextlib
from collections.abc import AsyncGenerator
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from purgatory.service.errors import ServiceError
from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.endpoint import endpoint
from purgatory.service.gateway.messages import (
    Acknowledgement,
    Count,
    OutcomeList,
    OutcomeReport,
    report,
)
from purgatory.service.gateway.problems import ApiError
from purgatory.service.protocol import Acknowledge, OutcomeMessage, Unread
from purgatory.service.verbs import VERBS

# Seconds between a quiet stream's signs of life.
_QUIET_S: Final = 15.0
_LAST: Final = 2**63 - 1
_Number = Annotated[int, Meta(ge=0, le=_LAST, description="only outcomes beyond this number")]


@endpoint("GET", "/v1/outcomes", Unread, "Read outcomes")
async def unread(caller: Caller, after: _Number = 0) -> OutcomeList:
    """Return the first unacknowledged outcomes beyond number `after`, in order."""
    found = await caller.client.unread(after)
    return OutcomeList([report(OutcomeReport, outcome) for outcome in found])


@endpoint("POST", "/v1/outcomes/acknowledge", Acknowledge, "Acknowledge outcomes")
async def acknowledge(caller: Caller, data: Acknowledgement) -> Count:
    """Have the server forget outcomes; returns how many were unread."""
    return Count(await caller.client.acknowledge(data.numbers))


@endpoint("GET", "/v1/outcomes/stream", Unread, "Follow outcomes")
async def follow(
    caller: Caller, after: _Number = 0, last_event_id: Annotated[str, Meta(max_length=20)] = ""
) -> AsyncGenerator[bytes]:
    """Send unacknowledged outcomes as server-sent events, as they come.

    The event's name is `outcome`, its id the number, its data the outcome as JSON. A reconnecting
    browser continues after its last event.
    """
    is_number = last_event_id.isascii() and last_event_id.isdigit()
    start = min(int(last_event_id), _LAST) if is_number else after
    takes = caller.access.has(VERBS[Acknowledge].right)
    async with contextlib.aclosing(caller.feed.read(start, _QUIET_S, takes=takes)) as outcomes:
        # The token was revoked, or the server refuses; the answer has begun.
        with contextlib.suppress(ApiError, ServiceError):
            async for outcome in outcomes:
                caller.check()
                yield b":\n\n" if outcome is None else _event(outcome)


def _event(outcome: OutcomeMessage) -> bytes:
    data = msgspec.json.encode(report(OutcomeReport, outcome))
    return b"id: %d\nevent: outcome\ndata: %b\n\n" % (outcome.number, data)
