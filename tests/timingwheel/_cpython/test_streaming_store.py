"""vacate: far places of a bucket are emptied past the caches, and nobody can tell."""

import random
import sys

import pytest

from timingwheel import TimerTask
from timingwheel._cpython.streaming_store import HAS_STREAMING_STORE, clear_slot_streaming
from timingwheel.bucket import STREAMING_STORE_DISTANCE, TimerCounters, TimerTaskList
from timingwheel.lowlevel import ATOMIC_SECTIONS
from timingwheel.rwlock import ReadWriteLock

compiled = pytest.mark.skipif(not HAS_STREAMING_STORE, reason="only compiled code has it")


@pytest.fixture
def bucket():
    """A bucket of level 0, due at 10."""
    return TimerTaskList(ReadWriteLock(), TimerCounters(), 0, 10)


class Kept:
    """What a callback refers to; counts how many there are."""

    alive = 0

    def __init__(self):
        type(self).alive += 1

    def __del__(self):
        type(self).alive -= 1


@pytest.mark.parametrize("seed", range(3))
def test_cancelled_far_from_the_end(bucket, seed):
    """In random order, with adds and takes between, a large bucket holds what a dict does."""
    rng = random.Random(seed)
    alive = dict.fromkeys(TimerTask(1, print) for _ in range(2 * STREAMING_STORE_DISTANCE))
    for task in alive:
        bucket.add(task)
    for doomed in rng.sample(list(alive), len(alive) // 2):
        assert bucket.cancel(doomed)
        assert not bucket.cancel(doomed)
        del alive[doomed]
        if rng.random() < 0.1:
            alive[late := TimerTask(1, print)] = None
            bucket.add(late)
    bucket._check()
    assert bucket.tasks() == list(alive)
    bucket.mark_dispatched()
    taken = []
    while (task := bucket.take()) is not None:
        taken.append(task)
    assert taken == list(alive)


def test_what_it_referred_to_is_released_at_once(bucket):
    """A far task that is cancelled and dropped is gone, and what its callback kept with it."""
    tasks = [TimerTask(1, print, Kept()) for _ in range(2 * STREAMING_STORE_DISTANCE)]
    for task in tasks:
        bucket.add(task)
    assert Kept.alive == 2 * STREAMING_STORE_DISTANCE
    del task
    for left in range(2 * STREAMING_STORE_DISTANCE - 1, STREAMING_STORE_DISTANCE, -1):
        tasks.pop(0 if left % 2 else -1).cancel()
        assert Kept.alive == left
    bucket._check()


def test_added_again_after_a_far_cancel(bucket):
    """The old place is empty, the new one holds the task."""
    tasks = [TimerTask(1, print) for _ in range(2 * STREAMING_STORE_DISTANCE)]
    for task in tasks:
        bucket.add(task)
    assert tasks[5].cancel()
    bucket.add(tasks[5])
    assert bucket.tasks() == [*tasks[:5], *tasks[6:], tasks[5]]
    bucket._check()


def test_without_steps_nothing_is_vacated():
    """Where other threads are kept out by locks alone, stores are ordinary ones."""
    assert ATOMIC_SECTIONS or not HAS_STREAMING_STORE


@compiled
def test_counts_references():
    """The list's reference to what was there goes, and one to None comes."""
    task = TimerTask(1, print)
    places, before = [task, None], sys.getrefcount(task)
    clear_slot_streaming(places, 0, task)
    assert places == [None, None]
    assert sys.getrefcount(task) == before - 1


@compiled
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (([1], 1, 1), IndexError),
        (([1], -1, 1), IndexError),
        (([1], "0", 1), TypeError),
        (((1,), 0, 1), TypeError),
        (([1], 0), TypeError),
    ],
)
def test_bad_arguments(arguments, error):
    """What cannot be meant is refused, and nothing is written."""
    with pytest.raises(error):
        clear_slot_streaming(*arguments)
    assert arguments[0][0] == 1
