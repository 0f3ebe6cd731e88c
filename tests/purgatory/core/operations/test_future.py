"""The Future form: defer, complete, result, cancel, and waiting for it."""

import asyncio
import concurrent.futures
import gc
import threading
import weakref

import pytest

from purgatory import OperationCancelled, OperationExpired, Purgatory
from tests.testing.purgatory_harness import HANG, PurgatoryHarness, all_in_threads
from timingwheel import TimerFull


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestArguments:
    def test_no_key_is_a_value_error(self, harness):
        """A future without a key could only expire."""
        with pytest.raises(ValueError, match="keys is empty"):
            harness.purgatory.defer()

    def test_an_unhashable_key_is_a_type_error(self, harness):
        """Keys must be hashable."""
        with pytest.raises(TypeError, match="hashable"):
            harness.purgatory.defer("a", ["b"])

    @pytest.mark.parametrize("need", [0, -1, 3, 4])
    def test_need_out_of_range_is_a_value_error(self, harness, need):
        """need lies between 1 and the number of distinct keys."""
        with pytest.raises(ValueError, match="expected 1 to 2"):
            harness.purgatory.defer("a", "b", "a", need=need)
        assert harness.purgatory.delayed == 0

    @pytest.mark.parametrize("need", [1.0, "1", None, True])
    def test_need_of_another_type_is_a_type_error(self, harness, need):
        """need must be an int; a bool is refused."""
        with pytest.raises(TypeError, match="need is"):
            harness.purgatory.defer("a", need=need)

    @pytest.mark.parametrize(
        ("timeout", "error"),
        [(-1, ValueError), (float("nan"), ValueError), ("1", TypeError), (None, TypeError)],
    )
    def test_a_bad_timeout_is_refused(self, harness, timeout, error):
        """Timeouts are checked as those of tasks are."""
        with pytest.raises(error, match="delay is"):
            harness.purgatory.defer("a", timeout=timeout)
        assert harness.purgatory.watched == 0

    def test_the_default_timeout_is_thirty_seconds(self, harness):
        """Without a timeout a future expires after 30 s, not before."""
        future = harness.purgatory.defer("a")
        harness.advance(29.999)
        assert not future.done()
        harness.advance(0.001)
        assert isinstance(future.exception(0), OperationExpired)


class TestResult:
    def test_the_value_of_the_key(self, harness):
        """With need=1 the result is what the key was completed with."""
        future = harness.purgatory.defer("a", "b", timeout=1)
        assert harness.purgatory.complete("b", {"paid": True}) == 1
        assert future.result(0) == {"paid": True}
        assert harness.purgatory.complete("a", 2) == 0

    def test_no_value_is_none(self, harness):
        """A completion without a value resolves to None."""
        future = harness.purgatory.defer("a")
        harness.purgatory.complete("a")
        assert future.result(0) is None

    def test_n_distinct_keys(self, harness):
        """With need=2 of 3 the result is a dict of the first two keys, in order."""
        p = harness.purgatory
        future = p.defer("a", "b", "c", need=2)
        assert p.complete("c", 3) == 0
        assert p.complete("c", 4) == 0  # the same key again does not count
        assert not future.done()
        assert p.watched == 3
        assert p.complete("a", 1) == 1
        assert list(future.result(0).items()) == [("c", 3), ("a", 1)]
        assert p.watched == 0

    def test_all_keys(self, harness):
        """need=len(keys) waits for all of them; duplicates count once."""
        future = harness.purgatory.defer("a", "b", "a", need=2)
        harness.purgatory.complete("a", 1)
        harness.purgatory.complete("b", 2)
        assert future.result(0) == {"a": 1, "b": 2}

    def test_a_check_completes_no_future(self, harness):
        """check_and_complete does not count a key; only completing it does."""
        future = harness.purgatory.defer("a")
        assert harness.purgatory.check_and_complete("a") == 0
        assert not future.done()

    def test_one_completion_resolves_all_who_wait(self, harness):
        """complete returns how many futures it resolved."""
        futures = [harness.purgatory.defer("a", n) for n in range(10)]
        assert harness.purgatory.complete("a", 1) == 10
        assert [f.result(0) for f in futures] == [1] * 10

    def test_expiry(self, harness):
        """An expired future raises OperationExpired, which names keys, need and timeout."""
        future = harness.purgatory.defer("a", "b", timeout=1.5, need=2)
        harness.purgatory.complete("a")
        harness.advance(1.5)
        with pytest.raises(TimeoutError, match=r"2 of 'a', 'b' not completed within 1500 ms"):
            future.result(0)
        assert isinstance(future.exception(0), OperationExpired)
        assert future.done()
        assert not future.cancelled()

    def test_keys_that_cannot_be_shown_expire_too(self, harness):
        """A key with a repr that raises does not keep its future from ending."""

        class Shy:
            def __repr__(self):
                raise RuntimeError

        future = harness.purgatory.defer(Shy(), "b", timeout=1)
        harness.advance(1)
        assert "Shy object" in str(future.exception(0))
        assert harness.errors == []

    def test_a_completion_at_the_deadline(self, harness):
        """At the deadline the first event decides: here the completion."""
        future = harness.purgatory.defer("a", timeout=1)
        harness.clock.advance(1)
        harness.purgatory.complete("a", 5)
        harness.timer.advance_clock()
        assert future.result(0) == 5

    def test_a_refused_future_leaves_nothing(self):
        """A submission refused with TimerFull leaves no watch entry."""
        harness = PurgatoryHarness(max_pending=1)
        harness.purgatory.defer("a")
        with pytest.raises(TimerFull):
            harness.purgatory.defer("a", "b")
        assert (harness.purgatory.watched, harness.purgatory.delayed) == (1, 1)
        assert harness.purgatory.complete("a") == 1

    def test_equal_keys_are_one_key(self, harness):
        """Keys compare as in a dict."""
        future = harness.purgatory.defer(1, 2, need=2)
        harness.purgatory.complete(1.0, "x")
        harness.purgatory.complete(True, "y")
        harness.purgatory.complete(2, "z")
        assert future.result(0) == {1: "x", 2: "z"}


class TestCancel:
    def test_cancel(self, harness):
        """A cancelled future is off wheel and lists at once; result raises CancelledError."""
        future = harness.purgatory.defer("a", "b")
        assert future.cancel() is True
        assert future.cancel() is True
        assert (future.cancelled(), future.done()) == (True, True)
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(0)
        assert (harness.purgatory.watched, harness.purgatory.delayed, len(harness.timer)) == (
            0,
            0,
            0,
        )
        assert harness.purgatory.stats().cancelled == 1

    def test_too_late(self, harness):
        """A completed or expired future cannot be cancelled."""
        completed, expired = harness.purgatory.defer("a"), harness.purgatory.defer("b", timeout=0)
        harness.purgatory.complete("a", 1)
        assert completed.cancel() is False
        assert expired.cancel() is False
        assert completed.result(0) == 1
        assert isinstance(expired.exception(0), OperationExpired)

    def test_what_the_purgatory_cancels_fails(self, harness):
        """cancel_for_key and close fail the future with OperationCancelled, a CancelledError."""
        a, b = harness.purgatory.defer("a"), harness.purgatory.defer("b")
        assert len(harness.purgatory.cancel_for_key("a")) == 1
        harness.purgatory.close()
        for future in (a, b):
            assert future.done()
            with pytest.raises(concurrent.futures.CancelledError) as caught:
                future.result(0)
            assert type(caught.value) is OperationCancelled
            assert future.cancel() is False


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

    def test_a_result_set_behind_its_back_is_reported(self, harness):
        """A future resolved past its class: the clash is reported, and the operation ends."""
        future = harness.purgatory.defer("a")
        concurrent.futures.Future.set_result(future, 1)
        assert harness.purgatory.complete("a", 2) == 1
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

    def test_result_waits_for_another_thread(self):
        """A thread in result() is woken by a completion, and by an expiry."""
        with Purgatory() as p:
            future = p.defer("a", timeout=3600)
            thread = threading.Timer(0, p.complete, ["a", 7])
            thread.start()
            assert future.result(HANG) == 7
            assert isinstance(p.defer("a", timeout=0.001).exception(HANG), OperationExpired)

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
