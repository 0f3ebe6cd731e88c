"""What Kafka's DelayedOperationTest asserts, and regressions from Kafka's history."""

import random
import threading
import time

from purgatory import Purgatory
from tests.testing.purgatory_harness import HANG, Hooked, PurgatoryHarness, Recorder, all_in_threads
from timingwheel import Timer


class TestDelayedOperation:
    def test_request_satisfaction(self):
        """An operation completes once its condition is true and its key is checked."""
        p = PurgatoryHarness().purgatory
        r1, r2 = Recorder(100), Recorder(100)
        assert p.check_and_complete("test1") == 0
        assert not p.try_complete_else_watch(r1, ["test1"])
        assert p.check_and_complete("test1") == 0
        assert not p.try_complete_else_watch(r2, ["test2"])
        assert p.check_and_complete("test2") == 0
        r1.ready = True
        assert p.check_and_complete("test1") == 1
        assert p.check_and_complete("test1") == 0
        r2.ready = True
        assert p.check_and_complete("test2") == 1
        assert p.check_and_complete("test2") == 0

    def test_request_expiry(self):
        """On the real clock a timeout of 20 ms expires, not too early; one of 200 s does not."""
        told = threading.Event()
        expired = Hooked(0.02, on_expiration=told.set)
        longer = Recorder(200)
        with Purgatory() as p:
            start = time.monotonic()
            assert not p.try_complete_else_watch(expired, ["test1"])
            assert not p.try_complete_else_watch(longer, ["test2"])
            assert told.wait(HANG)
            elapsed = time.monotonic() - start
            assert elapsed >= 0.02
            assert expired.calls == ["complete", "expiration"]
            assert not longer.completed

    def test_request_purge(self):
        """Figures are exact without purging: they fall with each completion."""
        p = PurgatoryHarness().purgatory
        r1, r2, r3 = Recorder(100), Recorder(100), Recorder(100)
        p.try_complete_else_watch(r1, ["test1"])
        p.try_complete_else_watch(r2, ["test1", "test2"])
        p.try_complete_else_watch(r3, ["test1", "test2", "test3"])
        assert (p.delayed, p.watched) == (3, 6)
        r2.ready = True
        r2.try_complete()
        assert (p.delayed, p.watched) == (2, 4)
        r3.ready = True
        r3.try_complete()
        assert (p.delayed, p.watched) == (1, 1)
        for key in ("test1", "test2", "test3"):
            assert p.check_and_complete(key) == 0
        assert (p.delayed, p.watched) == (1, 1)

    def test_cancel_for_key_cancelling_watched(self):
        """Both operations of the key are cancelled and returned; a third one stays."""
        p = PurgatoryHarness().purgatory
        r1, r2, r3 = Recorder(), Recorder(), Recorder()
        p.try_complete_else_watch(r1, ["key"])
        p.try_complete_else_watch(r2, ["key"])
        p.try_complete_else_watch(r3, ["other"])
        assert p.cancel_for_key("key") == [r1, r2]
        assert (p.delayed, p.watched) == (1, 1)
        assert p.cancel_for_key("unknown") == []

    def test_try_complete_with_multiple_threads(self):
        """100 operations, checked 20 times each by many threads, complete once each."""
        p = PurgatoryHarness().purgatory
        dice = random.Random(1)

        class Attempts(Recorder):
            def __init__(self, key):
                super().__init__(10000)
                self.key = key
                self.left = 20

            def try_complete(self):
                self.left -= 1
                return self.left <= 0 and self.force_complete()

        ops = [Attempts(str(n)) for n in range(100)]
        for op in ops:
            assert not p.try_complete_else_watch(op, [op.key])

        def attempts(order):
            for number in order:
                p.check_and_complete(str(number))

        orders = []
        for _ in range(8):
            order = [n for n in range(100) for _ in range(20)]
            dice.shuffle(order)
            orders.append(order)
        all_in_threads(*[lambda order=order: attempts(order) for order in orders])
        assert all(op.calls == ["complete"] for op in ops)
        assert (p.delayed, p.watched) == (0, 0)


class TestHistory:
    def test_a_check_that_meets_another_is_not_skipped(self):
        """KAFKA-6653: a check during another thread's check is not lost."""
        for _ in range(300):
            harness = PurgatoryHarness()
            p = harness.purgatory
            flags = [False, False]
            op = Hooked(try_complete=lambda flags=flags: all(flags) and None)
            p.try_complete_else_watch(op, ["k"])

            def come_true(index, flags=flags, op=op, p=p):
                flags[index] = True
                if all(flags):
                    op.ready = True
                p.check_and_complete("k")

            all_in_threads(lambda c=come_true: c(0), lambda c=come_true: c(1))
            assert op.calls == ["complete"]

    def test_one_that_raises_does_not_skip_the_rest(self):
        """An exception in on_complete does not stop the other operations of the key."""
        harness = PurgatoryHarness()
        ops = [Hooked(on_complete=lambda: 1 / 0) for _ in range(5)]
        for op in ops:
            harness.purgatory.try_complete_else_watch(op, ["k"])
            op.ready = True
        assert harness.purgatory.check_and_complete("k") == 5
        assert len(harness.errors) == 5

    def test_watching_stops_once_completed(self):
        """An operation completed while it is being watched stays in no list."""
        p = PurgatoryHarness().purgatory
        op = Recorder(ready=True)
        p.try_complete_else_watch(op, range(10))
        assert (p.watched, p.stats().watched_keys) == (0, 0)

    def test_ended_operations_beside_foreign_tasks_of_a_shared_timer(self):
        """Figures stay exact on a shared timer, where Kafka's estimate is wrong."""
        timer = Timer()
        p = Purgatory(timer=timer)
        for _ in range(5000):
            timer.schedule(3600, lambda: None)
        for number in range(4000):
            p.defer("idle", number, timeout=3600)
            p.complete(number)
        assert (p.watched, p.delayed, len(timer)) == (0, 0, 5000)
        p.close()
        timer.close()

    def test_threads_are_named(self):
        """Threads have the name of their purgatory."""
        with Purgatory("orders") as p:
            p.defer("k", timeout=0).exception(30)
            names = {thread.name for thread in threading.enumerate()}
        assert {"orders-reaper", "orders-executor"} <= names
