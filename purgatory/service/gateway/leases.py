"""`/v1/leases`: be a worker: take due jobs, keep their leases, and end them.

Any program that knows a lease's name may keep or end it, at any gateway of the server: gateways
store no leases.
"""

import asyncio
from typing import Final

from starlette.requests import Request

from purgatory.service.client.arguments import checked_seconds, duration_ms
from purgatory.service.client.backoff import backoff_s
from purgatory.service.client.calls import Keeping
from purgatory.service.client.trace_context import unwrap
from purgatory.service.encoding import pack_result, unpack_or_raw
from purgatory.service.gateway.callers import Caller
from purgatory.service.gateway.endpoint import endpoint
from purgatory.service.gateway.job_taker import Ask
from purgatory.service.gateway.messages import (
    DoneJobs,
    KeptLeases,
    LeasedJobReport,
    LeasedJobs,
    LeaseList,
    LeaseResults,
    ReturnRequest,
    TakeRequest,
    as_json,
)
from purgatory.service.protocol import Finish, How, Keep, Lease, LeasedJob, LeaseEnd, Work

# See `backoff_s`; as for a `Worker`.
_RETRY_DELAY_S: Final = 1.0
_MAX_RETRY_DELAY_S: Final = 600.0
# No job has this number.
_NO_LEASE: Final = Lease(0, 0)


@endpoint("POST", "/v1/leases", Work, "Take jobs")
async def take(caller: Caller, data: TakeRequest, request: Request) -> LeasedJobs:
    """Return due jobs, leased to the caller: present jobs, or the first to come.

    If there was none, the caller asks again at once.
    """
    ask = Ask(
        tuple(sorted(set(data.kinds))),
        data.max_attempts,
        duration_ms(data.lease, "lease"),
    )
    wait = min(checked_seconds(data.wait, "wait"), caller.max_wait)
    taker = caller.takers.of(ask)
    jobs = await taker.take(data.limit, wait, _hanging_up(request))
    try:
        caller.check()
    except BaseException:  # the token was revoked meanwhile
        taker.give_back(jobs)
        raise
    return LeasedJobs([_shown(job) for job in jobs])


async def _hanging_up(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


@endpoint("POST", "/v1/leases/keep", Keep, "Keep leases")
async def keep(caller: Caller, data: LeaseList) -> KeptLeases:
    """Have leases last for their whole time from now on."""
    calls = caller.client.calls.job_calls
    replies = [calls.keep(Lease(*_numbers(name)[:2])) for name in data.leases]
    answers = await asyncio.gather(*map(caller.client.result_of, replies))
    return KeptLeases(
        [answer is not Keeping.LOST for answer in answers],
        [answer is Keeping.CANCELLED for answer in answers],
    )


@endpoint("POST", "/v1/leases/acknowledge", Finish, "Acknowledge jobs")
async def finish(caller: Caller, data: DoneJobs) -> LeaseResults:
    """End done jobs, with their results. Once answered, a held job never runs again."""
    ends = [_end_of(name, How.DONE) for name in data.leases]
    if data.results:
        if len(data.results) != len(ends):
            raise ValueError(f"{len(data.results)} results; expected one for each lease, or none")
        most = await _max_result_bytes(caller)
        for end, result in zip(ends, data.results, strict=True):
            end.result = pack_result(result, most)
    return await _end(caller, ends)


async def _max_result_bytes(caller: Caller) -> int | None:
    """Return how large a result may be, after an answer of a server.

    Else the server would refuse a result that is too large, and take the others.
    """
    calls = caller.client.calls.job_calls
    if calls.max_result_bytes is None:  # not connected yet
        await caller.client.result_of(calls.keep(_NO_LEASE))
    return calls.max_result_bytes


@endpoint("POST", "/v1/leases/return", Finish, "Give jobs back")
async def give_back(caller: Caller, data: ReturnRequest) -> LeaseResults:
    """Give back jobs that were not done, or with a failed attempt."""
    if data.error is None:
        if data.delay is not None:
            raise ValueError("delay comes with an error; expected none without")
        return await _end(caller, [_end_of(name, How.RETURNED) for name in data.leases])
    text = f"{data.error.type}: {data.error.message}" if data.error.message else data.error.type
    return await _end(caller, [_failure(name, data.delay, text) for name in data.leases])


async def _end(caller: Caller, ends: list[LeaseEnd]) -> LeaseResults:
    replies = [caller.client.calls.job_calls.finish(end) for end in ends]
    return LeaseResults(await asyncio.gather(*map(caller.client.result_of, replies)))


def _failure(name: str, delay: float | str | None, error: str) -> LeaseEnd:
    end = _end_of(name, How.FAILED)
    if delay is None:
        delay = backoff_s(max(1, _numbers(name)[2]), _RETRY_DELAY_S, _MAX_RETRY_DELAY_S)
    end.delay_ms, end.error = duration_ms(delay, "delay"), error
    return end


def _end_of(name: str, how: How) -> LeaseEnd:
    number, token, _ = _numbers(name)
    return LeaseEnd(number, token, how)


def _numbers(name: str) -> tuple[int, int, int]:
    """Return the job's number, the token and the attempt."""
    number, token, attempt = name.split(".")
    return int(number), int(token), int(attempt)


def _shown(job: LeasedJob) -> LeasedJobReport:
    traceparent, payload = unwrap(job.payload)
    return LeasedJobReport(
        f"{job.number}.{job.token}.{job.attempt}",
        job.token,
        job.op_id,
        job.kind,
        job.attempt,
        job.submitted_ms,
        job.deadline_ms,
        as_json(unpack_or_raw(payload)),
        traceparent or None,
    )
