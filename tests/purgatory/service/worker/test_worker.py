"""Workers against a server in this process."""

import asyncio
import itertools
import queue
import threading
from datetime import timedelta
from functools import partial

import pytest

import purgatory
from _purgatory_cpython.threads import InterruptibleThread
from purgatory.service import AsyncClient, Client, OperationIdTaken, Worker
from purgatory.service.server.leases import job_requests
from purgatory.service.worker import demand
from tests.testing.eventually import eventually
from tests.testing.interrupts import GROUND_FLOOR, interrupted_at
from tests.testing.purgatory_harness import HANG, free_port


def test_the_front_door():
    assert purgatory.Worker is Worker


def test_a_job(worker, client):
    """Its handler gets the payload, the id, the tags and the attempt; then it is done."""
    jobs = queue.SimpleQueue()
    one = worker()
    one.on("mail")(jobs.put)
    scheduled = client.schedule(0.01, kind="mail", payload={"to": ["ada", 1]}, tags=["a", "ä"])
    with one:
        job = jobs.get(timeout=HANG)
        assert sorted(job.tags) == ["a", "ä"]
        assert (job.id, job.kind, job.payload, job.attempt) == (
            scheduled.id,
            "mail",
            {"to": ["ada", 1]},
            1,
        )
        assert job.due_ms - job.submitted_ms == 10
        eventually(lambda: client.stats()["unacknowledged"] == 0)
    assert (one.counts.done, one.counts.failed, one.counts.lost) == (1, 0, 0)
    assert jobs.empty()


def test_scheduling(client, server, connect):
    """An id is scheduled once; `unless` and `cancel` end a job; bad arguments raise."""
    first, again = client.schedule(60, job_id="a"), client.schedule(timedelta(hours=1), job_id="a")
    assert [(job.id, job.is_new) for job in (first, again)] == [("a", True), ("a", False)]
    assert client.query("a").deadline_ms - client.query("a").submitted_ms == 60_000
    with pytest.raises(OperationIdTaken):
        connect(server, name="other").schedule(1, job_id="a")
    assert client.cancel("a")
    client.schedule(60, job_id="b", unless=["paid:17", "cancelled:17"])
    assert client.complete("paid:17") == 1
    assert client.query("b").state == "cancelled"
    assert client.stats()["unacknowledged"] == 0
    with pytest.raises(TypeError, match="expected a collection of texts"):
        client.schedule(1, unless="paid:17")
    with pytest.raises(ValueError, match="delay"):
        client.schedule(-1)


def test_retries_and_dead_jobs(worker, client, caplog):
    """A job is tried so often, then it is dead, can be looked at, and sent again or dropped."""
    one = worker(max_attempts=3)
    attempts, fail = [], threading.Event()
    fail.set()

    @one.on("flaky")
    def run(job):
        attempts.append((job.payload, job.attempt))
        if job.payload == "bad" and fail.is_set():
            raise ValueError(f"no, not {job.payload}")
        if job.payload == "good" and job.attempt == 1:
            raise SystemExit

    @one.on("other", max_attempts=1)
    async def run_once(job):
        raise KeyError  # without a text

    with one:
        for payload in ("good", "bad"):
            client.schedule(0, kind="flaky", payload=payload, job_id=payload)
        client.schedule(0, kind="other", job_id="other")
        eventually(lambda: len(client.jobs_page(state="dead").jobs) == 2)
        eventually(lambda: one.counts.done == 1)
        assert sorted(attempts) == [("bad", 1), ("bad", 2), ("bad", 3), ("good", 1), ("good", 2)]
        dead = {job.job_id: job for job in client.jobs_page(state="dead").jobs}
        assert (dead["bad"].attempts, dead["bad"].payload) == (3, "bad")
        assert dead["bad"].error == "ValueError: no, not bad"
        assert (dead["other"].attempts, dead["other"].error) == (1, "KeyError")
        assert "attempt 3 of 3 at job 'bad' has failed" in caplog.text
        fail.clear()
        assert client.retry_job("bad")
        eventually(lambda: one.counts.done == 2)
        assert attempts[-1] == ("bad", 1)
        assert client.drop_job("other")
        assert not client.drop_job("bad")
        assert client.jobs_page(state="dead").jobs == []
        assert client.stats()["unacknowledged"] == 0


def test_a_server_that_does_not_answer(serve, connect, monkeypatch, caplog):
    """The log says so, and when it does; the worker waits for it meanwhile."""
    monkeypatch.setattr(demand, "PATIENCE_S", 0.0)
    address = f"tcp://127.0.0.1:{free_port()}"
    one, done = Worker(address, name="jobs"), queue.SimpleQueue()
    one.on("")(done.put)
    with one:
        eventually(lambda: f"no answer from a server at {address}" in caplog.text)
        connect(serve(memory=True, bind=address), name="jobs").schedule(0)
        assert done.get(timeout=HANG).attempt == 1
        eventually(lambda: f"the server at {address} answers" in caplog.text)
    assert caplog.text.count("no answer from") == 1


def test_to_run_again(worker, client):
    """A worker that was stopped runs again; one that runs cannot be run once more."""
    one, done = worker(), queue.SimpleQueue()
    one.on("")(lambda job: done.put(job.payload))
    for n in range(3):
        with one:
            with pytest.raises(RuntimeError, match="worker 'jobs' runs already"):
                one.run()
            client.schedule(0, payload=n)
            assert done.get(timeout=HANG) == n
        one.stop()  # once more: that is for none to come
    assert one.counts.done == 3
    one.stop(0)
    thread = threading.Thread(target=one.run)
    thread.start()
    client.schedule(0, payload="last")
    assert done.get(timeout=HANG) == "last"
    one.stop()
    thread.join(HANG)
    assert not thread.is_alive()


def test_to_stop_before_it_runs(worker):
    """Then it ends at once."""
    one = worker()
    one.on("")(print)
    one.stop()
    one.run()


def test_from_an_event_loop(server, worker):
    """`AsyncClient` schedules jobs, looks at dead ones, and sends them again or drops them."""
    one = worker(max_attempts=1)

    @one.on("mail")
    def run(job):
        raise ValueError(job.payload)

    async def main():
        async with AsyncClient(server.address, name="jobs", timeout=HANG) as client:
            job = await client.schedule(0, kind="mail", payload="no", job_id="a")
            assert (job.id, job.is_new) == ("a", True)
            while not (dead := (await client.jobs_page(state="dead")).jobs):
                await asyncio.sleep(0)
            assert (dead[0].job_id, dead[0].error) == ("a", "ValueError: no")
            assert await client.retry_job(dead[0])
            while not (dead := (await client.jobs_page(state="dead")).jobs):
                await asyncio.sleep(0)
            assert await client.drop_job("a")
            assert (await client.jobs_page(state="dead")).jobs == []

    with one:
        asyncio.run(main())


def test_a_lease_is_kept_while_the_handler_runs(server, worker, client):
    """However much longer it takes, no other worker gets the job."""
    go_on, began = threading.Event(), queue.SimpleQueue()
    # Kept after a third of it: a machine that stalls for less than the rest ends no lease.
    workers = [worker(lease=HANG / 3) for _ in range(2)]

    def run(job):
        began.put(job)
        assert go_on.wait(HANG)

    for one in workers:
        one.on("")(run)
        one.start()
    client.schedule(0)
    job = began.get(timeout=HANG)
    first_end = lease_end(server, job)
    eventually(lambda: lease_end(server, job) > first_end)
    assert (job.attempt, began.empty()) == (1, True)
    go_on.set()
    eventually(lambda: sum(one.counts.done for one in workers) == 1)


def lease_end(server, job):
    """Return when the lease of a job ends, in milliseconds of the server's clock."""
    held = server._running.store_loop.state.leases.by_number.values()
    return next(due.until_ms for due in held if due.token == job.token)


def test_many_jobs_and_workers(worker, client):
    """Each job is done once as long as no worker dies."""
    done = queue.SimpleQueue()
    for _ in range(3):
        one = worker(concurrency=4)
        one.on("")(lambda job: done.put(job.payload))
        one.start()
    replies = [client.schedule_later(0.001 * (n % 50), payload=n) for n in range(3000)]
    assert len({reply.result(HANG) for reply in replies}) == 3000
    assert sorted(done.get(timeout=HANG) for _ in range(3000)) == list(range(3000))
    eventually(lambda: client.stats()["unacknowledged"] == 0)
    assert done.empty()


class FixedPace:
    """Have five jobs at a time, whatever happens."""

    room = 5

    def add(self, seconds):
        """Learn nothing."""

    def look(self, running_seconds=0.0):
        return False


def test_stopping(worker, client, monkeypatch):
    """What runs is finished; what was not begun is another worker's at once."""
    go_on, began, done = threading.Event(), threading.Event(), queue.SimpleQueue()
    one = worker(concurrency=1)

    @one.on("")
    def run(job):
        began.set()
        assert go_on.wait(HANG)
        done.put(job.payload)

    monkeypatch.setattr(demand, "Pace", lambda *_: FixedPace())
    one.start()
    for n in range(5):
        client.schedule(0, payload=n)
    assert began.wait(HANG)
    stopping = threading.Thread(target=one.stop)
    stopping.start()
    other, others = worker(), queue.SimpleQueue()
    other.on("")(lambda job: others.put((job.payload, job.attempt)))
    other.start()
    assert sorted(others.get(timeout=HANG) for _ in range(4)) == [(n, 1) for n in range(1, 5)]
    go_on.set()
    stopping.join(HANG)
    assert done.get(timeout=HANG) == 0
    eventually(lambda: client.stats()["unacknowledged"] == 0)


def test_a_server_that_restarts(serve, connect):
    """The worker connects again and asks again; tokens grow."""
    first = serve()
    address = first.address
    jobs = queue.SimpleQueue()
    worker = Worker(address, name="jobs", retry_delay=0)
    worker.on("")(jobs.put)
    with worker:
        with Client(address, name="jobs", timeout=HANG) as client:
            client.schedule(0, job_id="a")
            before = jobs.get(timeout=HANG)
            eventually(lambda: worker.counts.done == 1)
            first.close()
            serve(bind=address)
            client.schedule(0, job_id="b")
            after = jobs.get(timeout=HANG)
            assert after.id == "b"
            assert after.token > before.token


def test_bad_arguments(server):
    """Each error names the value."""
    for arguments, error, words in [
        ({"concurrency": 0}, ValueError, "concurrency is 0; expected at least 1"),
        ({"concurrency": 2.5}, TypeError, "concurrency is 2.5"),
        ({"lease": 0.099}, ValueError, "lease is 0.099"),
        ({"max_attempts": 0}, ValueError, "max_attempts is 0"),
        ({"max_attempts": "5"}, TypeError, "max_attempts is '5'"),
        ({"retry_delay": 5, "max_retry_delay": 1}, ValueError, "retry_delay is 5"),
        ({"retry_delay": "soon"}, ValueError, "^retry_delay: 'soon' is not a valid duration"),
        ({"lease": -1}, ValueError, "^lease is -1; expected 0 or more seconds"),
    ]:
        with pytest.raises(error, match=words):
            Worker(server.address, name="jobs", **arguments)
    worker = Worker(server.address, name="jobs", lease=0.1)
    with pytest.raises(ValueError, match="no handler"):
        worker.run()
    worker.on("a")(print)
    with pytest.raises(ValueError, match="kind 'a' has a handler already"):
        worker.on("a")(print)
    with pytest.raises(TypeError, match="handler is 5"):
        worker.on("b")(5)
    with pytest.raises(ValueError, match="max_attempts is 0"):
        worker.on("c", max_attempts=0)
    for call in (worker.stop, worker.wait):
        with pytest.raises(TypeError, match=r"timeout is b'5s'; expected .* a text as '30m'"):
            call(b"5s")
    with pytest.raises(TypeError, match="Worker got an unexpected keyword argument 'lost'"):
        Worker(server.address, name="jobs", lost=5)


@pytest.mark.parametrize(
    ("minute", "second", "nothing"),
    [(timedelta(minutes=1), timedelta(seconds=1), timedelta(0)), ("1m", "1s", "0")],
)
def test_durations_of_a_worker(worker, client, minute, second, nothing):
    """Each may be a timedelta or a text."""
    attempts = queue.SimpleQueue()
    delays = {"retry_delay": nothing, "max_retry_delay": second}
    one = worker(lease=minute, **delays)

    @one.on("k", timeout=minute, **delays)
    def fail_once(job):
        attempts.put(job.attempt)
        assert job.extend(minute)
        if job.attempt == 1:
            raise ValueError

    one.start()
    client.schedule(0, kind="k").result(minute)
    assert [attempts.get(timeout=HANG) for _ in range(2)] == [1, 2]
    one.stop(minute)
    assert one.wait(minute) is True


def test_a_handler_that_comes_too_late(worker, client):
    """It is refused during the run, as it would get no job; and taken after that."""
    one, jobs = worker(), queue.SimpleQueue()
    one.on("early")(print)
    late = one.on("late")
    one.start()
    for register in (late, lambda function: one.on("late")(function)):
        with pytest.raises(RuntimeError, match="'jobs' runs, so a handler of kind 'late' would"):
            register(jobs.put)
    one.stop()
    late(jobs.put)
    one.start()
    client.schedule(0, kind="late", job_id="a")
    assert jobs.get(timeout=HANG).id == "a"


class CountedWake:
    """A worker's event, and a loop that is finished after two steps; it tells their order."""

    def __init__(self):
        self.calls = []

    def wait(self, seconds):
        self.calls.append(("wait", seconds))

    def clear(self):
        self.calls.append("clear")

    def step(self):
        self.calls.append("step")

    def finished(self):
        return self.calls.count("step") == 2

    def sleep_seconds(self):
        return 7.0


def test_it_sleeps_between_steps():
    """As long as the loop says, and what wakes it during a step is for the next one."""
    worker, both = Worker("tcp://127.0.0.1:1", name="jobs"), CountedWake()
    worker._wake = both
    worker._drive(both)
    assert both.calls == [("wait", 7.0), "clear", "step"] * 2


class Steps:
    """A loop that is over after two steps, and never waits."""

    left = 2

    def sleep_seconds(self):
        return 0.0

    def finished(self):
        return not self.left

    def step(self):
        self.left -= 1


def test_an_interrupt_while_it_sleeps():
    """At any place: other threads, and the end of the run, can wake the worker."""
    for n in itertools.count(1):
        worker = Worker("tcp://127.0.0.1:1", name="jobs")
        drive = partial(worker._drive, Steps())
        interrupter = interrupted_at(n, drive, (threading.__file__, GROUND_FLOOR))
        waking = threading.Thread(target=worker._wake.set, daemon=True)
        waking.start()
        waking.join(HANG)
        assert not waking.is_alive()
        if not interrupter.fired:
            break
    assert n > 2


def test_a_server_that_refuses(server, monkeypatch):
    """The error is that of `run`."""
    monkeypatch.setattr(job_requests, "MAX_KINDS", 0)
    worker = Worker(server.address, name="jobs")
    worker.on("a")(print)
    with pytest.raises(purgatory.service.TooManyItems, match="1 kinds; expected at most 0"):
        worker.run()


def test_what_ends_its_thread(caplog):
    """`wait` raises it; before the start there is nothing to wait for."""
    worker = Worker("tcp://127.0.0.1:1", name="jobs")
    worker.on("a")(print)
    assert worker.wait() is True
    worker._run = lambda: 1 / 0
    worker.start()
    assert worker._thread.daemon
    with pytest.raises(ZeroDivisionError):
        worker.wait(HANG)
    assert "worker 'jobs' ends: division by zero" in caplog.text


def test_a_thread_that_cannot_be_started(monkeypatch):
    """The worker does not run, and can be started later."""

    def fail(thread):
        raise RuntimeError("can't start new thread")

    worker = Worker("tcp://127.0.0.1:1", name="jobs")
    worker.on("a")(print)
    with monkeypatch.context() as patch:
        patch.setattr(InterruptibleThread, "start", fail)
        with pytest.raises(RuntimeError, match="new thread"):
            worker.start()
    worker.stop()
    worker.start()
    assert worker.wait(HANG)


@pytest.mark.parametrize("missing", ["jobs-worker-1", "jobs-worker-loop"])
def test_a_handler_thread_that_cannot_be_started(worker, monkeypatch, missing):
    """The error is that of `run`; the threads that were started have ended."""
    start, started = InterruptibleThread.start, []

    def start_others(thread):
        if thread.name == missing:
            raise RuntimeError("can't start new thread")
        start(thread)
        started.append(thread)

    async def run(job):
        pass

    one = worker(concurrency=2)
    one.on("plain")(print)
    one.on("async")(run)
    with monkeypatch.context() as patch:
        patch.setattr(InterruptibleThread, "start", start_others)
        with pytest.raises(RuntimeError, match="new thread"):
            one.run()
    assert "jobs-worker-0" in [thread.name for thread in started]
    assert not any(thread.is_alive() for thread in started)
    one.start()


@pytest.mark.parametrize("others", ["plain", "async"])
def test_jobs_ahead_of_a_worker_that_hangs(worker, client, others):
    """Quick jobs that it took ahead are done by an idle worker, while its handlers are all busy."""
    go_on, hangs, done = threading.Event(), threading.Event(), queue.SimpleQueue()
    one, two = worker(concurrency=2), worker(concurrency=2)

    def hang(job):
        hangs.set()
        assert go_on.wait(HANG)

    async def run_async(job):
        done.put(job.payload)

    for each in (one, two):
        each.on("slow")(hang)
        each.on("quick")(lambda job: done.put(job.payload))
    if others == "async":
        one.on("async")(run_async)  # so it has room for more jobs
    one.start()
    for _ in range(300):  # it takes many ahead by then
        client.schedule(0, kind="quick")
    for _ in range(300):
        done.get(timeout=HANG)
    for _ in range(2):
        client.schedule_later(0, kind="slow")
    for n in range(8):
        client.schedule_later(0, kind="quick", payload=n)
    client.flush()
    assert hangs.wait(HANG)
    eventually(lambda: one.running == 2)
    two.start()
    assert sorted(done.get(timeout=HANG) for _ in range(8)) == list(range(8))
    assert one.running == 2
    if others == "async":
        client.schedule(0, kind="async", payload="beside")
        assert done.get(timeout=HANG) == "beside"
    go_on.set()


class SubmissionTracer:
    """A tracer for clients that have no worker."""

    def traceparent(self):
        """Return no context."""
        return ""

    def ended(self, outcome, traceparent):
        """Record nothing."""

    def __repr__(self):
        return "SubmissionTracer()"


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": -1},
        {"timeout": "x"},
        {"lost_after": "x"},
        {"bogus": 1},
        {"public_key": "x" * 40},
        {"server_key": "x" * 40},
        {"name": None},
        {"name": ""},
        {"metrics_addr": 5},
        {"tracer": 5},
        {"tracer": SubmissionTracer()},
        {"platform": 5},
        {"server_key": "x" * 39, "public_key": "x" * 40, "secret_key": "x" * 40},
    ],
    ids=repr,
)
def test_bad_options_are_refused_at_once(options):
    """And not in the worker's thread, where nobody looks."""
    with pytest.raises((TypeError, ValueError)):
        Worker("tcp://127.0.0.1:9", **{"name": "jobs"} | options)
