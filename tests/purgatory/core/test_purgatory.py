"""Purgatory: submitting, completing, expiring, cancelling, closing."""

import collections
import concurrent.futures
import os
import threading

import pytest
from prometheus_client import CollectorRegistry

import purgatory
from purgatory import (
    KeyedOperation,
    OperationCancelled,
    OperationExpired,
    Outcome,
    Purgatory,
    PurgatoryClosed,
    PurgatoryError,
    PurgatoryForked,
)
from purgatory.metrics import MetricsError
from purgatory.registry import live_purgatories
from tests.testing.purgatory_harness import (
    HANG,
    Hooked,
    PurgatoryHarness,
    Recorder,
    all_in_threads,
    in_thread,
)
from timingwheel import InlineExecutor, ManualClock, Timer, TimerClosed, TimerFull


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestArguments:
    @pytest.mark.parametrize("keys", [[], (), set(), {}, iter([])])
    def test_empty_keys_are_a_value_error(self, harness, keys):
        """Submitting without a key is refused: the operation could only expire."""
        with pytest.raises(ValueError, match="keys is empty"):
            harness.purgatory.try_complete_else_watch(Recorder(), keys)

    @pytest.mark.parametrize("keys", ["abc", b"abc", 5, None, [[]], [{}], ["a", []]])
    def test_what_is_no_collection_of_hashables_is_a_type_error(self, harness, keys):
        """A str is not taken as a collection of keys, and keys must be hashable."""
        op = Recorder()
        with pytest.raises(TypeError, match="keys is"):
            harness.purgatory.try_complete_else_watch(op, keys)
        assert harness.purgatory.watched == 0
        assert op.tries == 0
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is False

    def test_what_is_no_operation_is_a_type_error(self, harness):
        """Only delayed operations may be submitted."""
        with pytest.raises(TypeError, match="DelayedOperation"):
            harness.purgatory.try_complete_else_watch(object(), ["k"])

    @pytest.mark.parametrize(
        "keys",
        [
            ["a", "b", "a"],
            ("a", "b"),
            {"a", "b"},
            {"a": 1, "b": 2},
            iter(["a", "b"]),
            collections.deque(["a", "b", "b"]),
        ],
    )
    def test_keys_are_any_collection_and_count_once(self, harness, keys):
        """Duplicates count once."""
        harness.purgatory.try_complete_else_watch(Recorder(), keys)
        assert harness.purgatory.watched == 2

    def test_unhashable_keys_cannot_be_completed(self, harness):
        """An unhashable key raises TypeError in each method."""
        for method in (
            harness.purgatory.complete,
            harness.purgatory.check_and_complete,
            harness.purgatory.cancel_for_key,
        ):
            with pytest.raises(TypeError):
                method([])

    @pytest.mark.parametrize(
        "options",
        [{"name": 5}, {"timer": 1.0}, {"on_error": "log"}, {"registry": "default"}],
    )
    def test_bad_options_are_type_errors(self, options):
        """Arguments of the constructor are checked."""
        with pytest.raises(TypeError, match=next(iter(options))):
            Purgatory(**options)

    def test_an_operation_waits_in_one_place(self, harness):
        """Submitting a waiting operation again is refused, and changes nothing."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, ["k"])
        for other in (harness.purgatory, PurgatoryHarness().purgatory):
            with pytest.raises(ValueError, match="was submitted already"):
                other.try_complete_else_watch(op, ["x"])
        assert (harness.purgatory.watched, harness.purgatory.delayed) == (1, 1)
        op.ready = True
        assert harness.purgatory.check_and_complete("k") == 1

    def test_an_ended_operation_does_not_wait_again(self, harness):
        """Submitting an ended operation, to any purgatory, has no effect."""
        op = Recorder()
        op.force_complete()
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is False
        assert op.tries == 0
        assert harness.purgatory.watched == 0
        assert harness.purgatory.stats().completed == 0

    def test_resubmitting_while_it_ends_breaks_no_lists(self, harness):
        """An operation that is still being finished elsewhere is not attached."""
        other = PurgatoryHarness()

        class Resubmitting:
            def ended(self, operation, outcome):
                other.purgatory.try_complete_else_watch(operation, ["x", "y"])

        first, op = PurgatoryHarness(journal=Resubmitting()), Recorder()
        first.purgatory.try_complete_else_watch(op, ["k"])
        op.force_complete()
        assert first.purgatory.stats().completed == 1
        assert other.purgatory.stats() == PurgatoryHarness().purgatory.stats()
        first.purgatory._check()
        other.purgatory._check()

    def test_errors_have_one_base(self):
        """All errors of the package have one base, except those for bad arguments."""
        for name in (
            "PurgatoryClosed",
            "PurgatoryForked",
            "OperationExpired",
            "OperationCancelled",
        ):
            assert issubclass(getattr(purgatory, name), PurgatoryError)
        assert issubclass(MetricsError, PurgatoryError)
        assert issubclass(OperationExpired, TimeoutError)
        assert issubclass(OperationCancelled, concurrent.futures.CancelledError)


class TestCheckWatchCheck:
    def test_completed_at_once(self, harness):
        """An operation with a satisfied condition is never watched."""
        op = Recorder(ready=True)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is True
        assert (op.tries, op.calls) == (1, ["complete"])
        assert (harness.purgatory.watched, len(harness.timer)) == (0, 0)

    def test_the_condition_is_asked_twice_not_once_a_key(self, harness):
        """Submission checks the condition twice, for any number of keys."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, range(100))
        assert op.tries == 2

    def test_a_completion_between_check_and_watch_is_seen(self, harness):
        """A condition that becomes true after the first check is found by the second."""

        def come_true_after_first():
            if op.tries == 0:
                op.ready = True
                op.tries += 1
                return False
            return None

        op = Hooked(try_complete=come_true_after_first)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is True
        assert (harness.purgatory.watched, len(harness.timer)) == (0, 0)

    def test_a_completion_between_second_check_and_timer_leaves_nothing(self, harness):
        """An operation completed after the second check is not left in the wheel."""

        class Completing(Timer):
            def add(self, task):
                task.force_complete()
                return super().add(task)

        timer = Completing(clock=ManualClock(), executor=InlineExecutor())
        p = Purgatory(timer=timer)
        op = Recorder()
        assert p.try_complete_else_watch(op, ["k"]) is False
        assert op.calls == ["complete"]
        assert (p.watched, len(timer)) == (0, 0)
        p._check()

    def test_no_wake_up_is_lost(self, harness):
        """A submission that races the completion of its key never misses it."""
        p = harness.purgatory
        done = [False] * 2000
        ops = []
        for number in range(len(done)):
            op = Hooked(try_complete=lambda number=number: done[number])
            ops.append(op)

        def complete():
            for number in range(len(done)):
                done[number] = True
                p.check_and_complete(number)

        def submit():
            for number, op in enumerate(ops):
                p.try_complete_else_watch(op, [number])

        all_in_threads(complete, submit)
        assert all(op.calls == ["complete"] for op in ops)
        assert p.watched == 0
        p._check()


class TestCompleting:
    def test_the_count_is_of_what_this_call_completed(self, harness):
        """check_and_complete counts the operations it completed, not those it checked."""
        p = harness.purgatory
        ops = [Recorder(ready=False) for _ in range(4)]
        for op in ops:
            p.try_complete_else_watch(op, ["k"])
        ops[1].ready = ops[2].ready = True
        assert p.check_and_complete("k") == 2
        assert p.check_and_complete("k") == 0
        assert p.check_and_complete("unknown") == 0

    def test_complete_checks_operations_too(self, harness):
        """complete resolves futures and checks operations of the same key."""
        p = harness.purgatory
        op, future = Recorder(), p.defer("k")
        p.try_complete_else_watch(op, ["k"])
        op.ready = True
        assert p.complete("k", 7) == 2
        assert future.result(0) == 7

    def test_it_leaves_all_its_lists_at_once(self, harness):
        """Completing, expiring and cancelling remove an operation from every key and the wheel."""
        p = harness.purgatory
        for end in ("complete", "expire", "cancel"):
            op = Recorder(1)
            p.try_complete_else_watch(op, ["a", "b", "c"])
            assert (p.watched, p.delayed, p.stats().watched_keys) == (3, 1, 3)
            if end == "complete":
                op.ready = True
                p.check_and_complete("b")
            elif end == "expire":
                harness.advance(1)
            else:
                op.cancel()
            assert (p.watched, p.delayed, p.stats().watched_keys) == (0, 0, 0)
            assert len(harness.timer) == 0

    def test_cancel_for_key_leaves_no_other_key(self, harness):
        """Cancelled operations leave all their keys and never expire; others stay."""
        p = harness.purgatory
        ops = [Recorder(1), Recorder(1), Recorder(1)]
        p.try_complete_else_watch(ops[0], ["a", "b"])
        p.try_complete_else_watch(ops[1], ["b"])
        p.try_complete_else_watch(ops[2], ["c"])
        assert p.cancel_for_key("a") == [ops[0]]
        assert p.cancel_for_key("unknown") == []
        assert (p.watched, p.delayed) == (2, 2)
        harness.advance(5)
        assert [op.calls for op in ops] == [["cancel"]] + [["complete", "expiration"]] * 2

    def test_an_overridden_cancel_does_not_stop_the_others(self, harness):
        """The purgatory cancels operations without calling an overridden cancel()."""

        class Stubborn(Recorder):
            def cancel(self):
                raise RuntimeError

        op, other = Stubborn(), Recorder()
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.purgatory.try_complete_else_watch(other, ["k"])
        harness.purgatory.close()
        assert op.calls == other.calls == ["cancel"]

    def test_stats(self, harness):
        """Each outcome is counted, once."""
        p = harness.purgatory
        for _ in range(6):
            p.defer("a", "b", timeout=1)
        p.complete("a")
        p.defer("a", timeout=1)
        harness.advance(1)
        p.defer("a", "b", "c", timeout=1)
        p.defer("a", timeout=1)
        p.cancel_for_key("c")
        stats = p.stats()
        assert (stats.completed, stats.expired, stats.cancelled) == (6, 1, 1)
        assert (stats.pending, stats.watch_entries, stats.watched_keys) == (1, 1, 1)
        assert stats.name == "bench"
        with pytest.raises(AttributeError):
            stats.pending = 0

    def test_repr(self, harness):
        """The repr shows the counts."""
        harness.purgatory.defer("a", "b")
        assert repr(harness.purgatory) == "<Purgatory 'bench', 1 pending, 2 watched>"


class TestTimerErrors:
    def test_timer_full_leaves_the_operation_as_it_was(self):
        """An operation refused with TimerFull is in no list and may be submitted again."""
        harness = PurgatoryHarness(max_pending=1)
        p = harness.purgatory
        first, op = Recorder(5), Recorder(5)
        p.try_complete_else_watch(first, ["k"])
        with pytest.raises(TimerFull):
            p.try_complete_else_watch(op, ["k", "x"])
        with pytest.raises(TimerFull):
            p.defer("k")
        p._check()
        assert (p.watched, p.delayed, len(harness.timer)) == (1, 1, 1)
        assert op.calls == []
        first.cancel()
        assert p.try_complete_else_watch(op, ["k", "x"]) is False
        harness.advance(5)
        assert op.calls == ["complete", "expiration"]

    def test_timer_full_does_not_matter_to_what_has_ended(self):
        """An operation completed while the timer refuses it is completed, without an error."""

        class Full(Timer):
            def add(self, task):
                task.force_complete()
                raise TimerFull

        p = Purgatory(timer=Full(clock=ManualClock()))
        op = Recorder()
        assert p.try_complete_else_watch(op, ["k"]) is False
        assert op.calls == ["complete"]
        assert p.watched == 0

    def test_an_error_after_the_add_takes_it_off_the_wheel(self):
        """A submission that fails late leaves no task in the wheel."""

        class Failing(Timer):
            def add(self, task):
                super().add(task)
                raise KeyboardInterrupt

        timer = Failing(clock=ManualClock(), executor=InlineExecutor())
        p = Purgatory(timer=timer)
        op = Recorder()
        with pytest.raises(KeyboardInterrupt):
            p.try_complete_else_watch(op, ["k"])
        with pytest.raises(KeyboardInterrupt):
            p.defer("k")
        assert (p.watched, p.delayed, len(timer), op.done()) == (0, 0, 0, False)

    def test_an_interrupt_is_not_swallowed_when_it_has_ended(self):
        """A KeyboardInterrupt reaches the caller, although the operation has completed."""

        class Interrupted(Timer):
            def add(self, task):
                task.force_complete()
                raise KeyboardInterrupt

        p = Purgatory(timer=Interrupted(clock=ManualClock()))
        op = Recorder()
        with pytest.raises(KeyboardInterrupt):
            p.try_complete_else_watch(op, ["k"])
        assert op.calls == ["complete"]

    def test_an_interrupted_first_check_may_be_tried_again(self, harness):
        """After an interrupt in try_complete the operation does not count as submitted."""
        interrupts = [KeyboardInterrupt]

        def interrupt():
            if interrupts:
                raise interrupts.pop()

        op = Hooked(try_complete=interrupt)
        with pytest.raises(KeyboardInterrupt):
            harness.purgatory.try_complete_else_watch(op, ["k"])
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is False
        assert harness.purgatory.watched == 1

    def test_closing_a_shared_timer_ends_its_operations(self, harness):
        """A timer that closes cancels what waits in it: futures fail, lists are empty."""
        op, future = Recorder(), harness.purgatory.defer("k")
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.timer.close()
        assert op.calls == ["cancel"]
        with pytest.raises(OperationCancelled):
            future.result(0)
        assert (harness.purgatory.watched, harness.purgatory.delayed) == (0, 0)
        late = Recorder()
        with pytest.raises(TimerClosed):
            harness.purgatory.try_complete_else_watch(late, ["k"])
        assert harness.purgatory.watched == 0


class TestSharing:
    def test_two_purgatories_share_a_timer(self):
        """Purgatories on a shared timer are independent; it is neither started nor closed."""
        clock = ManualClock()
        timer = Timer(clock=clock, executor=InlineExecutor())
        one, two = Purgatory("one", timer=timer), Purgatory("two", timer=timer)
        with one:
            a, b = one.defer("k", timeout=1), two.defer("k", timeout=1)
            foreign = timer.schedule(1, lambda: None)
            assert len(timer) == 3
            assert (one.delayed, two.delayed) == (1, 1)
            assert one.complete("k", 1) == 1
            assert not b.done()
            c = one.defer("k", timeout=1)
        assert a.result(0) == 1
        assert isinstance(c.exception(0), OperationCancelled)
        assert two.delayed == 1
        clock.advance(1)
        assert timer.advance_clock()
        assert foreign.done()
        assert isinstance(b.exception(0), OperationExpired)
        assert "not started" in repr(timer)

    def test_foreign_tasks_do_not_change_the_figures(self, harness):
        """delayed does not count other tasks of a shared timer."""
        for _ in range(10):
            harness.timer.schedule(1, lambda: None)
        assert harness.purgatory.delayed == 0

    def test_a_timer_with_an_add_of_its_own(self):
        """An overridden Timer.add is called for operations, too."""

        class Counting(Timer):
            def add(self, task):
                added.append(task)
                return super().add(task)

        added, op = [], Recorder()
        p = Purgatory(timer=Counting(clock=ManualClock(), executor=InlineExecutor()))
        p.try_complete_else_watch(op, ["k"])
        future = p.defer("k")
        assert added == [op, future._operation]
        assert p.complete("k") == 1
        p.close()


class TestJournal:
    def test_each_end_is_told_once_before_the_callbacks(self):
        """The journal gets each outcome after the lists and before the callbacks."""
        seen = []

        class Journal:
            def ended(self, operation, outcome):
                seen.append(
                    (
                        operation,
                        outcome,
                        list(getattr(operation, "calls", [])),
                        harness.purgatory.watched,
                        in_thread(lambda: True),
                    )
                )

        harness = PurgatoryHarness(journal=Journal())
        p = harness.purgatory
        ops = [Recorder(1) for _ in range(3)]
        for op, outcome in zip(ops, Outcome, strict=True):
            p.try_complete_else_watch(op, ["k"])
            if outcome is Outcome.COMPLETED:
                op.force_complete()
            elif outcome is Outcome.EXPIRED:
                harness.advance(1)
            else:
                op.cancel()
        assert [entry[1] for entry in seen] == list(Outcome)
        assert all(entry[0] is op for entry, op in zip(seen, ops, strict=True))
        assert all(entry[2:] == ([], 0, True) for entry in seen)

    def test_a_journal_that_raises_keeps_nothing_from_ending(self):
        """An exception of the journal goes to on_error."""

        class Journal:
            def ended(self, operation, outcome):
                raise OSError("disk full")

        harness = PurgatoryHarness(journal=Journal())
        op = Recorder(ready=True)
        assert harness.purgatory.try_complete_else_watch(op, ["k"]) is True
        assert op.calls == ["complete"]
        assert isinstance(harness.errors[0][0], OSError)


class TestClose:
    def test_close_ends_what_is_pending(self, harness):
        """Closing removes watchers, calls on_cancel, and fails futures with OperationCancelled."""
        p = harness.purgatory
        op, future = Recorder(), p.defer("k", "x")
        p.try_complete_else_watch(op, ["k"])
        p.close()
        assert op.calls == ["cancel"]
        with pytest.raises(OperationCancelled):
            future.result(0)
        assert (p.watched, p.delayed, p.stats().cancelled, len(harness.timer)) == (0, 0, 2, 0)
        p.close()
        p._check()

    def test_after_close_everything_raises(self, harness):
        """After close each method raises PurgatoryClosed, which names the purgatory."""
        p = harness.purgatory
        p.close()
        for method in (
            lambda: p.try_complete_else_watch(Recorder(), ["k"]),
            lambda: p.defer("k"),
            lambda: p.complete("k"),
            lambda: p.check_and_complete("k"),
            lambda: p.cancel_for_key("k"),
            p.start,
        ):
            with pytest.raises(PurgatoryClosed, match="'bench' is closed"):
                method()
        assert p.stats().pending == 0

    def test_no_thread_and_no_waiter_is_left(self):
        """Closing a started purgatory ends its threads, and threads that wait for a result."""
        before = set(threading.enumerate())
        with Purgatory() as p:
            futures = [p.defer(n, timeout=3600) for n in range(100)]
            waiting = threading.Thread(target=lambda: concurrent.futures.wait(futures), daemon=True)
            waiting.start()
            p.defer("due", timeout=0).exception(HANG)
        waiting.join(HANG)
        assert not waiting.is_alive()
        assert set(threading.enumerate()) <= before
        assert all(isinstance(f.exception(0), OperationCancelled) for f in futures)

    def test_own_timer_finishes_what_waits(self):
        """With cancel_pending=False operations complete or expire before close returns."""
        p = Purgatory()
        p.start()
        soon, completed = p.defer("a", timeout=0.05), p.defer("b", timeout=3600)
        closing = threading.Thread(target=lambda: p.close(cancel_pending=False), daemon=True)
        closing.start()
        assert isinstance(soon.exception(HANG), OperationExpired)
        assert p.complete("b", 1) == 1  # still accepted while an operation is pending
        closing.join(HANG)
        assert not closing.is_alive()
        assert completed.result(0) == 1
        with pytest.raises(PurgatoryClosed):
            p.complete("b")

    def test_own_timer_gives_up_after_timeout(self):
        """Operations that do not end within the timeout are cancelled."""
        p = Purgatory()
        p.start()
        future = p.defer("a", timeout=3600)
        p.close(cancel_pending=False, timeout=0.02)
        assert isinstance(future.exception(HANG), OperationCancelled)
        assert p.delayed == 0

    @pytest.mark.parametrize("timeout", [None, 0, 0.01])
    def test_an_own_timer_that_never_started_leaves_no_one_waiting(self, timeout):
        """Without a running loop pending operations are cancelled, since none would expire."""
        p = Purgatory()
        future = p.defer("a", timeout=3600)
        p.close(cancel_pending=False, timeout=timeout)
        assert isinstance(future.exception(0), OperationCancelled)

    def test_shared_timer_finishes_what_waits(self, harness):
        """With a shared timer close waits until the last operation has ended."""
        p = harness.purgatory
        op = Recorder(1)
        p.try_complete_else_watch(op, ["k"])
        closing = threading.Thread(target=lambda: p.close(cancel_pending=False), daemon=True)
        closing.start()
        while not p._lists.closed:
            pass
        with pytest.raises(PurgatoryClosed):
            p.defer("k")
        harness.advance(1)
        closing.join(HANG)
        assert not closing.is_alive()
        assert op.calls == ["complete", "expiration"]

    def test_shared_timer_gives_up_after_timeout(self, harness):
        """After the timeout the rest is cancelled; the shared timer goes on."""
        p = harness.purgatory
        future = p.defer("k", timeout=3600)
        p.close(cancel_pending=False, timeout=0.01)
        assert isinstance(future.exception(0), OperationCancelled)
        assert len(harness.timer) == 0
        harness.timer.schedule(1, lambda: None)

    def test_without_wait_a_shared_timer_keeps_its_word(self, harness):
        """wait=False returns at once; the rest is cancelled after the timeout."""
        p = harness.purgatory
        soon, late = p.defer("k", timeout=1), p.defer("k", timeout=3600)
        p.close(wait=False, cancel_pending=False, timeout=5)
        assert not soon.done()
        harness.advance(1)
        assert isinstance(soon.exception(0), OperationExpired)
        harness.advance(4)
        assert isinstance(late.exception(0), OperationCancelled)

    def test_without_wait_and_a_closed_timer_it_is_over(self, harness):
        """If the timer refuses the task that would cancel them, they are cancelled at once."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.timer.add = lambda task: None
        harness.timer.close(cancel_pending=False)
        harness.purgatory.close(wait=False, cancel_pending=False, timeout=5)
        assert op.calls == ["cancel"]

    @pytest.mark.parametrize("timeout", [-1, float("nan")])
    def test_a_bad_timeout_closes_nothing(self, harness, timeout):
        """A bad timeout is refused before close has any effect."""
        future = harness.purgatory.defer("k")
        with pytest.raises(ValueError, match="delay is"):
            harness.purgatory.close(timeout=timeout)
        with pytest.raises(TypeError):
            harness.purgatory.close(timeout="soon")
        assert not future.done()
        assert harness.purgatory.complete("k") == 1

    def test_close_from_a_callback(self):
        """A callback on the timer's own thread may close the purgatory."""
        p = Purgatory()
        p.start()
        other = p.defer("x", timeout=3600)
        op = Hooked(0, on_complete=p.close)
        p.try_complete_else_watch(op, ["k"])
        assert isinstance(other.exception(HANG), OperationCancelled)
        p.close()
        assert p.delayed == 0

    def test_what_comes_while_it_closes_ends_or_is_refused(self):
        """Submissions racing close: each future ends, each refusal is PurgatoryClosed."""
        for attempt in range(60):
            p = Purgatory()
            p.start()
            futures = []

            def submit(p=p, futures=futures):
                try:
                    while True:
                        futures.append(p.defer("k", timeout=3600))
                except PurgatoryClosed:
                    pass

            all_in_threads(
                submit,
                submit,
                lambda p=p, n=attempt: p.close(cancel_pending=n % 2 == 0, timeout=0.001),
            )
            for future in futures:
                assert isinstance(future.exception(HANG), OperationCancelled)
            assert (p.watched, p.delayed) == (0, 0)
            p._check()


class TestFork:
    @staticmethod
    def in_child(function):
        """Run a function in a forked child; what it returned, as text."""
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(write, repr(function()).encode())
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as result:
            text = result.read()
        os.waitpid(pid, 0)
        return text

    def test_the_childs_copy_refuses(self):
        """Every method raises PurgatoryForked in the child; the parent is not affected."""
        with Purgatory() as p:
            future = p.defer("k", timeout=3600)
            op = Recorder()
            p.try_complete_else_watch(op, ["k"])

            def child():
                refused = []
                for method in (
                    lambda: p.try_complete_else_watch(Recorder(), ["k"]),
                    lambda: p.defer("k"),
                    lambda: p.complete("k"),
                    lambda: p.check_and_complete("k"),
                    lambda: p.cancel_for_key("k"),
                    p.start,
                    future.cancel,
                    op.cancel,
                    op.force_complete,
                ):
                    try:
                        method()
                    except PurgatoryForked as error:
                        refused.append("before fork" in str(error))
                p.close()
                return refused, p.delayed

            assert self.in_child(child) == repr(([True] * 9, 2))
            assert p.complete("k", 5) == 1
            assert future.result(0) == 5

    def test_the_child_may_make_its_own(self):
        """A purgatory made in the child works, under the parent's name in the same registry."""
        registry = CollectorRegistry()
        with Purgatory("same", registry=registry) as p:
            p.defer("k", timeout=3600)

            def child():
                with Purgatory("same", registry=registry) as mine:
                    future = mine.defer("k", timeout=0.01)
                    outcome = type(future.exception(HANG)).__name__
                    return (
                        outcome,
                        registry.get_sample_value(
                            "purgatory_operations_total", {"name": "same", "outcome": "expired"}
                        ),
                        [p.name for p in live_purgatories()],
                    )

            assert self.in_child(child) == repr(("OperationExpired", 1, ["same"]))

    def test_operations_of_a_lost_purgatory_refuse_too(self, harness):
        """In the child an operation raises PurgatoryForked even if its purgatory was dropped."""
        op = Recorder()
        harness.purgatory.try_complete_else_watch(op, ["k"])
        harness.purgatory = None

        def child():
            try:
                op.cancel()
            except PurgatoryForked:
                return "refused"

        assert self.in_child(child) == repr("refused")


class TestKeyed:
    def test_need_is_checked_at_submission(self, harness):
        """A KeyedOperation that needs more keys than it watches is refused."""
        op = KeyedOperation(5, need=3)
        with pytest.raises(ValueError, match="need is 3; expected 1 to 2"):
            harness.purgatory.try_complete_else_watch(op, ["a", "b", "a"])
        assert harness.purgatory.watched == 0
        harness.purgatory.try_complete_else_watch(op, ["a", "b", "c"])
        assert harness.purgatory.watched == 3
