"""AsyncPurgatory: wait, complete, cancel and close, in the loop and from threads."""

import asyncio
import contextvars
import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import pytest
from prometheus_client import CollectorRegistry

from purgatory import (
    DelayedOperation,
    HeldFull,
    OperationCancelled,
    OperationExpired,
    Purgatory,
    PurgatoryClosed,
    PurgatoryForked,
    WrongEventLoop,
)
from purgatory.aio import AsyncPurgatory
from purgatory.aio.loop_delivery import PORTION
from tests.testing.purgatory_harness import in_thread
from timingwheel import InlineExecutor, ManualClock, Timer, TimerFull


async def begin(*coroutines):
    """Start tasks, and let them run until they wait."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    await asyncio.sleep(0)
    return tasks if len(tasks) > 1 else tasks[0]


async def until(condition):
    """Let the loop go on until a condition is true."""
    while not condition():
        await asyncio.sleep(0)


class TestWait:
    def test_it_returns_the_value(self, run):
        """A wait ends with what its key was completed with."""

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(p.wait("order:17", timeout=30.0))
                assert p.complete("order:17", "accepted") == 1
                assert await task == "accepted"
                assert (p.delayed, p.watched) == (0, 0)

        run(main())

    def test_any_of_several_keys_ends_it(self, run):
        """One key of three is enough, and the others are watched no more."""

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(p.wait("a", "b", "c"))
                assert p.watched == 3
                assert [p.complete("b", 2), p.complete("a", 1)] == [1, 0]
                assert await task == 2

        run(main())

    def test_need_returns_a_dict(self, run):
        """With need > 1 the value of each key is there."""

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(p.wait("a", "b", "c", need=2))
                assert [p.complete("c", 3), p.complete("c", 4), p.complete("a", 1)] == [0, 0, 1]
                assert await task == {"c": 3, "a": 1}

        run(main())

    def test_it_expires(self, run):
        """After the timeout it raises OperationExpired, which is a TimeoutError."""

        async def main():
            async with AsyncPurgatory() as p:
                with pytest.raises(TimeoutError, match="20 ms: needed 1 of 'a'"):
                    await p.wait("a", timeout=0.02)
                assert p.stats().expired == 1

        run(main())

    def test_a_timeout_of_zero_expires_at_once(self, run):
        """Nothing waits for the loop's timer then."""

        async def main():
            async with AsyncPurgatory(clock=ManualClock()) as p:
                with pytest.raises(OperationExpired):
                    await p.wait("a", timeout=0)

        run(main())

    @pytest.mark.parametrize(
        ("keys", "options", "error"),
        [
            ((), {}, ValueError),
            ((["unhashable"],), {}, TypeError),
            (("a",), {"need": 2}, ValueError),
            (("a",), {"need": "1"}, TypeError),
            (("a",), {"timeout": -1}, ValueError),
            (("a",), {"timeout": None}, TypeError),
        ],
    )
    def test_bad_arguments_are_refused(self, run, keys, options, error):
        """They are those of Purgatory.defer; nothing is left behind."""

        async def main():
            async with AsyncPurgatory() as p:
                with pytest.raises(error):
                    await p.wait(*keys, **options)
                assert (p.delayed, p.watched) == (0, 0)

        run(main())

    def test_waits_of_one_key_end_in_order(self, run):
        """First come, first served, also where they are delivered in portions."""

        async def main():
            ended = []

            async def wait(n):
                ended.append((n, await p.wait("a")))

            async with AsyncPurgatory() as p:
                tasks = await begin(*map(wait, range(3 * PORTION)))
                assert p.complete("a", "v") == 3 * PORTION
                await asyncio.gather(*tasks)
                assert ended == [(n, "v") for n in range(3 * PORTION)]

        run(main())

    def test_no_cycle_is_left_behind(self, run):
        """What a wait refers to is freed with it, whether it returned or raised."""

        class Value:
            pass

        async def main():
            async with AsyncPurgatory() as p:
                gc.collect()
                gc.disable()
                try:
                    value = Value()
                    task = await begin(p.wait("a"))
                    p.complete("a", value)
                    seen = weakref.ref(await task)
                    del value, task
                    with pytest.raises(OperationExpired) as info:
                        await p.wait("a", timeout=0)
                    error = weakref.ref(info.value)
                    del info
                    await asyncio.sleep(0)  # the loop forgets the step that it came with
                    assert (seen(), error()) == (None, None)
                finally:
                    gc.enable()

        run(main())

    def test_the_context_is_the_tasks(self, run):
        """A task goes on in its own context, wherever the completion came from."""
        variable = contextvars.ContextVar("variable", default="loop")

        async def wait(p):
            variable.set("task")
            await p.wait("a")
            return variable.get()

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(wait(p))
                p.complete("a")
                assert (await task, variable.get()) == ("task", "loop")

        run(main())


class TestCancel:
    def test_cancelling_the_task_cancels_the_operation(self, run):
        """Nothing is watched any more once the task has run."""

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(p.wait("a", "b"))
                task.cancel("enough")
                with pytest.raises(asyncio.CancelledError, match="enough"):
                    await task
                assert (p.delayed, p.stats().cancelled, p.complete("a")) == (0, 1, 0)

        run(main())

    def test_an_event_does_not_reach_a_cancelled_task(self, run):
        """Cancelled, then completed in the same step: the event is not counted as used."""

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(p.wait("a"))
                task.cancel()
                assert p.complete("a") == 0
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (p.stats().completed, p.stats().cancelled) == (0, 1)

        run(main())

    def test_completed_then_cancelled_in_one_step(self, run):
        """As asyncio does it: the task is cancelled; the operation has completed, once."""

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(p.wait("a"))
                assert p.complete("a", "lost") == 1
                assert task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (p.stats().completed, p.stats().cancelled) == (1, 0)

        run(main())

    def test_a_future_keeps_what_its_task_missed(self, run):
        """Completed and cancelled in one step: `defer` has the value, for the task to give back."""

        async def wait(future):
            try:
                return await future
            except asyncio.CancelledError:
                return "given back", future.result()

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(wait(p.defer("a")))
                p.complete("a", "lease")
                task.cancel()
                assert await task == ("given back", "lease")

        run(main())

    def test_a_closed_coroutine_cancels_the_operation(self, run):
        """A coroutine that is thrown away leaves nothing behind."""

        async def main():
            async with AsyncPurgatory() as p:
                coroutine = p.wait("a")
                coroutine.send(None)
                assert p.delayed == 1
                coroutine.close()
                assert (p.delayed, p.stats().cancelled) == (0, 1)

        run(main())

    def test_asyncio_timeout_nests(self, run):
        """An outer timeout cancels the operation; an inner expiry passes through an outer one."""

        async def main():
            async with AsyncPurgatory() as p:
                with pytest.raises(TimeoutError) as info:
                    async with asyncio.timeout(0.01):
                        await p.wait("a", timeout=30)
                assert not isinstance(info.value, OperationExpired)
                assert (p.delayed, p.stats().cancelled) == (0, 1)
                async with asyncio.timeout(30) as outer:
                    with pytest.raises(OperationExpired):
                        await p.wait("a", timeout=0.01)
                assert not outer.expired()
                assert asyncio.current_task().cancelling() == 0
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(p.wait("a"), 0.01)
                assert p.delayed == 0

        run(main())

    def test_a_task_group_cancels_its_waits(self, run):
        """An error in one task ends the waits of the others."""

        async def fail():
            raise ZeroDivisionError

        async def main():
            async with AsyncPurgatory() as p:
                with pytest.raises(ExceptionGroup):  # noqa: PT012
                    async with asyncio.TaskGroup() as group:
                        group.create_task(p.wait("a"))
                        group.create_task(p.wait("b"))
                        await asyncio.sleep(0)
                        group.create_task(fail())
                assert (p.delayed, p.stats().cancelled) == (0, 2)

        run(main())

    def test_anyio_cancels(self):
        """A cancel scope of anyio, which cancels again and again, ends it once."""
        anyio = pytest.importorskip("anyio")

        async def main():
            async with AsyncPurgatory() as p:
                with anyio.move_on_after(0.01) as scope:
                    await p.wait("a")
                assert scope.cancelled_caught
                with anyio.move_on_after(0.01) as scope:
                    await p.defer("a")
                assert scope.cancelled_caught
                assert (p.delayed, p.stats().cancelled) == (0, 2)

        anyio.run(main)


class TestVerbs:
    def test_fail(self, run):
        """What waits for the key raises the error, whatever its need."""

        async def main():
            async with AsyncPurgatory() as p:
                tasks = await begin(p.wait("a"), p.wait("a", "b", need=2), p.wait("b"))
                error = ZeroDivisionError("failed")
                assert p.fail("a", error) == 2
                for task in tasks[:2]:
                    with pytest.raises(ZeroDivisionError, match="failed"):
                        await task
                assert (p.delayed, p.complete("b", 1), p.stats().failed) == (1, 1, 2)
                assert await tasks[2] == 1
                with pytest.raises(TypeError):
                    p.fail("a", "no error")

        run(main())

    def test_fail_from_a_thread(self, run):
        """A class will do, too."""

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(p.wait("a"))
                assert await asyncio.to_thread(p.fail_threadsafe, "a", ZeroDivisionError) == 1
                with pytest.raises(ZeroDivisionError):
                    await task

        run(main())

    def test_limit(self, run):
        """The longest waiting first; one that was cancelled takes nothing."""

        async def main():
            async with AsyncPurgatory() as p:
                first, second, third = await begin(p.wait("a"), p.wait("a"), p.wait("a"))
                first.cancel()
                assert p.complete("a", 2, limit=1) == 1
                assert await second == 2
                assert await asyncio.to_thread(lambda: p.complete_threadsafe("a", 3, limit=1)) == 1
                assert await third == 3
                assert first.cancelled()

        run(main())

    def test_hold(self, run):
        """An early event is not lost, for as long as it is held; then it is gone."""

        async def main():
            clock = ManualClock()
            async with AsyncPurgatory(clock=clock) as p:
                assert p.complete("a", "early", hold=10) == 0
                assert p.complete_threadsafe("b", "early", hold=10, limit=1) == 0
                assert [await p.wait("a"), await p.wait("b"), p.stats().held] == [
                    "early",
                    "early",
                    1,
                ]
                clock.advance(10.001)
                await asyncio.sleep(0.01)
                assert p.stats().held == 0
                with pytest.raises(OperationExpired):
                    await p.wait("a", timeout=0)

        run(main())

    def test_max_held(self, run):
        """The memory of what is held is bounded."""

        async def main():
            async with AsyncPurgatory(max_held=1) as p:
                p.complete("a", hold=10)
                with pytest.raises(HeldFull):
                    p.complete("b", hold=10)

        run(main())

    def test_extend(self, run):
        """Of a future, or of an operation of the purgatory itself."""

        async def main():
            async with AsyncPurgatory(clock=ManualClock()) as p:
                future, operation = p.defer("a", timeout=1), DelayedOperation(1)
                p.purgatory.try_complete_else_watch(operation, ["a"])
                assert (p.extend(future, 10), p.extend(operation, 10)) == (True, True)
                assert {future._operation.when(), operation.when()} == {10.0}
                p.complete("a")
                assert not p.extend(future, 10)
                operation.cancel()

        run(main())


class TestThreads:
    def test_a_thread_completes(self, run):
        """complete_threadsafe says how many it completed; the task runs in the loop."""

        async def main():
            async with AsyncPurgatory() as p:
                task = await begin(p.wait("a"))
                assert await asyncio.to_thread(p.complete_threadsafe, "a", 1) == 1
                assert await task == 1

        run(main())

    def test_a_sleeping_loop_is_woken(self, run):
        """Nothing else happens in the loop until the thread has completed the key."""

        async def main():
            async with AsyncPurgatory() as p:
                timer = threading.Timer(0.05, p.complete_threadsafe, ("a", "woken"), {"hold": 30})
                timer.start()
                assert await p.wait("a") == "woken"
                await asyncio.to_thread(timer.join)

        run(main())

    def test_a_signal_handler_wakes_the_loop(self, run):
        """It runs in the loop's thread, in the middle of the loop's sleep."""

        async def main():
            async with AsyncPurgatory() as p:
                before = signal.signal(
                    signal.SIGALRM, lambda *_: p.complete_threadsafe("a", 1, hold=30)
                )
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.05)
                    assert await p.wait("a") == 1
                finally:
                    signal.signal(signal.SIGALRM, before)

        run(main())

    def test_every_wait_ends_once(self, run):
        """Threads complete, tasks are cancelled, others expire: the figures add up."""
        count = 2000

        async def one(p, n):
            try:
                return await p.wait(n, timeout=0.001 * (n % 40))
            except OperationExpired:
                return "expired"

        async def main():
            async with AsyncPurgatory() as p:
                tasks = [asyncio.create_task(one(p, n)) for n in range(count)]
                await asyncio.sleep(0)
                completed = []

                def complete(numbers):
                    completed.extend(n for n in numbers if p.complete_threadsafe(n, "done"))

                threads = [
                    threading.Thread(target=complete, args=(range(k, count, 3),)) for k in (0, 1)
                ]
                for thread in threads:
                    thread.start()
                for n in range(2, count, 6):
                    tasks[n].cancel()
                    await asyncio.sleep(0)
                ends = await asyncio.gather(*tasks, return_exceptions=True)
                await asyncio.to_thread(lambda: [thread.join() for thread in threads])
                stats = p.stats()
                assert [n for n in range(count) if ends[n] == "done"] == sorted(completed)
                assert stats.completed == len(completed)
                # A task that is cancelled before the loop told it of its expiry is cancelled.
                assert stats.expired >= ends.count("expired")
                assert stats.completed + stats.expired + stats.cancelled == count
                assert all(isinstance(end, (str, asyncio.CancelledError)) for end in ends)
                assert (p.delayed, p.watched) == (0, 0)
                p.purgatory._check()

        run(main())


class TestAdoption:
    def test_threads_and_loop_share_it(self, run):
        """The loop completes what a thread waits for, and a thread what the loop waits for."""

        async def main(purgatory):
            async with AsyncPurgatory(purgatory=purgatory) as p:
                task = await begin(p.wait("of the loop"))
                assert await asyncio.to_thread(purgatory.complete, "of the loop", 1) == 1
                assert await task == 1
                waiting = purgatory.defer("of a thread")
                assert p.complete("of a thread", 2) == 1
                assert await asyncio.to_thread(waiting.result) == 2

        with Purgatory() as purgatory:
            run(main(purgatory))

    def test_its_own_threads_expire(self, run):
        """Its timer is driven by its threads; the loop hears of the expiry."""

        async def main(purgatory):
            async with AsyncPurgatory(purgatory=purgatory) as p:
                with pytest.raises(OperationExpired):
                    await p.wait("a", timeout=0.02)

        with Purgatory() as purgatory:
            run(main(purgatory))

    def test_closing_leaves_it_to_the_others(self, run):
        """Only what waits in this loop is cancelled."""

        async def main(purgatory):
            others = purgatory.defer("a")
            async with AsyncPurgatory(purgatory=purgatory) as p:
                task = await begin(p.wait("a"))
            with pytest.raises(OperationCancelled):
                await task
            assert not others.done()
            assert purgatory.complete("a") == 1

        with Purgatory() as purgatory:
            run(main(purgatory))

    def test_many_loops_in_turn_and_at_once(self, run):
        """Each loop has an AsyncPurgatory of its own."""

        async def wait(purgatory, key):
            async with AsyncPurgatory(purgatory=purgatory) as p:
                return await p.wait(key)

        with Purgatory() as purgatory:
            for n in range(3):
                held = {"hold": 30}  # the loop may be slow to begin
                timer = threading.Timer(0.02, purgatory.complete, (f"turn {n}", n), held)
                timer.start()
                assert run(wait(purgatory, f"turn {n}")) == n
                timer.join()
            results = []
            threads = [
                threading.Thread(
                    target=lambda: results.append(asyncio.run(wait(purgatory, "once")))
                )
                for _ in range(3)
            ]
            for thread in threads:
                thread.start()
            while purgatory.delayed < 3:
                pass
            assert purgatory.complete("once", "v") == 3
            for thread in threads:
                thread.join()
            assert results == ["v"] * 3

    def test_arguments(self):
        """What an adopted purgatory has already is refused, and what is none."""
        with pytest.raises(TypeError, match="expected a Purgatory"):
            AsyncPurgatory(purgatory="p")
        for given in (
            {"registry": CollectorRegistry()},
            {"clock": ManualClock()},
            {"name": "other"},
            {"max_held": 5},
        ):
            with pytest.raises(ValueError, match="adopted"):
                AsyncPurgatory(purgatory=Purgatory(), **given)
        for wrong in ({"name": 5}, {"max_held": "5"}):
            with pytest.raises(TypeError):
                AsyncPurgatory(purgatory=Purgatory(), **wrong)
        AsyncPurgatory("purgatory", purgatory=Purgatory("mine"))

    def test_a_forked_child(self, run):
        """Every verb is refused; `close` does nothing. For asyncio, no loop runs in the child."""

        async def refuses(p, future):
            for verb in (
                lambda: p.defer("k"),
                lambda: p.complete("k"),
                lambda: p.fail("k", ValueError),
                lambda: p.extend(future, 5),
                lambda: future.set_result(1),
                lambda: future.set_exception(ValueError()),
                future.cancel,
            ):
                with pytest.raises((PurgatoryForked, WrongEventLoop)):
                    verb()
            await p.close()

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("k")
                child = os.fork()
                if not child:
                    status = 1
                    try:
                        await refuses(p, future)
                        status = 0
                    finally:
                        os._exit(status)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
                assert p.complete("k", 1) == 1
                assert await future == 1

        run(main())

    def test_a_full_timer_refuses(self, run):
        """TimerFull, and nothing is left behind."""

        async def main():
            timer = Timer(clock=ManualClock(), executor=InlineExecutor(), max_pending=1)
            async with AsyncPurgatory(purgatory=Purgatory(timer=timer)) as p:
                future = p.defer("a")
                with pytest.raises(TimerFull):
                    await p.wait("b")
                assert p.watched == 1
                assert future.cancel()

        run(main())


class TestLoops:
    def test_outside_any_loop(self):
        """A typed error, which is a RuntimeError, says what is wrong."""
        p = AsyncPurgatory("lonely")
        with pytest.raises(WrongEventLoop, match="'lonely' was used where no event loop runs"):
            p.defer("a")
        with pytest.raises(RuntimeError):
            p.complete("a")
        with pytest.raises(WrongEventLoop):
            p.wait("a").send(None)
        assert p.complete_threadsafe("a") == 0

    def test_another_loop(self, run):
        """It belongs to the loop that used it first."""

        async def main():
            async with AsyncPurgatory() as p:

                async def use():
                    with pytest.raises(WrongEventLoop, match="another event loop"):
                        await p.wait("a")
                    with pytest.raises(WrongEventLoop):
                        p.complete("a")
                    with pytest.raises(WrongEventLoop):
                        await p.close()
                    with pytest.raises(WrongEventLoop):
                        await p.__aenter__()

                await asyncio.to_thread(asyncio.run, use())
                with pytest.raises(WrongEventLoop, match=r"no event loop.*complete_threadsafe"):
                    await asyncio.to_thread(p.complete, "a")

        run(main())

    def test_without_async_with(self, run):
        """The first use binds it; `close` is up to the program."""

        async def main():
            p = AsyncPurgatory()
            with pytest.raises(OperationExpired):
                await p.wait("a", timeout=0.01)
            await p.close()

        run(main())

    def test_a_loop_closed_first(self, run):
        """What ends later is dropped: there is no task any more that could be told."""

        async def main():
            p = AsyncPurgatory()
            return p, p.defer("a"), p.defer("b", timeout=0.01)

        p, future, _ = run(main())
        assert p.complete_threadsafe("a", 1) == 1
        assert not future.done()
        p.purgatory.close()
        assert p.delayed == 0

    def test_a_loop_closed_under_an_adopted_purgatory(self, run):
        """The purgatory's threads expire what was left, without an error."""

        async def main(purgatory):
            AsyncPurgatory(purgatory=purgatory).defer("a", timeout=0.01)

        errors = []
        with Purgatory(on_error=lambda *error: errors.append(error)) as purgatory:
            run(main(purgatory))
            while purgatory.delayed:
                pass
            assert (purgatory.stats().expired, errors) == (1, [])


class TestClose:
    def test_no_task_is_left_pending(self, run):
        """After the block the tasks have ended, with OperationCancelled."""

        async def main():
            async with AsyncPurgatory() as p:
                tasks = await begin(*(p.wait("a") for _ in range(2 * PORTION + 1)))
            assert all(task.done() for task in tasks)
            assert {type(task.exception()) for task in tasks} == {OperationCancelled}

        run(main())

    def test_it_refuses_what_comes_later(self, run):
        """And may be closed again."""

        async def main(**options):
            p = AsyncPurgatory(**options)
            async with p:
                pass
            await p.close()
            with pytest.raises(PurgatoryClosed):
                await p.wait("a")
            with pytest.raises(PurgatoryClosed):
                p.defer("a")
            with pytest.raises(PurgatoryClosed):
                p.complete("a")
            with pytest.raises(PurgatoryClosed):
                await p.__aenter__()

        run(main())
        with Purgatory() as purgatory:
            run(main(purgatory=purgatory))

    def test_nothing_is_left_in_the_loop(self):
        """No handle of the driver is pending."""

        async def main():
            loop = asyncio.get_running_loop()
            async with AsyncPurgatory() as p:
                p.defer("a", timeout=5)
                await asyncio.sleep(0)
                assert len(loop._scheduled) == 1
            assert [handle for handle in loop._scheduled if not handle.cancelled()] == []

        asyncio.run(main())

    @pytest.mark.parametrize("by_purgatory", [True, False])
    def test_a_second_close_leaves_the_files_of_others(self, run, by_purgatory):
        """The program opens a file after the first close: it may get the same descriptor."""

        async def main():
            reading, writing = os.pipe()
            loop, p = asyncio.get_running_loop(), AsyncPurgatory()
            p.defer("a")
            watched = p._driver._descriptor
            if by_purgatory:
                p.purgatory.close()
                await until(lambda: p._driver._descriptor < 0)
            else:
                await p.close()
            os.dup2(reading, watched)
            told = asyncio.Event()
            loop.add_reader(watched, told.set)
            await p.close()
            os.write(writing, b"1")
            await told.wait()
            loop.remove_reader(watched)
            for descriptor in (watched, reading, writing):
                os.close(descriptor)

        run(main())

    def test_the_descriptor_is_open_while_the_loop_watches_it(self, run):
        """The purgatory is closed in a thread; the loop has not seen that yet."""

        async def main():
            p = AsyncPurgatory()
            future = p.defer("a")
            in_thread(lambda: p.purgatory.close() or True)
            gc.collect()
            os.fstat(p._driver._descriptor)
            with pytest.raises(OperationCancelled):
                await future
            await p.close()

        run(main())

    def test_the_purgatory_is_closed_before_the_first_use(self, run):
        """There is no mailbox to watch."""

        async def main():
            p = AsyncPurgatory()
            p.purgatory.close()
            with pytest.raises(PurgatoryClosed):
                await p.wait("a")
            await p.close()

        run(main())

    def test_closed_while_an_error_passes(self, run):
        """The error is the one that is seen."""

        async def main():
            with pytest.raises(ZeroDivisionError):  # noqa: PT012
                async with AsyncPurgatory() as p:
                    p.defer("a")
                    raise ZeroDivisionError

        run(main())


class TestTheRest:
    def test_importing_purgatory_imports_no_asyncio(self):
        """A program without a loop does not pay for one."""
        code = "import sys, purgatory; print({'asyncio', 'purgatory.aio'} & set(sys.modules))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == "set()"

    def test_repr_and_figures(self, run):
        """They are those of the purgatory."""

        async def main():
            async with AsyncPurgatory("web") as p:
                p.defer("a", "b")
                assert repr(p) == "<AsyncPurgatory 'web', 1 pending>"
                assert (p.name, p.delayed, p.watched) == ("web", 1, 2)
                assert p.stats() == p.purgatory.stats()

        run(main())
