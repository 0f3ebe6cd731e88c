"""DelayQueue: buckets in order of expiration, whole after every interruption."""

import random

import pytest

from timingwheel.bucket import TimerCounters, TimerTaskList
from timingwheel.delayqueue import DelayQueue
from timingwheel.rwlock import ReadWriteLock


def bucket(expiration_ms):
    """An empty bucket."""
    return TimerTaskList(ReadWriteLock(), TimerCounters(), 0, expiration_ms)


def test_empty():
    """Nothing is first of nothing."""
    queue = DelayQueue(ReadWriteLock(), TimerCounters())
    assert (queue.first(), len(queue), queue.snapshot()) == (None, 0, [])


def test_offer_tells_who_is_first():
    """Only a bucket that comes before all others is worth a wake-up."""
    queue = DelayQueue(ReadWriteLock(), TimerCounters())
    assert queue.offer(bucket(5))
    assert not queue.offer(bucket(7))
    assert not queue.offer(bucket(5))
    assert queue.offer(bucket(-3))


def test_remove_is_by_identity_and_repeatable():
    """Of two buckets with one expiration the given one goes; once gone it stays gone."""
    queue, a, b = DelayQueue(ReadWriteLock(), TimerCounters()), bucket(5), bucket(5)
    queue.offer(a)
    queue.offer(b)
    queue.remove(b)
    queue.remove(b)
    assert queue.snapshot() == [a]


@pytest.mark.parametrize("seed", range(3))
def test_random_actions(seed):
    """Seeded random offers and removes against a sorted list."""
    rng, queue, model = random.Random(seed), DelayQueue(ReadWriteLock(), TimerCounters()), []
    for _ in range(400):
        if model and rng.random() < 0.45:
            queue.remove(model.pop(rng.randrange(len(model))))
        else:
            model.append(bucket(rng.randrange(50)))
            queue.offer(model[-1])
        expected = sorted(b.expiration_ms for b in model)
        assert [b.expiration_ms for b in queue.snapshot()] == expected
        first = queue.first()
        assert (None if first is None else first.expiration_ms) == (
            expected[0] if expected else None
        )


class TornAt:
    """A sorted list whose next change is interrupted half way."""

    def __init__(self, inner):
        self.inner = inner

    def add(self, value):
        """Break after the work was half done."""
        self.inner._lists.append([value])
        raise KeyboardInterrupt

    def remove(self, value):
        """Break after the work was half done."""
        self.inner._lists.clear()
        raise KeyboardInterrupt


def test_a_torn_list_is_made_anew():
    """After an interrupt inside the sorted list, the next look finds the queue whole."""
    queue, a, b, c = DelayQueue(ReadWriteLock(), TimerCounters()), bucket(5), bucket(6), bucket(4)
    queue.offer(a)
    queue.offer(b)
    queue._buckets = TornAt(queue._buckets)
    with pytest.raises(KeyboardInterrupt):
        queue.offer(c)
    assert queue.snapshot() == [c, a, b]
    queue._buckets = TornAt(queue._buckets)
    with pytest.raises(KeyboardInterrupt):
        queue.remove(c)
    assert queue.first() is a
    assert queue.snapshot() == [a, b]
    assert "2 buckets" in repr(queue)
