"""The Future form: defer, complete, result, cancel, and waiting for it."""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import gc
import itertools
import threading
import weakref

import pytest

from _purgatory_cpython import locks
from purgatory import OperationCancelled, OperationExpired, Purgatory
from purgatory.core.operations.future import DeferredFuture
from tests.testing.eventually import eventually
from tests.testing.interrupts import GROUND_FLOOR, PURGATORY, at_every_place, handled_at
from tests.testing.purgatory_harness import HANG, PurgatoryHarness, all_in_threads


@pytest.fixture
def harness():
    return PurgatoryHarness()


#: The code of a future.
FOLDERS = (PURGATORY, GROUND_FLOOR, concurrent.futures.__path__[0])


class TestAsAFuture:
    def test_callbacks(self, harness):
        """add_done_callback is called once, with the future, before or after the end."""
        seen = []
        future = harness.purgatory.defer("a")
        future.add_done_callback(seen.append)
        harness.purgatory.complete("a")
        future.add_done_callback(seen.append)
        assert seen == [future, future]

    def test_a_callback_that_raises_stops_no_other(self, harness, caplog):
        """A callback that raises stops neither other callbacks nor other futures of the key."""
        seen = []
        first, second = harness.purgatory.defer("a"), harness.purgatory.defer("a")
        first.add_done_callback(lambda future: 1 / 0)
        first.add_done_callback(seen.append)
        second.add_done_callback(seen.append)
        assert harness.purgatory.complete("a") == 2
        assert seen == [first, second]
        assert "ZeroDivisionError" in caplog.text

    def test_callbacks_may_complete_the_next(self, harness):
        """A chain of two thousand futures, each resolved in the callback of the one before."""
        p = harness.purgatory
        futures = [p.defer(number) for number in range(2000)]
        for number, future in enumerate(futures):
            future.add_done_callback(lambda done, n=number: p.complete(n + 1, done.result() + 1))
        p.complete(0, 0)
        assert [future.result(0) for future in futures] == list(range(2000))
        assert harness.errors == []

    @pytest.mark.parametrize(
        "end",
        [
            lambda p: p.complete("a", 2),
            lambda p: p.fail("a", OSError),
            lambda p: len(p.cancel_for_key("a")),
        ],
        ids=["complete", "fail", "cancel"],
    )
    def test_a_result_set_behind_its_back_is_reported(self, harness, end):
        """A future resolved past its class: the clash is reported, and the operation ends."""
        future = harness.purgatory.defer("a")
        concurrent.futures.Future.set_result(future, 1)
        assert end(harness.purgatory) == 1
        assert future.result(0) == 1
        assert isinstance(harness.errors[0][0], concurrent.futures.InvalidStateError)
        assert harness.purgatory.watched == 0

    def test_wait(self, harness):
        """concurrent.futures.wait sees results, expiries and cancellations."""
        p = harness.purgatory
        futures = [p.defer("a", timeout=9), p.defer("b", timeout=1), p.defer("c", timeout=9)]
        p.complete("a")
        done, waiting = concurrent.futures.wait(futures, 0)
        assert (done, waiting) == ({futures[0]}, set(futures[1:]))
        harness.advance(1)
        futures[2].cancel()
        done, waiting = concurrent.futures.wait(futures, HANG)
        assert not waiting
        assert list(concurrent.futures.as_completed(futures, HANG))

    def test_those_who_wait_are_told_again_once(self, harness):
        """After an interrupt the waiters that were not told are told, and callbacks run once."""

        class Waiter:
            def __init__(self):
                self.finished_futures = []

            def add_result(self, future):
                self.finished_futures.append(future)

        future, told, waiter, untold = harness.purgatory.defer("a"), [], Waiter(), Waiter()
        future._waiters.append(waiter)
        future.add_done_callback(told.append)
        harness.purgatory.complete("a", 7)
        future._waiters.append(untold)
        for _ in range(2):
            future.tell_again()
        assert waiter.finished_futures == untold.finished_futures == told == [future]

    def test_result_waits_for_another_thread(self):
        """A thread in result() is woken by a completion, and by an expiry."""
        with Purgatory() as p:
            future = p.defer("a", timeout=3600)
            thread = threading.Timer(0, p.complete, ["a", 7])
            thread.start()
            assert future.result(HANG) == 7
            assert isinstance(p.defer("a", timeout=0.001).exception(HANG), OperationExpired)
            future = p.defer("a", timeout=3600)
            threading.Timer(0, future.cancel).start()
            with pytest.raises(concurrent.futures.CancelledError):
                future.result(HANG)

    def test_a_result_set_behind_its_back_stays_when_it_is_cancelled(self, harness):
        """The clash is reported, as at other ends."""
        future = harness.purgatory.defer("a")
        concurrent.futures.Future.set_result(future, 1)
        future.cancel()
        assert (future.result(0), future.cancelled()) == (1, False)
        assert isinstance(harness.errors[0][0], concurrent.futures.InvalidStateError)

    def test_callbacks_run_in_the_context_of_the_submission(self, harness):
        """In a copy of it each: what one of them sets, no other sees."""
        variable = contextvars.ContextVar("variable", default=0)
        context = contextvars.copy_context()
        context.run(variable.set, 5)
        future, seen = harness.purgatory.defer("a", context=context), []

        def look(done):
            seen.append((done is future, variable.get()))
            variable.set(6)

        future.add_done_callback(look)
        future.add_done_callback(look)
        harness.purgatory.complete("a")
        assert seen == [(True, 5), (True, 5)]
        assert variable.get() == 0

    @pytest.mark.parametrize("context", [None, contextvars.copy_context()])
    def test_what_is_no_callback_is_refused(self, harness, context):
        """At once, and not by a log entry once the future is done."""
        future = harness.purgatory.defer("a", context=context)
        with pytest.raises(TypeError, match="fn is 5; expected"):
            future.add_done_callback(5)

    @pytest.mark.parametrize("wait", [DeferredFuture.result, DeferredFuture.exception])
    def test_a_thread_that_would_wait_in_vain_is_warned(self, wait):
        """A thread that calls `result` or `exception`, before the end alone."""
        p = Purgatory("unlit")
        future = p.defer("k")
        with pytest.warns(RuntimeWarning, match="never started"), pytest.raises(TimeoutError):
            wait(future, 0)
        p.complete("k")
        wait(future, 0)
        p.close()

    def test_has_all_that_the_standard_library_gives_its_own(self, harness):
        """Each field of the standard Future exists, some at first access, with the same type.

        But for the condition, which has all that is called of one.
        """
        future = harness.purgatory.defer("a")
        fields = vars(concurrent.futures.Future())
        condition = vars(type(fields.pop("_condition")))
        for name, value in fields.items():
            assert type(getattr(future, name)) is type(value), name
        for name in condition.keys() - {"__dict__", "__weakref__", "notifyAll"}:
            assert hasattr(future._condition, name), name
        assert future._condition is future._condition
        assert repr(future).endswith("state=pending>")
        assert future.running() is False

    def test_lazy_attributes_are_not_made_without_need(self, harness):
        """A future that is resolved before a thread waits never gets a condition or lists."""
        p = harness.purgatory
        value, none = p.defer("a"), p.defer("b", timeout=1)
        p.complete("a", 7)
        harness.advance(1)
        assert value.result() == 7
        assert vars(value) == vars(none) == {}
        assert isinstance(none.exception(0), OperationExpired)

    def test_a_future_that_is_dropped_calls_its_callbacks(self, harness):
        """Callbacks keep a pending future alive; nothing does afterwards."""
        seen = []
        harness.purgatory.defer("a").add_done_callback(lambda future: seen.append(future.result(0)))
        gone = weakref.ref(harness.purgatory.defer("b"))
        assert harness.purgatory.complete("a", 1) == 1
        assert harness.purgatory.complete("b", 2) == 1
        assert seen == [1]
        assert gone() is None

    def test_a_future_that_has_ended_holds_its_result_alone(self):
        """A resolved future keeps neither the purgatory's parts nor the timer alive."""
        p = Purgatory()
        parts = [weakref.ref(part) for part in (p, p.timer)]
        value, expired, cancelled = p.defer("a"), p.defer("b", timeout=0), p.defer("c")
        p.complete("a", 1)
        p.timer.advance_clock()
        assert expired.exception(HANG)
        cancelled.cancel()
        p.close()
        del p
        gc.collect()
        assert [part() for part in parts] == [None, None]
        assert value.result(0) == 1
        assert cancelled.cancelled()
        assert isinstance(expired.exception(0), OperationExpired)

    def test_a_cancelled_future_without_lazy_attributes(self, harness):
        """A cancelled future behaves as the standard library's: done, callbacks called at once."""
        future, seen = harness.purgatory.defer("a"), []
        assert future.cancel()
        future.add_done_callback(seen.append)
        assert seen == [future]
        assert (future.done(), future.cancelled(), future.running()) == (True, True, False)
        assert repr(future).endswith("state=cancelled>")
        with pytest.raises(concurrent.futures.CancelledError):
            future.exception(0)
        assert concurrent.futures.wait([future], 0).done == {future}

    def test_waiters_that_race_with_the_end(self, harness):
        """Waiters, callbacks, `wait` and `as_completed` race with the end: each sees it once."""
        p = harness.purgatory
        for number in range(200):
            future = p.defer(number, timeout=HANG)
            called = []
            looks = [
                lambda f=future: f.result(HANG),
                lambda f=future, c=called: f.add_done_callback(c.append),
                lambda f=future: next(concurrent.futures.as_completed([f], HANG)),
            ]
            all_in_threads(looks[number % 3], looks[1], lambda n=number: p.complete(n, n))
            assert future.result(0) == number
            assert len(called) == (2 if number % 3 == 1 else 1)
        assert harness.errors == []

    def test_asyncio(self):
        """asyncio.wrap_future awaits results, expiries, and what the purgatory cancels."""

        async def main(p):
            value = asyncio.wrap_future(p.defer("a", timeout=HANG))
            p.complete("a", 7)
            assert await value == 7
            with pytest.raises(OperationExpired):
                await asyncio.wrap_future(p.defer("a", timeout=0.001))
            ended = asyncio.wrap_future(p.defer("b", timeout=HANG))
            p.cancel_for_key("b")
            with pytest.raises(OperationCancelled):
                await ended

        with Purgatory() as p:
            asyncio.run(main(p))

    def test_asyncio_cancel(self):
        """Cancelling the awaiting task cancels the operation, which leaves the lists."""

        async def main(p):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.wrap_future(p.defer("a", timeout=3600)), 0.01)
            return p.delayed, p.watched, p.stats().cancelled

        with Purgatory() as p:
            assert asyncio.run(main(p)) == (0, 0, 1)

    def test_it_ends_in_every_order_of_calls(self, harness):
        """Whoever marks it as running, in whatever order: it ends, and all who wait are told."""
        p = harness.purgatory
        calls = {
            "mark": lambda future: future.set_running_or_notify_cancel(),
            "cancel": lambda future: future.cancel(),
            "complete": lambda future: p.complete("k"),
            "fail": lambda future: p.fail("k", OSError()),
            "expire": lambda future: harness.advance(2),
            "end": lambda future: p.cancel_for_key("k"),
        }
        for order in itertools.permutations(calls):
            future, told = p.defer("k", timeout=1), []
            future.add_done_callback(told.append)
            for name in order:
                with contextlib.suppress(RuntimeError):  # marked after its end
                    calls[name](future)
            assert future.done(), order
            assert concurrent.futures.wait([future], 0).done == {future}
            assert told == [future], order
            assert (p.delayed, p.watched) == (0, 0)
        assert harness.errors == []

    @pytest.mark.parametrize("end", ["complete", "set_result", "set_exception", "cancel"])
    def test_it_is_resolved_once(self, harness, end):
        """Whatever ended it, a result of one's own comes too late, and changes nothing."""
        future = harness.purgatory.defer("k")
        if end == "complete":
            harness.purgatory.complete("k")
        else:
            getattr(future, end)(*{"set_result": [None], "set_exception": [OSError()]}.get(end, []))
        before = future._state, future._result, future._exception
        with pytest.raises(concurrent.futures.InvalidStateError):
            future.set_result(2)
        with pytest.raises(concurrent.futures.InvalidStateError):
            future.set_exception(ValueError())
        assert (future._state, future._result, future._exception) == before

    def test_a_signal_handler_ends_it_at_any_place_of_a_wait(self, harness, monkeypatch):
        """The thread does not begin to wait for the end that its own handler has brought."""
        p, in_vain = harness.purgatory, []
        wait_unlocked = locks._Waiting._wait_unlocked

        def look(condition, waiter, timeout):
            in_vain.append(future._state == "FINISHED" and waiter.locked())
            return wait_unlocked(condition, waiter, timeout)

        monkeypatch.setattr(locks._Waiting, "_wait_unlocked", look)

        def scene(at):
            nonlocal future
            future = p.defer("a")

            def wait():
                with contextlib.suppress(TimeoutError):
                    future.result(0.001)

            in_vain.clear()
            trace = handled_at(at, wait, lambda: p.complete("a"), FOLDERS)
            assert in_vain[:1] != [True], trace.where
            p.complete("a")
            return trace

        future = None
        at_every_place(scene, 10)

    def test_a_signal_handler_ends_it_at_any_place_of_add_done_callback(self, harness):
        """The callback is called once, whether it was added before or after the end."""
        p = harness.purgatory

        def scene(at):
            future, told = p.defer("a"), []
            add = functools.partial(future.add_done_callback, told.append)
            trace = handled_at(at, add, lambda: p.complete("a"), FOLDERS)
            p.complete("a")
            assert told == [future], trace.where
            return trace

        at_every_place(scene, 10)

    def test_a_running_one_is_not_cancelled(self, harness):
        """As of the standard library's: `cancel` returns False, and the operation goes on."""
        future = harness.purgatory.defer("k")
        assert future.set_running_or_notify_cancel()
        assert not future.cancel()
        assert future.running()
        assert harness.purgatory.complete("k", 1) == 1
        assert future.result(0) == 1

    def test_a_cancelled_one_does_not_run(self, harness):
        """As of the standard library's: whoever would run it learns that it was cancelled."""
        future = harness.purgatory.defer("k")
        assert future.cancel()
        assert not future.set_running_or_notify_cancel()
        assert future.cancelled()

    def test_marked_as_running_while_it_is_cancelled(self, harness):
        """One that was not running when `cancel` looked ends cancelled, and wakes who waits."""
        future, told = harness.purgatory.defer("k"), []
        future.add_done_callback(told.append)
        waiting = threading.Thread(target=concurrent.futures.wait, args=([future], HANG))
        waiting.start()
        eventually(lambda: future._waiters)
        assert future.set_running_or_notify_cancel()
        future._operation.cancel_requested = True
        future._operation.cancel()
        waiting.join(HANG)
        assert not waiting.is_alive()
        assert future.cancelled()
        assert told == [future]
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(0)

    def test_closing_ends_a_running_one(self, harness):
        """No caller is left hanging."""
        future = harness.purgatory.defer("k")
        future.set_running_or_notify_cancel()
        harness.purgatory.close()
        assert isinstance(future.exception(0), OperationCancelled)

    def test_an_interrupted_callback_stops_no_other(self, harness):
        """The interrupt goes on to the thread that completed the key, after all were told."""
        future = harness.purgatory.defer("k")
        told = []

        def interrupted(_future):
            told.append("interrupted")
            raise KeyboardInterrupt

        for callback in (told.append, interrupted, told.append):
            future.add_done_callback(callback)
        with pytest.raises(KeyboardInterrupt):
            harness.purgatory.complete("k", 1)
        assert told == [future, "interrupted", future]
        assert future.result() == 1
