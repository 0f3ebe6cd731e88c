"""gc_untrack: the collector passes over pending timers, and frees the garbage of ended ones."""

import gc
import threading
import weakref
from functools import partial

import pytest

from timingwheel import COMPILED, ManualClock, Timer, TimerTask
from timingwheel._cpython.gc_tracking import UNTRACKS_FROM_GC, gc_track, gc_untrack

compiled_only = pytest.mark.skipif(not COMPILED, reason="only compiled code untracks objects")


class Holder:
    """Has a task with a callback that refers back: a cycle."""

    def __init__(self, timer, delay):
        self.task = timer.schedule(delay, self.called)

    def called(self):
        """Nothing to do."""


@pytest.mark.parametrize("thing", [[[]], TimerTask(1, print)], ids=["list", "task"])
def test_untrack_and_track(thing):
    """Compiled, an object is untracked and tracked again; interpreted, it stays tracked."""
    for _ in range(2):
        gc_untrack(thing)
        assert gc.is_tracked(thing) is not COMPILED
    for _ in range(2):
        gc_track(thing)
        assert gc.is_tracked(thing)


@pytest.mark.parametrize("thing", [7, "text", None], ids=repr)
def test_objects_without_references_are_left_alone(thing):
    """An object that no collection ever visits may be passed to both functions."""
    gc_untrack(thing)
    gc_track(thing)
    assert not gc.is_tracked(thing)


def test_threads_may_track_the_same_object():
    """Tracking an object twice would end the process; looking and tracking is one step."""
    thing = [[]]

    def work():
        for _ in range(20_000):
            gc_untrack(thing)
            gc_track(thing)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc_track(thing)
    assert gc.is_tracked(thing)


@compiled_only
def test_untracked_while_pending(timer, clock):
    """A task is untracked from its add until it has run or was cancelled."""
    run, cancelled = timer.schedule(1, print), timer.schedule(1, print)
    assert not gc.is_tracked(run)
    assert not gc.is_tracked(run._tt_list._slots)
    cancelled.cancel()
    assert gc.is_tracked(cancelled)
    timer.add(cancelled)
    assert not gc.is_tracked(cancelled)
    clock.advance(1)
    timer.advance_clock()
    assert gc.is_tracked(run)
    assert gc.is_tracked(cancelled)


@compiled_only
def test_a_subclass_stays_tracked(timer, clock):
    """A subclass may hold anything, so neither it nor the bucket that holds it is untracked."""

    class Subclass(TimerTask):
        pass

    plain, special = timer.schedule(3, print), timer.add(Subclass(30, print))
    assert gc.is_tracked(special)
    assert gc.is_tracked(special._tt_list._slots)
    assert not gc.is_tracked(plain._tt_list._slots)
    clock.advance(29.999)  # it cascades through buckets that were untracked when they were made
    while timer.advance_clock():
        pass
    assert gc.is_tracked(special._tt_list._slots)


class Owner:
    """Has a timer whose tasks refer to it, in one of several ways."""

    def __init__(self, how, started=False):
        self.timer = Timer("owned", clock=ManualClock())
        if started:
            self.timer.start()
        for _ in range(20):
            if how == "method":
                self.timer.schedule(60, self.react)
            elif how == "argument":
                self.timer.schedule(60, print, self)
            elif how == "closure":
                self.timer.schedule(60, lambda: self.react())
            elif how == "default":
                self.timer.schedule(60, lambda owner=self: owner.react())
            elif how == "recurring":
                self.timer.every(60, self.react)
            else:
                self.timer.schedule(60, partial(print, self))

    def react(self):
        """Do nothing."""


WAYS = ["method", "argument", "closure", "default", "partial", "recurring"]


@pytest.mark.parametrize("how", WAYS)
def test_a_dropped_timer_whose_tasks_refer_to_its_owner(how):
    """The collector finds both to be garbage, compiled and interpreted."""
    owners = [Owner(how) for _ in range(20)]
    references = [weakref.ref(owner) for owner in owners]
    del owners
    gc.collect()
    assert [reference() for reference in references] == [None] * 20


@compiled_only
@pytest.mark.parametrize("how", ["method", "argument", "closure"])
def test_untracked_while_a_reaper_runs(how):
    """The reaper's thread holds the timer, so whatever a task refers to is in use."""
    owner = Owner(how, started=True)
    task = owner.timer.schedule(60, owner.react)
    assert not gc.is_tracked(task)
    owner.timer.close()
    assert gc.is_tracked(task)


def test_pending_timers_cost_a_collection_nothing():
    """Compiled, a collection visits no more objects with pending timers than without them."""
    timer = Timer("many", clock=ManualClock())
    gc.collect()
    before = len(gc.get_objects())
    tasks = [timer.schedule(60 + n % 60, print) for n in range(5000)]
    seen = len(gc.get_objects()) - before
    assert seen < 500 if UNTRACKS_FROM_GC else seen >= 5000
    for task in tasks:
        task.cancel()


@pytest.mark.parametrize("how", ["cancelled", "run"])
def test_a_cycle_through_an_ended_task_is_freed(timer, clock, how):
    """A cycle of an object and its task is freed once the task has ended."""
    holder = Holder(timer, 1)
    gone = weakref.ref(holder)
    if how == "cancelled":
        holder.task.cancel()
    else:
        clock.advance(1)
        timer.advance_clock()
    del holder
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("subclass", [False, True])
def test_a_timer_that_is_lost_frees_what_it_held(subclass):
    """A timer that is dropped without being closed frees its pending tasks."""

    class Task(TimerTask):
        pass

    class Thing:
        def called(self):
            pass

    timer, thing = Timer("lost", clock=ManualClock()), Thing()
    gone = weakref.ref(thing)
    make = Task if subclass else TimerTask
    for delay in (1, 100, 1, 100_000):
        timer.add(make(delay, thing.called))
    del timer, thing
    gc.collect()
    assert gone() is None
