"""The calls about jobs: what they send, what they return, and what they refuse."""

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from purgatory.service import AsyncClient, JobHandle, JobStatus, TimeoutTooLong
from purgatory.service.encoding import encode
from purgatory.service.job_messages import (
    CancelJobs,
    CancelMatching,
    CountedJobs,
    CountJobs,
    JobFilter,
    JobPage,
    JobsCancelled,
    JobsRescheduled,
    JobsRetried,
    JobStates,
    KindLimit,
    Limited,
    LimitSet,
    ListJobs,
    MatchingCancelled,
    ReadJobs,
    ReadLimits,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
)
from purgatory.service.protocol import (
    DEFAULT,
    MADE_UP,
    Known,
    Raw,
    Refusal,
    SubmissionOptions,
    Submit,
    Submitted,
    own_key,
)
from tests.testing.purgatory_harness import HANG

NOON = datetime(2027, 3, 1, 12, tzinfo=UTC)
NOON_MS = 1_803_902_400_000


def scheduled(asking, known=(), **arguments):
    """Schedule a job; returns what was submitted, and the handle."""
    (_, [submission]), handle = asking.ask(
        lambda client: client.schedule(**arguments), lambda seq: Submitted(seq, [], list(known))
    )
    return submission, handle


def test_schedule(asking):
    """All that a job can have is sent; the answer is a handle."""
    submission, handle = scheduled(
        asking,
        delay="1h30m",
        kind="mail",
        payload=7,
        job_id="a",
        tags=["t", "u"],
        unless=["k", "l", "k"],
        unique_for=timedelta(days=2),
        priority=-10,
        start_within="5m",
    )
    assert (submission.op_id, submission.need, submission.kind) == ("a", 0, "mail")
    assert (submission.keys, submission.timeout_ms) == (("k", "l"), 5_400_000)
    assert bytes(submission.payload) == encode(7)
    assert submission.options == SubmissionOptions(172_800_000, ("t", "u"), -10, 300_000)
    assert isinstance(handle, JobHandle)
    assert (handle.id, handle.is_new) == ("a", True)


def test_a_known_job(asking):
    """The handle says that nothing was changed."""
    _, handle = scheduled(asking, [Known(0, "pending")], delay=1, job_id="a")
    assert (handle.id, handle.is_new) == ("a", False)


@pytest.mark.parametrize(
    ("arguments", "timeout_ms", "options"),
    [
        ({"delay": 0}, 0, None),
        ({"delay": timedelta(minutes=1)}, 60_000, None),
        ({"delay": 1, "job_id": "a"}, 1000, SubmissionOptions(DEFAULT)),
        ({"delay": 1, "job_id": "a", "unique_for": 0}, 1000, SubmissionOptions(0)),
        ({"delay": 1, "tags": {"t"}}, 1000, SubmissionOptions(MADE_UP, ("t",))),
        ({"delay": 1, "unique_for": "1m"}, 1000, SubmissionOptions(60_000)),
        ({"at": NOON}, 0, SubmissionOptions(MADE_UP, due_ms=NOON_MS)),
        (
            {"at": NOON.astimezone(timezone(timedelta(hours=3))) + timedelta(microseconds=1)},
            0,
            SubmissionOptions(MADE_UP, due_ms=NOON_MS + 1),
        ),
    ],
)
def test_when_and_for_how_long(asking, arguments, timeout_ms, options):
    """Options are sent if there are any; an id of the caller's is one."""
    submission, handle = scheduled(asking, **arguments)
    assert (submission.timeout_ms, submission.options) == (timeout_ms, options)
    assert submission.keys == (own_key(handle.id),)


def test_a_made_up_id_is_new(asking):
    """Each call has its own, also if the server has it from a call that was sent again."""
    handles = [scheduled(asking, [Known(0, "pending")], delay=1)[1] for _ in range(3)]
    assert len({handle.id for handle in handles}) == 3
    assert all(handle.is_new for handle in handles)


def test_deferring_with_an_id(asking):
    """An id of the caller's is remembered for a period; a made-up one is not."""
    for arguments, options in (
        ({}, None),
        ({"op_id": "a"}, SubmissionOptions(DEFAULT)),
        ({"op_id": "b", "unique_for": "1h"}, SubmissionOptions(3_600_000)),
    ):
        request, _ = asking.ask(lambda client, a=arguments: client.submit("k", **a), Submitted)
        assert request[1][0].options == options
        _, request = asking.begin(lambda client, a=arguments: client.defer("k", **a))
        assert request.operations[0].options == options
        asking.fake.send(Submitted(request.seq))


def test_reading_a_job(asking):
    """Values come decoded, moments as aware datetimes; a job that is not known is None."""
    status = JobStatus("a", "done", 7, "mail", due_ms=NOON_MS, ended_ms=NOON_MS + 1,
                       payload=Raw(encode({"x": 1})), result=Raw(encode([2])))  # fmt: skip
    request, job = asking.ask(lambda client: client.job("a"), lambda seq: JobStates(seq, [status]))
    assert request == (ReadJobs, ["a"])
    assert (job.id, job.payload, job.result) == ("a", {"x": 1}, [2])
    assert (job.due, job.began) == (NOON, None)
    assert job.ended == NOON + timedelta(milliseconds=1)
    unknown = JobStatus("b", "unknown")
    for name in ("b", unknown):
        _, job = asking.ask(
            lambda client, n=name: client.job(n), lambda seq: JobStates(seq, [unknown])
        )
        assert job is None


FILTER = {"state": "dead", "kind": "mail", "tag": "t", "client": "shop"}


@pytest.mark.parametrize(
    ("call", "request_fields", "answer", "result"),
    [
        (
            lambda client: client.job_counts(),
            (CountJobs, None),
            lambda seq: CountedJobs(seq, [("mail", "dead", 3), ("mail", "done", 1)]),
            {("mail", "dead"): 3, ("mail", "done"): 1},
        ),
        (
            lambda client: client.job_counts(**FILTER),
            (CountJobs, JobFilter(**FILTER)),
            lambda seq: CountedJobs(seq, [("mail", "dead", 3)]),
            {("mail", "dead"): 3},
        ),
        (
            lambda client: client.cancel_job("a"),
            (CancelJobs, ["a"]),
            lambda seq: JobsCancelled(seq, [True]),
            True,
        ),
        (
            lambda client: client.cancel_jobs(**FILTER),
            (CancelMatching, JobFilter("mail", "dead", "t", "shop")),
            lambda seq: MatchingCancelled(seq, 7),
            7,
        ),
        (
            lambda client: client.reschedule_job("a", "1m"),
            (RescheduleJobs, [Reschedule("a", 60_000)]),
            lambda seq: JobsRescheduled(seq, [False]),
            False,
        ),
        (
            lambda client: client.reschedule_job(JobStatus("a", "ready"), at=NOON),
            (RescheduleJobs, [Reschedule("a", None, NOON_MS)]),
            lambda seq: JobsRescheduled(seq, [True]),
            True,
        ),
        (
            lambda client: client.run_job("a"),
            (RescheduleJobs, [Reschedule("a", 0)]),
            lambda seq: JobsRescheduled(seq, [True]),
            True,
        ),
        (
            lambda client: client.retry_job("a"),
            (RetryJobs, ["a"], False),
            lambda seq: JobsRetried(seq, [True]),
            True,
        ),
        (
            lambda client: client.drop_job("a"),
            (RetryJobs, ["a"], True),
            lambda seq: JobsRetried(seq, [False]),
            False,
        ),
        (lambda client: client.pause("mail"), (SetLimit, "mail", True, None, None), LimitSet, None),
        (
            lambda client: client.resume("mail"),
            (SetLimit, "mail", False, None, None),
            LimitSet,
            None,
        ),
        (
            lambda client: client.limit("mail", running=2, per_second=0.5),
            (SetLimit, "mail", None, 2, 0.5),
            LimitSet,
            None,
        ),
        (
            lambda client: client.limit("mail", per_second=0),
            (SetLimit, "mail", None, None, 0.0),
            LimitSet,
            None,
        ),
        (
            lambda client: client.limits(),
            (ReadLimits,),
            lambda seq: Limited(seq, [KindLimit("mail", True)]),
            [KindLimit("mail", True)],
        ),
    ],
)
def test_what_is_sent(asking, call, request_fields, answer, result):
    """Each verb makes its request, and returns what the answer says."""
    assert asking.ask(call, answer) == (request_fields, result)


def test_listing(asking):
    """All pages come, with all filters, until there are no more or the limit is reached."""
    one, two = ([JobStatus(name, "dead") for name in names] for names in ("ab", "c"))
    pages = [(one, (5, 7)), ([], (6, 8)), (two, None)]
    wanted = JobFilter("mail", "dead", "t", "shop")
    for limit, asked, found in ((None, [500] * 3, "abc"), (3, [3, 1, 1], "abc"), (2, [2], "ab")):
        future = asking.later(
            lambda client, n=limit: [job.id for job in client.jobs(**FILTER, limit=n)]
        )
        after = None
        for number, (jobs, following) in zip(asked, pages, strict=False):
            request = asking.fake.receive()
            assert isinstance(request, ListJobs)
            assert (request.wanted, request.order) == (wanted, "due")
            assert (request.limit, request.after) == (number, after)
            after = following
            asking.fake.send(JobPage(request.seq, jobs, after))
        assert future.result(HANG) == list(found)


def test_the_newest_first(asking):
    """The order is the server's."""
    request, page = asking.ask(
        lambda client: client.jobs_page(order="newest", limit=2, cursor=(5, 7)),
        lambda seq: JobPage(seq, [JobStatus("a", "ready")], None),
    )
    assert request == (ListJobs, JobFilter(), "newest", 2, (5, 7))
    assert [job.id for job in page.jobs] == ["a"]


SURROGATE = "caf\udce9"
BAD_TYPES = [
    lambda client: client.schedule(),
    lambda client: client.schedule(1, at=NOON),
    lambda client: client.schedule(at=5),
    lambda client: client.schedule(1, tags="t"),
    lambda client: client.schedule(1, tags=[5]),
    lambda client: client.schedule(1, unless="k"),
    lambda client: client.schedule(1, priority="high"),
    lambda client: client.schedule(1, priority=True),
    lambda client: client.schedule(1, unique_for=[]),
    lambda client: client.schedule(1, start_within=object()),
    lambda client: client.schedule(1, payload=object()),
    lambda client: client.job(5),
    lambda client: client.result(None),
    lambda client: client.result("a", []),
    lambda client: client.jobs(kind=5),
    lambda client: client.jobs(order=5),
    lambda client: client.jobs(limit=1.5),
    lambda client: client.jobs_page(cursor=5),
    lambda client: client.cancel_job(object()),
    lambda client: client.cancel_jobs(),
    lambda client: client.cancel_jobs(tag=5),
    lambda client: client.reschedule_job("a"),
    lambda client: client.reschedule_job("a", 1, at=NOON),
    lambda client: client.pause(None),
    lambda client: client.limit("mail"),
    lambda client: client.limit("mail", running=1.5),
    lambda client: client.limit("mail", per_second="1"),
    lambda client: client.defer("k", unique_for=[]),
]
BAD_VALUES = [
    lambda client: client.schedule("soon"),
    lambda client: client.schedule(-1),
    lambda client: client.schedule(at=datetime(2027, 3, 1)),  # noqa: DTZ001
    lambda client: client.schedule(1, priority=11),
    lambda client: client.schedule(1, priority=-11),
    lambda client: client.schedule(1, unique_for=-1),
    lambda client: client.schedule(1, start_within="-5"),
    lambda client: client.schedule(1, tags=[SURROGATE]),
    lambda client: client.job(SURROGATE),
    lambda client: client.result("a", -1),
    lambda client: client.result("a", "soon"),
    lambda client: client.jobs(state="expired"),
    lambda client: client.jobs(order="oldest"),
    lambda client: client.jobs(limit=0),
    lambda client: client.jobs(tag=SURROGATE),
    lambda client: client.cancel_jobs(state="gone"),
    lambda client: client.reschedule_job("a", at=datetime(2027, 3, 1)),  # noqa: DTZ001
    lambda client: client.pause(SURROGATE),
    lambda client: client.limit("mail", running=-1),
    lambda client: client.limit("mail", per_second=-0.5),
    lambda client: client.limit("mail", per_second=float("nan")),
    lambda client: client.limit("mail", per_second=float("inf")),
    lambda client: client.limit("mail", per_second=10**400),  # no float holds it
]


@pytest.mark.parametrize(("calls", "error"), [(BAD_TYPES, TypeError), (BAD_VALUES, ValueError)])
def test_bad_arguments(asking, calls, error):
    """They raise at once, in the caller, and name what was expected."""
    for call in calls:
        with pytest.raises(error, match=r"expected|surrogates|Encoding|serial|negative|least|most"):
            call(asking.client)


def test_async_has_the_same(fake):
    """Awaited; `jobs` is an async iterator, and its bad arguments raise at once."""

    async def main():
        async with AsyncClient(fake.address, timeout=HANG) as client:

            async def answer(make):
                request = await asyncio.to_thread(fake.receive)
                fake.send(make(request.seq))

            handle, _ = await asyncio.gather(
                client.schedule("1m", job_id="a", tags=["t"]), answer(Submitted)
            )
            assert (handle.id, handle.is_new) == ("a", True)
            done, _ = await asyncio.gather(
                handle.cancel(), answer(lambda seq: JobsCancelled(seq, [True]))
            )
            assert done is True

            async def ids():
                return [job.id async for job in client.jobs(state="ready", limit=3)]

            for job_id, after in (("b", (1, 2)), ("c", None)):
                if job_id == "b":
                    listing = asyncio.ensure_future(ids())
                page = [JobStatus(job_id, "ready")]
                await answer(lambda seq, p=page, a=after: JobPage(seq, p, a))
            assert await listing == ["b", "c"]
            with pytest.raises(ValueError, match="state"):
                client.jobs(state="expired")

    asyncio.run(main())


def test_requests_are_sent_together(asking):
    """Many calls that read or cancel are one message."""
    replies = [asking.client.cancel_job_later(f"{n}") for n in range(50)]
    got = []
    while len(got) < 50:
        request = asking.fake.receive()
        assert isinstance(request, CancelJobs)
        got += request.job_ids
        asking.fake.send(JobsCancelled(request.seq, [True] * len(request.job_ids)))
    assert got == [f"{n}" for n in range(50)]
    assert all(reply.result(HANG) for reply in replies)
    assert isinstance(replies[0].result(), bool)


def test_submitted_to(asking):
    """A refused job raises, and is no handle."""
    future, request = asking.begin(lambda client: client.schedule(1))
    assert isinstance(request, Submit)
    asking.fake.send(Submitted(request.seq, [Refusal(0, "too-long", "words")]))
    with pytest.raises(TimeoutTooLong, match="words"):
        future.result(HANG)
