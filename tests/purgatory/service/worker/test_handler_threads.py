"""HandlerThreads: coroutine functions run in an event loop; handlers that do not end are left."""

import asyncio
import concurrent.futures
import contextlib
import queue
import threading
from types import SimpleNamespace

import pytest
from msgspec import Raw

from purgatory.service import WorkerStuck
from purgatory.service.client.trace_context import wrap
from purgatory.service.encoding import encode
from purgatory.service.protocol import LeasedJob
from purgatory.service.worker.handler_threads import HandlerThreads, KindSlots
from purgatory.service.worker.handlers import HandlerLimits, Retry, make_handler
from purgatory.service.worker.held_jobs import HeldJob
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_coroutine_functions(worker, client):
    """They run in one event loop, beside each other; plain functions in threads."""
    meet, done = threading.Barrier(2), queue.SimpleQueue()
    one = worker(concurrency=2)
    loops = []

    @one.on("async")
    async def run(job):
        loops.append(asyncio.get_running_loop())
        while len(loops) < 2:
            await asyncio.sleep(0)
        done.put(job.payload)

    @one.on("plain")
    def run_plain(job):
        meet.wait(HANG)
        done.put(job.payload)

    with one:
        for n, kind in enumerate(["async", "plain", "async", "plain"]):
            client.schedule(0, kind=kind, payload=n)
        assert sorted(done.get(timeout=HANG) for _ in range(4)) == [0, 1, 2, 3]
        eventually(lambda: one.counts.done == 4)
    assert loops[0] is loops[1]


def test_a_handler_that_does_not_end(worker, client):
    """A worker stops without it, and gives the job back."""
    go_on, began = threading.Event(), threading.Event()
    one = worker()

    @one.on("")
    def run(job):
        began.set()
        assert go_on.wait(HANG)

    one.start()
    client.schedule(0)
    assert began.wait(HANG)
    one.stop(0)
    again = queue.SimpleQueue()
    other = worker()
    other.on("")(lambda job: again.put(job.attempt))
    other.start()
    assert again.get(timeout=HANG) == 1
    go_on.set()


class NoText(Exception):
    """An error whose text cannot be made; its argument says why."""

    def __str__(self):
        raise self.args[0]


class NoString(Exception):
    """An error whose text is none."""

    def __str__(self):
        return 5  # noqa: PLE0307


class NoName(type):
    """A class of classes that have no name."""

    @property
    def __name__(cls):
        raise ValueError("no name")


class Nameless(Exception, metaclass=NoName):
    """An error of a class without a name."""


def raise_surrogate():
    raise ValueError("cannot import caf\udce9.csv")  # as os.listdir gives a name


def raise_no_text():
    raise NoText(IndexError())


def raise_exit_as_text():
    raise NoText(SystemExit())


def raise_interrupt_as_text():
    raise NoText(KeyboardInterrupt())


def raise_no_string():
    raise NoString


def raise_nameless():
    raise Nameless


def raise_cancelled():
    raise asyncio.CancelledError


def raise_exit():
    raise SystemExit(3)


def raise_interrupt():
    raise KeyboardInterrupt


def raise_generator_exit():
    raise GeneratorExit


def raise_stop():
    raise StopIteration("so")


RAISED = [
    raise_surrogate,
    raise_no_text,
    raise_exit_as_text,
    raise_interrupt_as_text,
    raise_no_string,
    raise_nameless,
    raise_cancelled,
    raise_exit,
    raise_interrupt,
    raise_generator_exit,
    raise_stop,
]


def check_that_it_fails_and_others_run(one, client, done):
    """Every job of the kind "bad" is dead after its attempt, and another job is done."""
    with one:
        for _ in range(3):
            client.schedule(0, kind="bad")
        eventually(lambda: len(client.jobs_page(state="dead").jobs) == 3)
        client.schedule(0, kind="good")
        done.get(timeout=HANG)
        eventually(lambda: client.stats()["jobs_leased"] == 0)
    assert all(job.error for job in client.jobs_page(state="dead").jobs)
    for job in client.jobs(state="dead"):
        client.drop_job(job)


@pytest.mark.parametrize("call", RAISED)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_whatever_a_handler_raises(worker, client, call, is_async):
    """The attempt has failed, with some text; its lease ends, and the thread runs the next job."""
    one, done = worker(concurrency=1, max_attempts=1), queue.SimpleQueue()

    async def run_async(job):
        call()

    one.on("bad")(run_async if is_async else lambda job: call())
    one.on("good")(done.put)
    check_that_it_fails_and_others_run(one, client, done)


def test_a_handler_that_stops_its_event_loop(worker, client):
    """The loop goes on, also after a callback of a handler that ends a program."""
    one, done = worker(concurrency=1, max_attempts=1), queue.SimpleQueue()
    loop = []

    def leave():
        loop.append(1)
        raise SystemExit

    @one.on("bad")
    async def run_bad(job):
        asyncio.get_running_loop().stop()
        asyncio.get_running_loop().call_soon(leave)
        await asyncio.sleep(0)
        raise ValueError("no")

    @one.on("good")
    async def run_good(job):
        done.put(job)

    check_that_it_fails_and_others_run(one, client, done)
    assert len(loop) == 3


async def wait_a_little():
    await asyncio.sleep(0)


def generate():
    yield


async def generate_async():
    yield


class Later:
    """What can be awaited, and is no coroutine."""

    def __await__(self):
        yield


@pytest.mark.parametrize(
    "unfinished", [wait_a_little, generate, generate_async, Later, concurrent.futures.Future]
)
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_handler_that_has_not_run_to_its_end(worker, client, unfinished, is_async):
    """What returns a coroutine, a generator or a future has done nothing: the attempt failed."""
    one, done = worker(concurrency=1, max_attempts=1), queue.SimpleQueue()

    async def run_async(job):
        return unfinished()

    one.on("bad")(run_async if is_async else lambda job: unfinished())
    one.on("good")(done.put)
    with one:
        client.schedule(0, kind="bad")
        eventually(lambda: client.jobs_page(state="dead").jobs)
        assert "has not run to its end" in client.jobs_page(state="dead").jobs[0].error
        assert one.counts.done == 0


class TestTimeLimits:
    """Handlers that take too long, in real threads and a real event loop."""

    def test_a_coroutine(self, worker, client):
        """It is cancelled, and the attempt has failed; others go on."""
        told = queue.SimpleQueue()
        one = worker(concurrency=1, max_attempts=2)

        @one.on("slow", timeout=0.1)
        async def slow(job):
            try:
                await asyncio.sleep(HANG)
            except asyncio.CancelledError:
                told.put(("cancelled", job.attempt))
                raise

        @one.on("quick")
        async def quick(job):
            told.put(("quick", job.attempt))

        one.start()
        client.schedule(0, kind="slow")
        assert told.get(timeout=HANG) == ("cancelled", 1)
        assert told.get(timeout=HANG) == ("cancelled", 2)
        eventually(lambda: client.jobs_page(state="dead").jobs)
        [dead] = client.jobs_page(state="dead").jobs
        assert dead.error == "TimeLimit: the handler runs longer than its time limit of 0.1 s"
        client.schedule(0, kind="quick")
        assert told.get(timeout=HANG) == ("quick", 1)
        eventually(lambda: one._loop._held.lost == [])

    def test_a_thread(self, worker, client):
        """Another one takes its place; what it returns late is not heard, and it ends then."""
        go_on, began, done = threading.Event(), queue.SimpleQueue(), queue.SimpleQueue()
        one = worker(concurrency=1, max_attempts=2, retry_delay=0.001)

        @one.on("", timeout=0.1)
        def run(job):
            if job.attempt == 1:
                began.put(threading.current_thread())
                assert go_on.wait(HANG)
            done.put((job.attempt, threading.current_thread()))

        one.start()
        client.schedule(0)
        first = began.get(timeout=HANG)
        attempt, second = done.get(timeout=HANG)
        assert attempt == 2
        assert second is not first
        eventually(lambda: one.counts.done == 1)
        go_on.set()
        assert done.get(timeout=HANG) == (1, first)
        first.join(HANG)
        assert not first.is_alive()
        assert (one.counts.done, one.counts.failed, one.counts.lost) == (1, 1, 0)
        eventually(lambda: one._loop._held.lost == [])

    def test_more_time(self, worker, client):
        """A handler that asks for it is not given up."""
        done = queue.SimpleQueue()
        one = worker(max_attempts=1)

        @one.on("", timeout=1)
        async def run(job):
            assert job.extend(HANG)  # at once: a busy machine does not take a second
            await asyncio.sleep(1.2)
            done.put(job.attempt)

        with one:
            client.schedule(0)
            assert done.get(timeout=HANG) == 1
            eventually(lambda: one.counts.done == 1)

    @pytest.mark.parametrize("of_handler", [False, True])
    def test_a_worker_whose_threads_are_lost(self, worker, client, of_handler):
        """It gives back its jobs, and ends with an error; another worker gets them, uncounted."""
        go_on, began = threading.Event(), queue.SimpleQueue()
        one = worker(concurrency=5 if of_handler else 1, max_attempts=1)

        @one.on("", timeout=0.1, concurrency=1 if of_handler else None)
        def run(job):
            began.put(job.id)
            assert go_on.wait(HANG)

        for n in range(4):
            client.schedule(0, job_id=f"job {n}")
        one.start()
        with pytest.raises(WorkerStuck, match="run longer than their time limit"):
            eventually(lambda: one.wait(0.1))
        assert began.qsize() == 2
        done = queue.SimpleQueue()
        other = worker(max_attempts=1)
        other.on("")(lambda job: done.put((job.id, job.attempt)))
        other.start()
        assert sorted(done.get(timeout=HANG) for _ in range(2)) == [("job 2", 1), ("job 3", 1)]
        go_on.set()


class TestConcurrency:
    """Handlers with a limit of their own."""

    @pytest.mark.parametrize("is_async", [False, True])
    def test_a_limit_of_a_handler(self, worker, client, is_async):
        """No more run at a time, and they take no room from the others."""
        lock, running, most, quick = threading.Lock(), [0], [0], queue.SimpleQueue()
        go_on, slow_done = threading.Event(), queue.SimpleQueue()
        one = worker(concurrency=4)

        def begin():
            with lock:
                running[0] += 1
                most[0] = max(most[0], running[0])

        def end(job):
            with lock:
                running[0] -= 1
            slow_done.put(job.payload)

        if is_async:

            @one.on("slow", concurrency=2)
            async def run(job):
                begin()
                await asyncio.to_thread(go_on.wait, HANG)
                end(job)

            @one.on("quick")
            async def run_quick(job):
                quick.put(job.payload)
        else:

            @one.on("slow", concurrency=2)
            def run(job):
                begin()
                assert go_on.wait(HANG)
                end(job)

            @one.on("quick")
            def run_quick(job):
                quick.put(job.payload)

        for n in range(8):
            client.schedule(0, kind="slow", payload=n)
        with one:
            eventually(lambda: running[0] == 2)
            for n in range(20):
                client.schedule(0, kind="quick", payload=n)
            assert sorted(quick.get(timeout=HANG) for _ in range(20)) == list(range(20))
            assert most[0] == 2
            go_on.set()
            assert sorted(slow_done.get(timeout=HANG) for _ in range(8)) == list(range(8))
            assert most[0] == 2

    def test_bad_limits(self, worker):
        """Each is refused where it is given."""
        one = worker()
        for options, error in [
            ({"concurrency": 0}, ValueError),
            ({"concurrency": True}, TypeError),
            ({"timeout": 0}, ValueError),
            ({"timeout": [5]}, TypeError),
            ({"timeout": "soon"}, ValueError),
            ({"timeout": -1}, ValueError),
        ]:
            with pytest.raises(error):
                one.on("kind", **options)


def held(number, kind):
    return HeldJob(LeasedJob(number, 1, f"job {number}", kind, 1, 0, 0), 0.0)


@pytest.fixture
def started():
    return []


@pytest.fixture
def slots(started):
    return KindSlots({"slow": 2}, lambda one: started.append(one.leased.number))


def test_a_kind_with_a_limit(slots, started):
    """Those beyond begin in order, one for each that ends; other kinds do not wait."""
    jobs = [held(number, "slow") for number in range(5)]
    for job in jobs:
        slots.add(job)
    slots.add(held(9, "quick"))
    assert started == [0, 1, 9]
    slots.free(jobs[0])
    slots.free(held(9, "quick"))
    assert started == [0, 1, 9, 2]
    for job in jobs[1:]:
        slots.free(job)
    assert started == [0, 1, 9, 2, 3, 4]
    for number in (5, 6, 7):
        slots.add(held(number, "slow"))
    assert started == [0, 1, 9, 2, 3, 4, 5, 6]


def test_each_thread_has_a_name_of_its_own():
    """As many threads as handlers may run, and one for coroutines, with the worker's name."""

    async def run(job):
        pass

    retry = Retry(1, 0, 0)
    handlers = {"plain": make_handler(print, retry), "async": make_handler(run, retry)}
    threads = HandlerThreads("w", 2, handlers, None)
    threads.start(lambda held: True, lambda held, error: None)
    names = [thread.name for thread in threads._threads]
    threads.stop(HANG)
    assert names == ["w-0", "w-1", "w-loop"]


def test_stopping_while_coroutines_wait_for_their_turn():
    """Those that run and those that have not begun are cancelled, and the thread ends."""
    began = queue.SimpleQueue()

    async def run(job):
        began.put(job.id)
        await asyncio.sleep(HANG)

    threads = HandlerThreads("w", 1, {"": make_handler(run, Retry(1, 0, 0))}, None)
    ended = []
    threads.start(lambda held: True, lambda held, error: ended.append((held, type(error))))
    held = [HeldJob(LeasedJob(n, 1, f"{n}", "", 1, 0, 0), 0.0) for n in range(3)]
    for one in held:
        threads.add(one)
    assert began.get(timeout=HANG) == "0"
    threads.stop(HANG)
    assert not any(thread.is_alive() for thread in threads._threads)
    assert ended == [(held[0], asyncio.CancelledError)]
    assert began.empty()


def test_a_job_that_comes_after_the_end():
    """It was on its way at the stop: it is not run, and the I/O thread that brings it goes on."""

    async def run(job):
        raise AssertionError(job)

    threads = HandlerThreads("w", 1, {"": make_handler(run, Retry(1, 0, 0))}, None)
    threads.start(lambda held: True, lambda held, error: None)
    threads.stop(HANG)
    threads.add(HeldJob(LeasedJob(1, 1, "1", "", 1, 0, 0), 0.0))


@pytest.mark.parametrize("is_traced", [False, True])
@pytest.mark.parametrize("traces", [False, True])
@pytest.mark.parametrize("is_async", [False, True])
def test_which_attempts_have_a_span(is_traced, traces, is_async):
    """Those of traced jobs, in a worker that traces; the handler gets the payload alone."""
    spans, payloads, ends = [], [], queue.SimpleQueue()

    @contextlib.contextmanager
    def attempted(leased, traceparent):
        spans.append((leased.op_id, traceparent))
        yield

    def run(job):
        payloads.append(job.payload)

    async def run_async(job):
        run(job)

    tracer = SimpleNamespace(attempted=attempted) if traces else None
    handler = make_handler(run_async if is_async else run, Retry(1, 0, 0))
    threads = HandlerThreads("w", 1, {"": handler}, tracer)
    threads.start(lambda held: True, lambda held, error: ends.put(error))
    packed = Raw(encode(7))
    payload = wrap(TRACEPARENT, packed) if is_traced else packed
    threads.add(HeldJob(LeasedJob(1, 1, "a", "", 1, 0, 0, payload), 0.0))
    assert ends.get(timeout=HANG) is None
    threads.stop(HANG)
    assert payloads == [7]
    assert spans == ([("a", TRACEPARENT)] if is_traced and traces else [])


@pytest.mark.parametrize("concurrency", [1, 2, 5])
@pytest.mark.parametrize("limit", [None, 1, 2])
def test_coroutines_take_turns(concurrency, limit):
    """At most so many run at a time, and of a kind; each that ends makes room for the next one."""
    running, most, ends = set(), [], queue.SimpleQueue()

    async def run(job):
        running.add(job.id)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(job.id)

    handler = make_handler(run, Retry(1, 0, 0), HandlerLimits(None, limit))
    threads = HandlerThreads("w", concurrency, {"": handler}, None)
    threads.start(lambda held: True, lambda held, error: ends.put(error))
    for number in range(5):
        threads.add(held(number, ""))
    assert [ends.get(timeout=HANG) for _ in range(5)] == [None] * 5
    threads.stop(HANG)
    assert max(most) <= min(concurrency, limit or concurrency)
