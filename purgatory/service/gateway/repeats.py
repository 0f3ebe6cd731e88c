"""`/v1/repeats`: declare, list, look at, delete, run, pause, resume."""

import base64
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from purgatory.service.client.repeats.repeat_handle import RepeatFacts
from purgatory.service.encoding import pack
from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.endpoint import endpoint
from purgatory.service.gateway.messages import (
    Done,
    PageLimit,
    RepeatList,
    RepeatReport,
    RepeatRequest,
    report,
)
from purgatory.service.gateway.problems import ApiError
from purgatory.service.job_messages import (
    ChangeRepeat,
    ReadRepeats,
    RepeatCursor,
    RepeatState,
    SetRepeat,
)

_Client = Annotated[str, Meta(max_length=1024, description="whose; the token's by default")] | None
_ANY: Final = "*"


@endpoint("GET", "/v1/repeats", ReadRepeats, "List repeats")
async def list_repeats(
    caller: Caller,
    client: _Client = None,
    limit: PageLimit = 100,
    cursor: Annotated[str, Meta(max_length=4096, description="of the page before")] | None = None,
) -> RepeatList:
    """Return a page of repeats in order of names; `client=*`: of all clients."""
    if caller.access.own_only and client not in (None, _ANY, caller.name):
        return RepeatList([], None)
    has_all = client == _ANY and not caller.access.own_only
    owner = caller.name if client in (None, _ANY) else client
    page = await caller.client.repeats_page(
        client=None if has_all else owner,
        limit=limit,
        cursor=None if cursor is None else _cursor(cursor),
    )
    after = None if page.after is None else base64.urlsafe_b64encode(pack(page.after)).decode()
    return RepeatList([_report(state) for state in page.repeats], after)


def _cursor(text: str) -> RepeatCursor:
    try:
        client, name = msgspec.msgpack.decode(base64.urlsafe_b64decode(text), type=tuple[str, str])
    except (msgspec.MsgspecError, ValueError) as error:
        raise ValueError(f"cursor is {text!r}; expected that of an answer") from error
    return client, name


@endpoint("GET", "/v1/repeats/{repeat}", ReadRepeats, "Look at a repeat")
async def look(caller: Caller, name: str, client: _Client = None) -> RepeatReport:
    """Return a repeat."""
    return _report(await _state(caller, name, client))


@endpoint("PUT", "/v1/repeats/{repeat}", SetRepeat, "Declare a repeat")
async def declare(caller: Caller, name: str, data: RepeatRequest) -> RepeatReport:
    """Have the server schedule jobs, for the workers of the token's client."""
    reply = caller.client.calls.repeat_later(
        name,
        cron=data.cron,
        every=data.every,
        tz=data.tz,
        kind=data.kind,
        payload=data.payload,
        overlap=data.overlap,
        missed=data.missed,
        jitter=data.jitter,
    )
    return _report(await caller.client.result_of(reply))


@endpoint("DELETE", "/v1/repeats/{repeat}", ChangeRepeat, "Delete a repeat")
async def delete(caller: Caller, name: str, client: _Client = None) -> Done:
    """Delete a repeat; its scheduled jobs stay."""
    return await _change(caller, name, client, "delete")


@endpoint("POST", "/v1/repeats/{repeat}/run", ChangeRepeat, "Run a repeat now")
async def run(caller: Caller, name: str, client: _Client = None) -> Done:
    """Have a job run now, too; not done while another goes on and overlaps are skipped."""
    return await _change(caller, name, client, "run")


@endpoint("POST", "/v1/repeats/{repeat}/pause", ChangeRepeat, "Pause a repeat")
async def pause(caller: Caller, name: str, client: _Client = None) -> Done:
    """Have no more jobs scheduled."""
    return await _change(caller, name, client, "pause")


@endpoint("POST", "/v1/repeats/{repeat}/resume", ChangeRepeat, "Resume a repeat")
async def resume(caller: Caller, name: str, client: _Client = None) -> Done:
    """End a pause; `missed` decides about the passed times."""
    return await _change(caller, name, client, "resume")


async def _change(caller: Caller, name: str, client: str | None, change: str) -> Done:
    state = await _state(caller, name, client)
    answer = await caller.client.change_repeat(name, change, client=state.client)
    return Done(answer.done)


async def _state(caller: Caller, name: str, client: str | None) -> RepeatState:
    owner = client or caller.name
    found = (await caller.client.repeats_page(client=owner, name=name)).repeats if name else []
    if not found or (caller.access.own_only and owner != caller.name):
        raise ApiError(404, "unknown", f"repeat {name!r} of {owner!r} is not known")
    return found[0]


def _report(state: RepeatState) -> RepeatReport:
    moments = {"next_ms": state.next_ms, "last_ms": state.last_ms}
    return report(RepeatReport, RepeatFacts(state), **moments)
