"""Waits for the ends of jobs: one watch for all callers, over lost connections."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from purgatory import OperationExpired
from purgatory.service import (
    AsyncClient,
    Client,
    JobCancelled,
    JobFailed,
    JobStatus,
    JobUnknown,
    NotAllowed,
    RequestTimeout,
    TooLarge,
    Unavailable,
)
from purgatory.service.client.calls import reject, resolve
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.jobs import later_job_calls
from purgatory.service.client.jobs.job_waits import JobEndFuture, JobWaits, result_of, still_pending
from purgatory.service.encoding import encode
from purgatory.service.job_messages import JobEnds, JobStates, ReadJobs, WatchJobs
from purgatory.service.protocol import Failure, Raw, Stats, StatsReply
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


def done(job_id, value=5, **others):
    return JobStatus(job_id, "done", result=Raw(encode(value)), **others)


def ready(job_id):
    return JobStatus(job_id, "ready")


def receive_but_stops(fake):
    """Return the next request that does not end watches."""
    request = fake.receive()
    return receive_but_stops(fake) if getattr(request, "stop", False) else request


def test_a_job_that_has_ended(asking):
    """The answer to the watch says so at once."""
    request, result = asking.ask(
        lambda client: client.result("a"), lambda seq: JobStates(seq, [done("a", {"x": 1})])
    )
    assert request == (WatchJobs, ["a"], False)
    assert result == {"x": 1}


def test_a_job_that_ends_later(asking):
    """The server says so when it does; other calls are answered meanwhile."""
    future, request = asking.begin(lambda client: client.result("a", HANG))
    asking.fake.send(JobStates(request.seq, [ready("a")]))
    _, stats = asking.ask(lambda client: client.stats(), lambda seq: StatsReply(seq, {"x": 1}))
    assert stats == {"x": 1}
    assert not future.done()
    asking.fake.send(JobEnds([done("other"), done("a", 7)]))
    assert future.result(HANG) == 7


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (JobStatus("a", "unknown"), JobUnknown, "does not know job 'a'"),
        (JobStatus("a", "dead", attempts=3, error="E: w"), JobFailed, "dead after attempt 3: E: w"),
        (
            JobStatus("a", "cancelled", error="cancelled by key k"),
            JobCancelled,
            "job 'a' was cancelled: cancelled by key k$",
        ),
        (JobStatus("a", "cancelled", error="cancelled"), JobCancelled, "job 'a' was cancelled$"),
    ],
)
def test_a_job_without_a_result(asking, status, error, words):
    """The error says how it has ended."""
    future, request = asking.begin(lambda client: client.result("a"))
    asking.fake.send(JobStates(request.seq, [ready("a")]))
    asking.fake.send(JobEnds([status]))
    with pytest.raises(error, match=words) as caught:
        future.result(HANG)
    assert caught.value.job_id == "a"


def test_many_wait_for_one_job(asking):
    """The server is asked once, and each caller gets the result."""
    first, request = asking.begin(lambda client: client.result("a"))
    others = [asking.later(lambda client: client.result("a")) for _ in range(3)]
    while len(asking.client._job_waits._watches["a"].futures) < 4:
        assert not first.done()
    asking.fake.send(JobStates(request.seq, [done("a")]))
    assert [future.result(HANG) for future in (first, *others)] == [5] * 4
    assert len(asking.client._job_waits) == 0


def test_a_wait_that_is_over(asking):
    """It raises TimeoutError; the server is told with the next message to watch no longer."""
    future, request = asking.begin(lambda client: client.result("a", 0))
    question = asking.fake.receive()
    asking.fake.send(JobStates(request.seq, [ready("a")]))
    asking.fake.send(JobStates(question.seq, [ready("a")]))
    with pytest.raises(TimeoutError, match=r"job 'a' has not ended within 0\.0 s"):
        future.result(HANG)
    assert len(asking.client._job_waits) == 0
    _, request = asking.begin(lambda client: client.stats())
    assert (type(request), request.job_ids, request.stop) == (WatchJobs, ["a"], True)
    asking.fake.send(JobStates(request.seq, [ready("a")]))
    request = asking.fake.receive()
    assert isinstance(request, Stats)
    asking.fake.send(StatsReply(request.seq, {}))


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (JobStatus("a", "done", result=Raw(encode(5))), 5),
        (JobStatus("a", "cancelled"), JobCancelled),
        (JobStatus("a", "dead"), JobFailed),
        (JobStatus("a", "unknown"), JobUnknown),
        (ready("a"), TimeoutError),
    ],
)
def test_a_timeout_shorter_than_a_round_trip(asking, status, outcome):
    """The server answers once all the same: a known result comes."""
    future, _ = asking.begin(lambda client: client.result("a", 0))
    question = asking.fake.receive()
    assert (type(question), question.job_ids) == (ReadJobs, ["a"])
    asking.fake.send(JobStates(question.seq, [status]))
    if isinstance(outcome, int):
        assert future.result(HANG) == outcome
    else:
        with pytest.raises(outcome):
            future.result(HANG)


@pytest.mark.parametrize("verb", ["result", "job"])
@pytest.mark.parametrize("answer", [JobStatus("a", "cancelled"), OperationExpired("late")])
def test_an_answer_as_the_time_ends(fake, monkeypatch, verb, answer):
    """It counts, also if it is a TimeoutError itself."""

    def answered_late(future, timeout=None):
        if not future.done():
            reject(future, answer) if isinstance(answer, Exception) else resolve(future, answer)
            raise TimeoutError
        return result_of_the_class(future, timeout)

    result_of_the_class = ReplyFuture.result
    with Client(fake.address, timeout=0.01) as client:
        monkeypatch.setattr(ReplyFuture, "result", answered_late)
        if (verb, answer) == ("job", JobStatus("a", "cancelled")):
            assert client.job("a") is answer
        else:
            with pytest.raises((JobCancelled, OperationExpired)):
                getattr(client, verb)("a", *([0] if verb == "result" else []))
        monkeypatch.undo()


def test_a_timeout_without_a_server(fake):
    """The client's timeout bounds the wait for the first answer; a longer timeout adds none."""
    with Client(fake.address, timeout=0.05) as client:
        with pytest.raises(RequestTimeout):
            client.result("a", 0)
        with pytest.raises(TimeoutError, match=r"job 'a' has not ended within 0\.05 s"):
            client.result("a", 0.05)


def test_a_timeout_after_the_server_has_gone(fake):
    """The job may have ended since the server said that it goes on: the client's timeout counts."""
    with Client(fake.address, timeout=HANG) as client, ThreadPoolExecutor() as pool:
        first = pool.submit(client.result, "a")
        fake.send(JobStates(fake.receive().seq, [ready("a")]))
        eventually(lambda: client._job_waits._watches["a"].is_watched)
        fake.router.close(0)
        eventually(lambda: client._io_thread.connection_error)
        client.timeout = 0.05
        with pytest.raises(RequestTimeout):
            client.result("a", 0)
        client.close(0)
        assert isinstance(first.exception(HANG), Unavailable)


def test_one_of_two_waits_is_over(asking):
    """The job is watched on for the other."""
    future, request = asking.begin(lambda client: client.result("a"))
    asking.fake.send(JobStates(request.seq, [ready("a")]))
    eventually(lambda: asking.client._job_waits._watches["a"].is_watched)
    with pytest.raises(TimeoutError):
        asking.client.result("a", 0.01)
    asking.fake.send(JobEnds([done("a", 3)]))
    assert future.result(HANG) == 3


def test_over_a_lost_connection(asking):
    """What the server has watched is watched again."""
    future, request = asking.begin(lambda client: client.result("a"))
    asking.fake.send(JobStates(request.seq, [ready("a")]))
    asking.ask(lambda client: client.stats(), lambda seq: StatsReply(seq, {}))
    asking.fake.restart()
    request = asking.fake.receive()
    assert (type(request), request.job_ids, request.stop) == (WatchJobs, ["a"], False)
    asking.fake.send(JobStates(request.seq, [done("a", 9)]))
    assert future.result(HANG) == 9
    asking.client.flush()


def test_a_watch_that_is_refused(asking):
    """It raises the server's error; the next call asks anew."""
    future, request = asking.begin(lambda client: client.result("a"))
    asking.fake.send(Failure(request.seq, "not-allowed", "no"))
    with pytest.raises(NotAllowed):
        future.result(HANG)
    _, result = asking.ask(
        lambda client: client.result("a"), lambda seq: JobStates(seq, [done("a")])
    )
    assert result == 5


def test_a_watch_that_cannot_be_asked_for(asking, monkeypatch):
    """The caller gets the error itself; another wait for the job ends, and a later one asks."""
    client, others = asking.client, []

    def interrupt(*_):
        others.append(asking.later(lambda client: client.result("a")))
        eventually(lambda: len(client._job_waits._watches["a"].futures) == 2)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(client, "_call", interrupt)
        with pytest.raises(KeyboardInterrupt):
            client.result("a")
    with pytest.raises(Unavailable, match="the call was not made"):
        others[0].result(HANG)
    _, result = asking.ask(
        lambda client: client.result("a"), lambda seq: JobStates(seq, [done("a")])
    )
    assert result == 5


def test_an_answer_that_is_too_large(asking):
    """Fewer jobs are asked for at a time."""
    futures = [asking.later(lambda client, n=n: client.result(f"{n}")) for n in range(4)]
    got = []
    while len(got) < 4:
        request = asking.fake.receive()
        if len(request.job_ids) > 1:
            asking.fake.send(Failure(request.seq, "too-large", "the answer is too large"))
        else:
            got += request.job_ids
            asking.fake.send(JobStates(request.seq, [done(request.job_ids[0])]))
    assert [future.result(HANG) for future in futures] == [5] * 4


def test_a_result_that_was_left_out(asking):
    """It is read alone; one that is too large for a message raises."""
    for left_out in (0, 10):
        future, request = asking.begin(lambda client: client.result("a"))
        asking.fake.send(JobStates(request.seq, [JobStatus("a", "done", left_out=100)]))
        request = asking.fake.receive()
        assert (type(request), request.job_ids) == (ReadJobs, ["a"])
        asking.fake.send(JobStates(request.seq, [done("a", left_out=left_out)]))
        if left_out:
            with pytest.raises(TooLarge, match="job 'a'"):
                future.result(HANG)
        else:
            assert future.result(HANG) == 5


def test_the_client_is_closed(asking):
    """The wait ends with an error."""
    future, request = asking.begin(lambda client: client.result("a"))
    asking.fake.send(JobStates(request.seq, [ready("a")]))
    asking.client.close(0)
    with pytest.raises(Unavailable):
        future.result(HANG)
    with pytest.raises(Unavailable):
        asking.client.result("b")
    assert len(asking.client._job_waits) == 0


def test_async(fake):
    """Many waits of a loop are few messages; a cancelled wait is left."""

    async def main():
        async with AsyncClient(fake.address, timeout=HANG) as client:
            waits = [asyncio.ensure_future(client.result(f"{n}")) for n in range(100)]
            got, messages = 0, 0
            while got < 100:
                request = await asyncio.to_thread(fake.receive)
                got, messages = got + len(request.job_ids), messages + 1
                fake.send(JobStates(request.seq, [ready(job_id) for job_id in request.job_ids]))
            assert messages < 20
            while not client._client._job_waits._watches["0"].is_watched:
                await asyncio.sleep(0)
            waits.pop().cancel()
            with pytest.raises(TimeoutError, match="job '0' has not ended"):
                await client.result("0", 0.01)
            ended = asyncio.ensure_future(client.result("ended", 0))
            assert isinstance(await asyncio.to_thread(receive_but_stops, fake), WatchJobs)
            question = await asyncio.to_thread(receive_but_stops, fake)
            fake.send(JobStates(question.seq, [done("ended", "x")]))
            assert await ended == "x"
            fake.send(JobEnds([done(f"{n}", n) for n in range(99)]))
            assert await asyncio.gather(*waits) == list(range(99))
            assert len(client._client._job_waits) == 0

    asyncio.run(main())


class EndsLate(JobEndFuture):
    """Is resolved just after the wait for it has ended."""

    def result(self, timeout=None):
        if not self.done():
            self.set_result(JobStatus(self.job_id, "done", result=5))
            raise TimeoutError
        return super().result(timeout)


class EndsLateInLoop(JobEndFuture):
    """Is resolved after the wait, before the event loop knows."""

    def add_done_callback(self, fn):
        pass

    def done(self):
        if not super().done():
            self.set_result(JobStatus(self.job_id, "done", result=5))
        return True


def test_a_job_that_ends_as_the_wait_does(fake, monkeypatch):
    """The caller gets its value."""
    monkeypatch.setattr(later_job_calls, "JobEndFuture", EndsLate)
    with Client(fake.address, timeout=HANG) as client:
        assert client.result("a", 1) == 5
        client.close(0)

    async def main():
        async with AsyncClient(fake.address, timeout=HANG) as client:
            assert await client.result("a", 0) == 5
            await client.close(0)

    monkeypatch.setattr(later_job_calls, "JobEndFuture", EndsLateInLoop)
    asyncio.run(main())


def test_a_job_is_watched_anew_before_the_server_is_told():
    """Then it is not told to watch the job no longer."""
    waits = JobWaits()
    one, two, three = JobEndFuture("a"), JobEndFuture("a"), JobEndFuture("b")
    for future in (one, three):
        assert waits.enter(future) is not None
        waits.note([JobStatus(future.job_id, "ready")])
        waits.leave(future)
        waits.leave(future)
    assert waits.enter(two) is not None
    assert waits.take_left() == ["b"]
    assert waits.take_left() == []
    assert waits.take_lost() == []  # its first call is still to be answered
    waits.note([JobStatus("a", "ready")])
    assert [job_id for job_id, _ in waits.take_lost()] == ["a"]
    assert waits.take_lost() == []


@pytest.mark.parametrize(("state", "left"), [("ready", ["a"]), ("done", []), ("unknown", [])])
def test_a_wait_that_ends_before_the_answer(state, left):
    """The server is told with the answer, if it watches the job then: not before the watch."""
    waits = JobWaits()
    future = JobEndFuture("a")
    waits.enter(future)
    waits.leave(future)
    assert waits.take_left() == []
    waits.note([JobStatus("a", state)])
    assert waits.take_left() == left


def test_a_value():
    """Of a done job it is the result, whatever that is."""
    assert result_of("a", JobStatus("a", "done", result=[1])) == [1]
    assert result_of("a", JobStatus("a", "done", result=None)) is None


@pytest.mark.parametrize(
    ("status", "error", "fields"),
    [
        (None, JobUnknown("a"), {"job_id": "a"}),
        (JobStatus("a", "unknown"), JobUnknown("a"), {"job_id": "a"}),
        (
            JobStatus("a", "dead", attempts=2, error="E"),
            JobFailed("a", "E", 2),
            {"job_id": "a", "error": "E", "attempts": 2},
        ),
        (
            JobStatus("a", "cancelled", error="key k"),
            JobCancelled("a", "key k"),
            {"job_id": "a", "reason": "key k"},
        ),
        (JobStatus("a", "done", left_out=5), TooLarge("the values of job 'a'"), {}),
    ],
)
def test_an_error(status, error, fields):
    """It says how the job has ended, has that as fields, and can be sent to another process."""
    with pytest.raises(type(error)) as caught:
        result_of("a", status)
    assert str(error) in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert {name: getattr(copy, name) for name in fields} == fields


def test_the_end_of_a_wait():
    """The error names the job and the time."""
    assert str(still_pending("a", 0.5)) == "job 'a' has not ended within 0.5 s"
