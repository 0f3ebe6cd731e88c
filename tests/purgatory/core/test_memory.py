"""Memory: an ended operation is freed at once, without the cycle collector."""

import gc
import threading
import weakref

import pytest

from purgatory import DelayedOperation, Purgatory
from tests.testing.purgatory_harness import HANG, PurgatoryHarness
from timingwheel import InlineExecutor, ManualClock, Timer, TimerFull
from timingwheel.lowlevel import ATOMIC_SECTIONS, UNTRACKS_FROM_GC


class Plain(DelayedOperation):
    """An operation that can be referenced weakly."""


@pytest.fixture(autouse=True)
def without_collector():
    """Disable the collector: only reference counts free objects."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("end", ["complete", "expire", "cancel", "cancel_for_key", "close"])
def test_an_ended_operation_is_released(end):
    """No list, wheel or bucket keeps an ended operation alive, even if its keys stay idle."""
    harness = PurgatoryHarness()
    p = harness.purgatory
    op = Plain(1)
    gone = weakref.ref(op)
    p.try_complete_else_watch(op, ["a", "b", "c"])
    neighbour = Plain(30)
    p.try_complete_else_watch(neighbour, ["a", "b"])
    if end == "complete":
        op.force_complete()
    elif end == "expire":
        harness.advance(1)
    elif end == "cancel":
        op.cancel()
    elif end == "cancel_for_key":
        p.cancel_for_key("c")
    else:
        p.close()
    del op
    assert gone() is None


@pytest.mark.parametrize("end", ["complete", "expire", "cancel", "close"])
def test_an_ended_future_is_released(end):
    """A future and its operation form no reference cycle after the end."""
    harness = PurgatoryHarness()
    p = harness.purgatory
    future = p.defer("a", "b", timeout=1, need=2)
    operation = future._operation
    assert operation is not None
    futures = weakref.ref(future)
    del operation
    value = Plain(1)
    values = weakref.ref(value)
    p.complete("a", value)
    del value
    if end == "complete":
        p.complete("b")
    elif end == "expire":
        harness.advance(1)
    elif end == "cancel":
        future.cancel()
    else:
        p.close()
    assert future.done()
    del future
    assert futures() is None
    assert values() is None


def test_a_refused_operation_is_released():
    """TimerFull and its traceback keep neither operation nor future alive."""
    harness = PurgatoryHarness(max_pending=1)
    p = harness.purgatory
    p.defer("k")
    op = Plain(1)
    gone = weakref.ref(op)
    before = len([o for o in gc.get_objects() if isinstance(o, DelayedOperation)])
    for _ in range(3):
        try:
            p.try_complete_else_watch(op, ["k", "x"])
        except TimerFull:
            pass
        with pytest.raises(TimerFull):
            p.defer("k")
    del op
    assert gone() is None
    assert len([o for o in gc.get_objects() if isinstance(o, DelayedOperation)]) == before - 1


def test_keys_without_operations_take_no_memory():
    """A key is dropped with the last operation that watches it."""
    p = PurgatoryHarness().purgatory
    for number in range(1000):
        p.defer(number, -number - 1)
    for number in range(1000):
        p.complete(number)
    assert p.stats().watched_keys == 0
    assert len(p._parts.lists) == 0


def test_a_closed_purgatory_is_released():
    """Neither a registry, nor the live purgatories, nor its timer keep a closed one alive."""
    harness = PurgatoryHarness()
    gone = weakref.ref(harness.purgatory)
    harness.purgatory.close()
    harness.purgatory = None
    assert gone() is None


def test_a_dropped_purgatory_is_freed():
    """A purgatory dropped without close leaves the live purgatories."""
    gone = weakref.ref(Purgatory())
    assert gone() is None


class Cyclic(DelayedOperation):
    """An operation in a cycle with its purgatory, which notes when it is freed."""

    def __init__(self, timeout, purgatory):
        super().__init__(timeout)
        self.purgatory = purgatory
        self.ended = threading.Event()

    def on_complete(self):
        self.ended.set()

    on_cancel = on_complete


class Driven:
    """A purgatory with a running reaper and a clock moved by hand."""

    def __init__(self):
        self.clock = ManualClock()
        self.timer = Timer(clock=self.clock, executor=InlineExecutor())
        self.timer.start()
        self.purgatory = Purgatory(timer=self.timer)

    def submit(self, timeout=60):
        op = Cyclic(timeout, self.purgatory)
        self.purgatory.try_complete_else_watch(op, ["a", "b"])
        return op


@pytest.mark.skipif(
    not (UNTRACKS_FROM_GC and ATOMIC_SECTIONS), reason="only compiled code untracks objects"
)
class TestHiding:
    @pytest.mark.parametrize("end", ["complete", "expire", "cancel", "close", "close timer"])
    def test_untracked_while_a_reaper_holds_it(self, end):
        """An operation of any kind is untracked from its submission to its end."""
        driven = Driven()
        op = driven.submit()
        assert not gc.is_tracked(op)
        if end == "complete":
            assert op.force_complete()
        elif end == "expire":
            driven.clock.advance(60)
        elif end == "cancel":
            assert op.cancel()
        elif end == "close":
            driven.purgatory.close()
        else:
            driven.timer.close()
        assert op.ended.wait(HANG)
        assert gc.is_tracked(op)
        driven.timer.close()

    def test_its_own_timer_has_to_be_started(self):
        """Operations are untracked only if they are submitted after the start."""
        p = Purgatory()
        early, late = Cyclic(60, p), Cyclic(60, p)
        p.try_complete_else_watch(early, ["k"])
        p.start()
        p.try_complete_else_watch(late, ["k"])
        assert [gc.is_tracked(op) for op in (early, late)] == [True, False]
        futures = [p.defer("k")]
        assert not gc.is_tracked(futures[0]._operation)
        p.close()
        assert all(gc.is_tracked(op) for op in (early, late, futures[0]._operation))

    def test_ended_at_once_it_is_seen(self):
        """An operation that never waits is never untracked."""
        driven = Driven()
        op = Cyclic(60, driven.purgatory)
        op.try_complete = lambda: True
        assert driven.purgatory.try_complete_else_watch(op, ["k"])
        assert gc.is_tracked(op)
        due = driven.submit(0)
        assert due.ended.wait(HANG)
        assert gc.is_tracked(due)
        driven.timer.close()


@pytest.mark.parametrize("started", [False, True])
def test_a_cycle_of_purgatory_and_operation_is_freed(started):
    """The collector frees a purgatory that was never started or has been closed."""
    p = Purgatory()
    if started:
        p.start()
    op = Cyclic(60, p)
    p.try_complete_else_watch(op, ["a", "b"])
    future = p.defer("a")
    future.purgatory = p
    gone = [weakref.ref(thing) for thing in (p, op, future, p.timer)]
    if started:
        p.close()
    del p, op, future
    gc.collect()
    assert [thing() for thing in gone] == [None] * 4
