"""clear_slot_streaming: distant slots of a bucket are cleared past the caches, without a trace."""

import random
import sys

import pytest

import timingwheel.bucket
from timingwheel import TimerTask
from timingwheel._cpython.streaming_store import HAS_STREAMING_STORE, clear_slot_streaming
from timingwheel.bucket import STREAMING_STORE_DISTANCE, TimerCounters, TimerTaskList
from timingwheel.rwlock import ReadWriteLock

compiled = pytest.mark.skipif(not HAS_STREAMING_STORE, reason="only compiled code has it")

MANY = 2 * STREAMING_STORE_DISTANCE


@pytest.fixture
def bucket():
    """An empty bucket of level 0, due at 10."""
    return TimerTaskList(ReadWriteLock(), TimerCounters(), 0, 10)


class Kept:
    """What a callback refers to; counts its instances."""

    alive = 0

    def __init__(self):
        type(self).alive += 1

    def __del__(self):
        type(self).alive -= 1


def fill(bucket, *args):
    """Add enough tasks that the first half is distant from the end; return them in order."""
    tasks = [TimerTask(1, print, *args) for _ in range(MANY)]
    for task in tasks:
        bucket.add(task)
    return tasks


@pytest.mark.parametrize("seed", range(3))
def test_random_cancels_of_a_large_bucket(bucket, seed):
    """With adds and takes between, a large bucket holds what a dict does, in the same order."""
    rng = random.Random(seed)
    alive = dict.fromkeys(fill(bucket))
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


def test_a_cancelled_task_is_released_at_once(bucket):
    """A distant task that is cancelled and dropped is freed, with what its callback refers to."""
    tasks = [TimerTask(1, print, Kept()) for _ in range(MANY)]
    for task in tasks:
        bucket.add(task)
    assert Kept.alive == MANY
    del task
    for left in range(MANY - 1, STREAMING_STORE_DISTANCE, -1):
        tasks.pop(0 if left % 2 else -1).cancel()
        assert Kept.alive == left
    bucket._check()


def test_added_again_after_a_distant_cancel(bucket):
    """The old slot is clear, the new one holds the task."""
    tasks = fill(bucket)
    assert tasks[5].cancel()
    bucket.add(tasks[5])
    assert bucket.tasks() == [*tasks[:5], *tasks[6:], tasks[5]]
    bucket._check()


@pytest.mark.skipif(HAS_STREAMING_STORE, reason="only where stores are ordinary ones")
def test_interpreted_code_never_calls_it(bucket, monkeypatch):
    """Without it, a distant slot is cleared by an ordinary store."""
    calls = []
    monkeypatch.setattr(timingwheel.bucket, "_clear_slot_streaming", lambda *a: calls.append(a))
    tasks = fill(bucket)
    for task in tasks:
        assert task.cancel()
    assert bucket.tasks() == []
    assert calls == []


@compiled
def test_counts_references():
    """The list's reference to the old content is released, and one to None is taken."""
    task = TimerTask(1, print)
    slots, before = [task, None], sys.getrefcount(task)
    clear_slot_streaming(slots, 0, task)
    assert slots == [None, None]
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
    """Arguments that cannot be meant raise an error, and nothing is written."""
    with pytest.raises(error):
        clear_slot_streaming(*arguments)
    assert arguments[0][0] == 1
