"""DeferredOperation: the arguments of a future, its result, expiry and cancellation."""

import concurrent.futures
import gc
import weakref

import pytest

from purgatory import OperationCancelled, OperationExpired
from purgatory.core.operations import deferred
from purgatory.core.operations.future import DeferredFuture
from tests.testing.purgatory_harness import PurgatoryHarness
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
        with pytest.raises(error, match="timeout is"):
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
        with pytest.raises(TimeoutError, match="1500 ms: needed 2 of 'a', 'b'"):
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

    @pytest.mark.parametrize("end", ["OperationExpired", "OperationCancelled"])
    def test_no_memory_for_the_error(self, harness, monkeypatch, end):
        """The future ends all the same, with the MemoryError: threads wait for it."""

        def fail(text):
            raise MemoryError(text)

        monkeypatch.setattr(deferred, end, fail)
        future = harness.purgatory.defer("a", timeout=1)
        if end == "OperationExpired":
            harness.advance(1)
        else:
            harness.purgatory.cancel_for_key("a")
        assert isinstance(future.exception(0), MemoryError)

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


#: Ways to end the future of "k", and what its result is, or the class of its error.
ENDS = {
    "complete": (lambda p, future: p.complete("k", 1), 1),
    "result": (lambda p, future: future.set_result(2), 2),
    "exception": (lambda p, future: future.set_exception(OSError()), OSError),
    "fail": (lambda p, future: p.fail("k", OSError()), OSError),
    "cancel": (lambda p, future: future.cancel(), concurrent.futures.CancelledError),
    "cancel_for_key": (lambda p, future: p.cancel_for_key("k"), OperationCancelled),
}


def outcome_of(future):
    """Return the result of a future that has ended, or the class of its error."""
    try:
        return future.result(0)
    except BaseException as error:
        return type(error)


class TestEnd:
    @pytest.mark.parametrize("end", ENDS)
    @pytest.mark.parametrize("is_registered", [True, False])
    def test_with_and_without_a_callback(self, harness, end, is_registered):
        """The result is the same, callbacks run once, and late ones at once."""
        act, expected = ENDS[end]
        future, told = harness.purgatory.defer("k", "other"), []
        if is_registered:
            future.add_done_callback(lambda done: told.append("early"))
        act(harness.purgatory, future)
        assert future.done()
        assert future.cancelled() == (end == "cancel")
        assert outcome_of(future) == expected
        future.add_done_callback(lambda done: told.append("late"))
        assert told == ["early"] * is_registered + ["late"]
        assert future.extend(5) is False
        with pytest.raises(TypeError):
            future.extend("5")
        assert (harness.purgatory.watched, len(harness.timer)) == (0, 0)

    @pytest.mark.parametrize("end", ENDS)
    def test_its_keys_are_let_go(self, harness, end):
        """A future that has ended keeps its result alone."""

        class Key:
            pass

        key = Key()
        future, gone = harness.purgatory.defer("k", key), weakref.ref(key)
        del key
        ENDS[end][0](harness.purgatory, future)
        gc.collect()
        assert gone() is None
        assert future.done()

    @pytest.mark.parametrize("end", ENDS)
    @pytest.mark.parametrize("is_done_before", [True, False])
    def test_a_shortage_of_memory_at_the_end(self, harness, monkeypatch, end, is_done_before):
        """The end is tried again: the result is kept, and callbacks run."""
        name = "set_cancelled" if end == "cancel" else "set_finished"
        usual, told, attempts = getattr(DeferredFuture, name), [], []

        def short(future, *arguments):
            attempts.append(1)
            if is_done_before or len(attempts) > 1:
                usual(future, *arguments)
            if len(attempts) == 1:
                raise MemoryError

        monkeypatch.setattr(DeferredFuture, name, short)
        future = harness.purgatory.defer("k")
        future.add_done_callback(lambda done: told.append("early"))
        act, expected = ENDS[end]
        act(harness.purgatory, future)
        assert outcome_of(future) == expected
        assert told == ["early"]
        assert len(attempts) == (1 if is_done_before else 2)

    def test_an_interrupt_while_keys_are_shown(self, harness):
        """A future expires also if the text of its error is interrupted."""

        class Key:
            def __repr__(self):
                raise KeyboardInterrupt

        future = harness.purgatory.defer(Key(), timeout=1)
        with pytest.raises(KeyboardInterrupt):
            harness.advance(1)
        assert outcome_of(future) is OperationExpired

    def test_more_time(self, harness):
        """A future that waits can be given another timeout."""
        future = harness.purgatory.defer("k", timeout=1)
        assert future.extend(5) is True
        harness.advance(4.9)
        assert not future.done()
        harness.advance(0.1)
        assert outcome_of(future) is OperationExpired
