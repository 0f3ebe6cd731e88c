"""Lifecycle: the methods of one operation never overlap, and no check is lost."""

import threading

import pytest

from tests.testing.purgatory_harness import (
    HANG,
    Hooked,
    PurgatoryHarness,
    Recorder,
    all_in_threads,
    in_thread,
)
from timingwheel.lowlevel import ATOMIC_SECTIONS


@pytest.fixture
def harness():
    return PurgatoryHarness()


class TestOneAtATime:
    def test_a_check_that_comes_during_a_check_is_not_lost(self, harness):
        """A check that finds an operation busy leaves a flag: the condition is checked again."""
        inside, go_on = threading.Event(), threading.Event()

        def wait_in_first():
            if threading.current_thread() is not threading.main_thread():
                inside.set()
                assert go_on.wait(HANG)
                return False  # decided before the condition came true
            return None

        op = Hooked(try_complete=lambda: wait_in_first() if not go_on.is_set() else None)
        harness.purgatory.try_complete_else_watch(op, ["k"])
        checker = threading.Thread(target=harness.purgatory.check_and_complete, args=["k"])
        checker.start()
        assert inside.wait(HANG)
        op.ready = True
        assert harness.purgatory.check_and_complete("k") == 0  # it is busy; the flag is left
        assert not op.completed
        go_on.set()
        checker.join(HANG)
        assert op.completed
        assert op.calls == ["complete"]

    def test_callbacks_after_the_check_that_it_ended_in(self, harness):
        """Methods of one operation never overlap, and none is left out."""
        op = Hooked(try_complete=lambda: self.force_and_look(op))
        op.seen = []
        harness.purgatory.try_complete_else_watch(op, ["k"])
        assert op.seen == [(True, [])]
        assert op.calls == ["complete"]

    @staticmethod
    def force_and_look(op):
        op.seen.append((in_thread(op.force_complete), list(op.calls)))
        return False

    def test_callbacks_of_one_operation_never_overlap(self):
        """Under concurrent checks, completions and cancels, one method runs at a time."""

        class Exclusive(Recorder):
            def __init__(self):
                super().__init__(30)
                self.lock = threading.Lock()
                self.overlaps = 0

            def exclusively(self, action):
                if not self.lock.acquire(blocking=False):
                    self.overlaps += 1
                    return action()
                try:
                    return action()
                finally:
                    self.lock.release()

            def try_complete(self):
                return self.exclusively(lambda: sum(range(20)) < 0)

            def on_complete(self):
                self.exclusively(super().on_complete)

            def on_cancel(self):
                self.exclusively(super().on_cancel)

        harness = PurgatoryHarness()
        for _ in range(300):
            op = Exclusive()
            checks = [lambda: [harness.purgatory.check_and_complete("k") for _ in range(5)]] * 2
            harness.purgatory.try_complete_else_watch(op, ["k"])
            all_in_threads(*checks, op.force_complete, op.cancel)
            assert op.overlaps == 0
            assert op.calls in (["complete"], ["cancel"])
            harness.purgatory._check()

    def test_callbacks_after_it_has_left_its_lists(self):
        """A busy thread calls no callback before the operation is off wheel and lists."""
        ending, go_on = threading.Event(), threading.Event()
        seen = []

        class SlowJournal:
            def ended(self, operation, outcome):
                ending.set()
                assert go_on.wait(HANG)

        harness = PurgatoryHarness(journal=SlowJournal())
        p = harness.purgatory

        def end_elsewhere():
            if op.tries:
                other.start()
                assert ending.wait(HANG)
            return False

        op = Hooked(
            try_complete=end_elsewhere,
            on_complete=lambda: seen.append((p.watched, p.delayed, len(harness.timer))),
        )
        op.tries = 0
        other = threading.Thread(target=op.force_complete)
        p.try_complete_else_watch(op, ["k", "x"])
        op.tries = 1
        assert p.check_and_complete("k") == 0
        assert op.calls == []
        go_on.set()
        other.join(HANG)
        assert seen == [(0, 0, 0)]


@pytest.mark.skipif(ATOMIC_SECTIONS, reason="operations have no lock where sections are atomic")
def test_a_finalizer_may_end_the_operation_whose_lock_its_thread_has(harness):
    """The collector may run at the call that is made under the lock; nothing deadlocks."""
    op = Recorder(30)
    harness.purgatory.try_complete_else_watch(op, ["k"])
    with op._op_lock:
        assert op.cancel()
    assert harness.purgatory.delayed == 0
