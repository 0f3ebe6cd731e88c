"""DelayQueue: buckets in order of expiration, consistent after every interrupt."""

import random

import pytest
from sortedcontainers import SortedKeyList

from timingwheel.bucket import TimerCounters, TimerTaskList
from timingwheel.rwlock import ReadWriteLock
from timingwheel.wheel import DelayQueue


def bucket(expiration_ns):
    """Return an empty bucket."""
    return TimerTaskList(ReadWriteLock(), TimerCounters(), 0, expiration_ns)


def test_empty():
    """An empty queue has no first bucket."""
    queue = DelayQueue(ReadWriteLock(), TimerCounters())
    assert (queue.first(), len(queue), queue.snapshot()) == (None, 0, [])


def test_offer_returns_whether_the_bucket_is_first():
    """Only a bucket that expires before all others needs a wake-up."""
    queue = DelayQueue(ReadWriteLock(), TimerCounters())
    assert queue.offer(bucket(5))
    assert not queue.offer(bucket(7))
    assert not queue.offer(bucket(5))
    assert queue.offer(bucket(-3))


def test_a_bucket_that_a_signal_handler_drops_meanwhile():
    """The handler closes the timer, which drops empty buckets; the new one stays."""
    queue, new = DelayQueue(ReadWriteLock(), TimerCounters()), bucket(5)

    class Interrupted(SortedKeyList):
        def add(self, value):
            super().add(value)
            queue.remove(value)

    queue._buckets = Interrupted(key=lambda each: each.expiration_ns)
    assert queue.offer(new)
    assert queue.snapshot() == [new]


def test_remove_is_by_identity_and_repeatable():
    """Of two buckets with equal expiration the given one is removed; again does nothing."""
    queue, a, b = DelayQueue(ReadWriteLock(), TimerCounters()), bucket(5), bucket(5)
    queue.offer(a)
    queue.offer(b)
    queue.remove(b)
    queue.remove(b)
    assert queue.snapshot() == [a]


@pytest.mark.parametrize("seed", range(3))
def test_random_actions(seed):
    """After seeded random offers and removes, the queue equals a sorted list."""
    rng, queue, model = random.Random(seed), DelayQueue(ReadWriteLock(), TimerCounters()), []
    for _ in range(400):
        if model and rng.random() < 0.45:
            queue.remove(model.pop(rng.randrange(len(model))))
        else:
            model.append(bucket(rng.randrange(50)))
            queue.offer(model[-1])
        expected = sorted(b.expiration_ns for b in model)
        assert [b.expiration_ns for b in queue.snapshot()] == expected
        first = queue.first()
        assert (None if first is None else first.expiration_ns) == (
            expected[0] if expected else None
        )


class InterruptedList:
    """A sorted list that is interrupted half way through its next change."""

    def __init__(self, inner):
        self.inner = inner

    def add(self, value):
        """Do half of it, then raise."""
        self.inner._lists.append([value])
        raise KeyboardInterrupt

    def remove(self, value):
        """Do half of it, then raise."""
        self.inner._lists.clear()
        raise KeyboardInterrupt


def test_a_dirty_list_is_rebuilt():
    """After an interrupt inside the sorted list, the next call rebuilds it."""
    queue, a, b, c = DelayQueue(ReadWriteLock(), TimerCounters()), bucket(5), bucket(6), bucket(4)
    queue.offer(a)
    queue.offer(b)
    queue._buckets = InterruptedList(queue._buckets)
    with pytest.raises(KeyboardInterrupt):
        queue.offer(c)
    assert queue.snapshot() == [c, a, b]
    queue._buckets = InterruptedList(queue._buckets)
    with pytest.raises(KeyboardInterrupt):
        queue.remove(c)
    assert queue.first() is a
    assert queue.snapshot() == [a, b]
    assert "2 buckets" in repr(queue)
