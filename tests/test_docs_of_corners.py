"""What the pages say of the rare case beside the usual one is what the code does."""

import asyncio
import re
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar

import pytest

import mq
from purgatory import DelayedOperation, OperationCancelled, OperationExpired, Purgatory
from purgatory.aio import AsyncPurgatory
from purgatory.cli.spark.batch import _tables_of
from purgatory.core.operations.outcome_race import MAX_NESTED
from purgatory.testing import ManualPurgatory, ServiceWorld
from purgatory.testing.world import process
from purgatory.trace.path_conflicts import PathConflict, check_outputs
from tests.test_docs import ROOT, text_of
from tests.testing.purgatory_harness import HANG
from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.executors.user_pool import TASKS_PER_JOB


class CountingPool(ThreadPoolExecutor):
    """Counts jobs."""

    jobs = 0

    def submit(self, *args, **options):
        """Submit and count."""
        self.jobs += 1
        return super().submit(*args, **options)


@pytest.mark.parametrize(("tasks", "jobs"), [(3, 1), (TASKS_PER_JOB, 2)])
def test_tasks_of_one_tick_in_a_pool(tasks, jobs):
    """library.md: a single job has them all, if they are not many, whatever threads are idle."""
    clock, ran = ManualClock(), []
    with CountingPool(8) as pool:
        timer = Timer(clock=clock, executor=pool)
        for number in range(tasks):
            timer.schedule(1, ran.append, number)
        clock.advance(1)
        timer.advance_clock()
        timer.close()
        assert (pool.jobs, sorted(ran)) == (jobs, list(range(tasks)))
    said = f"one thread of the pool runs the tasks of a tick in turn, from {TASKS_PER_JOB:,} on"
    assert said in text_of("docs/library.md")
    assert "tasks of one tick take turns" in text_of("docs/coming-from.md")


def test_waiting_after_complete_later():
    """library.md: the loop runs the callback, and so lets nothing expire meanwhile."""
    told, ended = [], threading.Event()

    def wait(_):
        late = purgatory.defer("late", timeout=0.001)
        with suppress(TimeoutError):
            told.append(late.exception(0.1))
        ended.set()

    with Purgatory() as purgatory:
        purgatory.defer("posted").add_done_callback(wait)
        purgatory.complete_later("posted")
        assert ended.wait(HANG)
    assert told == []
    assert "after `complete_later`, or in any pool for one of the same tick" in text_of(
        "docs/library.md"
    )


def test_a_delay_of_0_overtakes():
    """library.md: a task that is due, but not taken out yet, runs later."""
    clock, ran = ManualClock(), []
    timer = Timer(clock=clock, executor=InlineExecutor())
    timer.schedule(1, ran.append, "due before")
    clock.advance(2)
    timer.schedule(0, ran.append, "at once")
    timer.advance_clock()
    assert ran == ["at once", "due before"]
    assert "in any order; a delay of 0 runs at once" in text_of("docs/library.md")


def test_closing_on_a_shared_timer():
    """library.md: `close` of the timer waits for a running callback, not the purgatory's."""
    inside, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow(DelayedOperation):
        def try_complete(self):
            return False

        def on_expiration(self):
            inside.set()
            go_on.wait(HANG)
            ended.set()

    with Timer() as timer:
        with Purgatory(timer=timer) as purgatory:
            purgatory.try_complete_else_watch(Slow(0.001), ["key"])
            assert inside.wait(HANG)
        assert not ended.is_set()
        go_on.set()
    assert ended.is_set()
    assert "on a shared timer only the timer's `close` waits for them" in text_of("docs/library.md")


def test_an_exit_in_the_main_thread():
    """library.md: the call raises what ends the process, `complete` after all callbacks."""
    with Purgatory() as purgatory:
        first, second = purgatory.defer("key"), purgatory.defer("key")
        told = []
        first.add_done_callback(lambda _: sys.exit(3))
        second.add_done_callback(lambda _: told.append("second"))
        with pytest.raises(SystemExit):
            purgatory.complete("key")
        assert told == ["second"]
    clock = ManualClock()
    timer = Timer(clock=clock, executor=InlineExecutor(), on_error=lambda *_: told.append("error"))
    timer.schedule(1, sys.exit)
    clock.advance(1)
    with pytest.raises(SystemExit):
        timer.advance_clock()
    assert told == ["second"]
    said = "`complete` and `advance_clock` raise none of these, but in the main thread an exit"
    assert said in text_of("docs/library.md")


def test_the_context_of_an_expiry_by_hand():
    """library.md: the context of the thread that advances the clock."""
    request, seen = ContextVar("request", default="none"), []
    request.set("17")
    with ManualPurgatory() as purgatory:
        purgatory.defer("key", timeout=1).add_done_callback(lambda _: seen.append(request.get()))
        purgatory.advance(1)
    assert seen == ["17"]
    assert "or of the thread that advances the clock by hand" in text_of("docs/library.md")


async def coroutine_function(_):
    """Do nothing."""


def test_a_coroutine_function_as_a_callback():
    """library.md: futures of threads and of event loops refuse it."""

    async def main():
        async with AsyncPurgatory() as purgatory:
            for future in (purgatory.defer("key"), purgatory.purgatory.defer("key")):
                with pytest.raises(TypeError, match="a coroutine function"):
                    future.add_done_callback(coroutine_function)

    asyncio.run(main())
    said = "is refused, also as a method of an operation and as a done callback:"
    assert said in text_of("docs/library.md")


def test_when_a_task_of_wait_begins():
    """asyncio.md: with its first step, so it misses an event before that."""

    async def main():
        async with AsyncPurgatory() as purgatory:
            early = asyncio.create_task(purgatory.wait("early", timeout=0))
            assert purgatory.complete("early") == 0
            with pytest.raises(OperationExpired):
                await early
            waiting = asyncio.create_task(purgatory.wait("key"))
            await asyncio.sleep(0)
            assert purgatory.complete("key", 1) == 1
            assert await waiting == 1

    asyncio.run(main())
    assert "begins when it is awaited or its task runs" in text_of("docs/asyncio.md")


def test_a_lock_that_nobody_waits_for():
    """asyncio.md: what a cancelled task was handed goes to a later one; an error goes nowhere."""
    page = (ROOT / "docs/asyncio.md").read_text()
    source = page[
        page.index("async def acquire(") : page.index(
            "\n\n\nasync def main():\n    async with AsyncPurgatory() as p:\n        first, second"
        )
    ]
    names = {"asyncio": asyncio}
    exec(source, names)

    async def main():
        async with AsyncPurgatory() as p:
            first = asyncio.create_task(names["acquire"](p, "lock"))
            await asyncio.sleep(0)
            p.complete("lock", "the lock", limit=1)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            assert await names["acquire"](p, "lock") == "the lock"
            second = asyncio.create_task(names["acquire"](p, "lock"))
            await asyncio.sleep(0)
            p.fail("lock", ConnectionError)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second

    asyncio.run(main())


@pytest.mark.parametrize(("executor", "told"), [("None", ""), ("ThreadPoolExecutor(1)", "ended\n")])
def test_a_program_without_close(executor, told):
    """library.md: Python waits for the threads of a pool; a timer's own end with the program."""
    program = f"""
import threading
from concurrent.futures import ThreadPoolExecutor
from timingwheel import Timer
timer, begun, exits = Timer(executor={executor}), threading.Event(), threading.Event()
timer.start()
if {bool(told)}:
    threading._register_atexit(exits.set)
timer.schedule(0, lambda: (begun.set(), exits.wait(), print("ended")))
begun.wait()
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG
    )
    assert done.stdout == told
    said = "the program ends at once, or after callbacks in a pool of yours"
    assert said in text_of("docs/library.md")


def test_which_tasks_have_had_their_turn():
    """asyncio.md: those that await a wait; another step brings the end of a `gather`."""
    turns = []

    async def main():
        async with AsyncPurgatory() as purgatory:

            async def wait(kind):
                first = purgatory.defer(kind)
                with suppress(OperationCancelled):
                    await (asyncio.gather(first) if kind == "gather" else first)
                turns.append(kind)

            tasks = [asyncio.create_task(wait(kind)) for kind in ("gather", "itself")]
            await asyncio.sleep(0)
        assert turns == ["itself"]
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert "each task that awaits one itself has had its turn" in text_of("docs/asyncio.md")


def test_what_a_limit_costs():
    """why.md: a list of all that wait for the key; without a limit nothing is made for others."""
    waiters = 10_000
    purgatory = Purgatory()
    futures = [purgatory.defer("key") for _ in range(waiters)]
    purgatory.defer("another")

    def bytes_of(key):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        assert purgatory.complete(key, limit=1) == 1
        return tracemalloc.get_traced_memory()[1] - before

    tracemalloc.start()
    try:
        assert bytes_of("key") > 8 * waiters > bytes_of("another")
    finally:
        tracemalloc.stop()
        purgatory.close()
    assert futures[0].done()
    assert "but `limit`, on how many wait for the key" in text_of("docs/why.md")


def test_a_simulated_day(monkeypatch):
    """howto/testing.md: `result` gives up before a later timeout; here after an hour."""
    assert process._LONGEST_WAIT_S == 86_400
    monkeypatch.setattr(process, "_LONGEST_WAIT_S", 3600.0)
    with ServiceWorld() as world:
        future = world.client("waiter").defer("key", timeout=7200)
        with pytest.raises(TimeoutError) as told:
            future.result()
        assert not isinstance(told.value, OperationExpired)
        assert not future.done()
    statement = "After a simulated day a pending future raises TimeoutError, whatever its timeout."
    assert statement in text_of("docs/howto/testing.md")


def test_outputs_beside_the_tables_of_a_journal(tmp_path):
    """traces.md: a report may be among them, as that of `make demo`, but in none of them."""
    (tmp_path / "outcomes").mkdir()
    inputs = _tables_of(str(tmp_path))
    check_outputs({"--html": tmp_path / "report.html"}, inputs)
    with pytest.raises(PathConflict, match="lies in the input"):
        check_outputs({"--html": tmp_path / "outcomes" / "report.html"}, inputs)
    assert "writes into the directory of an input table" in text_of("docs/traces.md")


def test_callbacks_within_a_dozen_callbacks():
    """tutorial.md: they run after these, and so after `complete` has returned."""
    purgatory, done, late = Purgatory(), [], []

    def wait(depth):
        purgatory.defer(depth).add_done_callback(lambda _: on_done(depth))

    def on_done(depth):
        done.append(depth)
        if depth <= MAX_NESTED:
            wait(depth + 1)
            assert purgatory.complete(depth + 1) == 1
            late.extend({depth + 1}.difference(done))

    wait(0)
    purgatory.complete(0)
    purgatory.close()
    assert done == list(range(MAX_NESTED + 2))
    assert late == [MAX_NESTED]
    assert "(within a dozen callbacks, after these)" in text_of("docs/tutorial.md")


@contextmanager
def sockets(*kinds):
    """Make sockets of a context; close them all."""
    with mq.Context() as context, ExitStack() as stack:
        yield [stack.enter_context(context.socket(kind)) for kind in kinds]


def test_replies_to_a_full_peer():
    """mq.md: a REP drops those beyond the sum of both marks, and does not wait."""
    with sockets(mq.REP, mq.DEALER) as (server, client):
        server.sndhwm, client.rcvhwm = 1, 2
        server.bind("inproc://requests")
        client.connect("inproc://requests")
        for _ in range(5):
            client.send_multipart([b"", b"request"])
            server.send(server.recv())
        assert [client.recv_multipart(mq.NOBLOCK)[1] for _ in range(3)] == [b"request"] * 3
        with pytest.raises(mq.Again):
            client.recv(mq.NOBLOCK)
    page = text_of("docs/mq.md")
    assert "ROUTER unless ROUTER_MANDATORY is set, REP and XSUB." in page
    assert ": How many messages a socket adds to those" in text_of("docs/glossary.md")


def test_messages_of_an_xsub_to_a_full_peer():
    """mq.md: dropped, likewise."""
    with sockets(mq.XPUB, mq.XSUB) as (xpub, xsub):
        xpub.rcvhwm = xsub.sndhwm = 1
        xpub.bind("inproc://topics")
        xsub.connect("inproc://topics")
        for _ in range(5):
            xsub.send(b"upstream")
        assert [xpub.recv(mq.NOBLOCK) for _ in range(2)] == [b"upstream"] * 2
        with pytest.raises(mq.Again):
            xpub.recv(mq.NOBLOCK)


def test_a_push_with_a_full_connection():
    """mq.md: `send` waits only while all connections are full."""
    with sockets(mq.PUSH, mq.PULL, mq.PULL) as (push, slow, quick):
        push.sndhwm = slow.rcvhwm = quick.rcvhwm = 1
        push.bind("inproc://work")
        slow.connect("inproc://work")
        quick.connect("inproc://work")
        read = 0
        for _ in range(20):
            push.send(b"work", mq.NOBLOCK)
            read += quick.poll(0) and len(quick.recv_multipart())
        assert read == 18  # the others fill the slow one
        for _ in range(2):
            push.send(b"work", mq.NOBLOCK)
        with pytest.raises(mq.Again):
            push.send(b"work", mq.NOBLOCK)
    assert "While all their connections are full, or without a peer" in text_of("docs/mq.md")


def test_missing_programs_where_ci_is_set():
    """CONTRIBUTING.md: a test that skips itself without one of its programs looks at `CI`."""
    said = "Without these programs tests are skipped; with `CI` set they fail."
    assert said in text_of("CONTRIBUTING.md")
    program = re.compile(r'which\("(?:spin|chromium|curl|node|promtool|pgbouncer)"')
    texts = {str(path): path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    using = {path for path, text in texts.items() if program.search(text)}
    assert len(using) > 5
    assert {path for path in using if '"CI"' not in texts[path]} == set()
