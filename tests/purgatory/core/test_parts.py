"""PurgatoryParts: who owns an operation, and which way it gets into the timer."""

import pytest

from purgatory import DelayedOperation, Purgatory
from purgatory.core.operations.operation_state import first_of
from tests.testing.purgatory_harness import PurgatoryHarness, in_thread
from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.lowlevel import LOCKED_SECTIONS


def submitted(p):
    """Return an operation that waits."""
    operation = DelayedOperation(30)
    p.try_complete_else_watch(operation, ["k"])
    return operation


@pytest.mark.skipif(not LOCKED_SECTIONS, reason="one for all threads with the GIL")
def test_each_thread_has_a_copy_of_the_owner():
    """So threads that make operations count the references to different objects."""
    p = PurgatoryHarness().purgatory
    here, other = submitted(p)._op_owner, in_thread(lambda: submitted(p)._op_owner)
    assert here is submitted(p)._op_owner
    assert here is not other
    assert first_of(here) is first_of(other) is p._parts.owner


class CountingTimer(Timer):
    """Counts what is added."""

    added = 0

    def add(self, task):
        self.added += 1
        return super().add(task)


@pytest.mark.parametrize("kind", [Timer, CountingTimer])
def test_an_operation_gets_into_the_timer(kind):
    """By the method `add` of a subclass, if it has one."""
    clock = ManualClock()
    timer = kind(clock=clock, executor=InlineExecutor())
    p = Purgatory(timer=timer)
    operation = submitted(p)
    assert len(timer) == p.delayed == getattr(timer, "added", 1) == 1
    clock.advance(30)
    timer.advance_clock()
    assert operation.completed
    timer.close()


def test_whose_lock_the_thread_has():
    """Of the watch lists, of held events or of the timer: then it waits for no other thread."""
    p = PurgatoryHarness().purgatory
    parts = p._parts
    for lock in (parts.lists._shards[0].lock, parts.held._lock, p.timer._lock.reading()):
        assert not parts.holds_lock()
        with lock:
            assert parts.holds_lock()
            assert not in_thread(parts.holds_lock)
    assert not parts.holds_lock()
