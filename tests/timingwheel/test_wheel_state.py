"""Buckets: detaching, cascading and handing over in bounded portions."""

import pytest

from timingwheel import TimerError, TimerTask
from timingwheel.wheel_state import PORTION, Buckets


@pytest.fixture
def buckets():
    """Tick 1, size 20, clock at 0; checked at the end."""
    buckets = Buckets(1, 20, 0)
    yield buckets
    buckets._check()


def place(buckets, *deadlines):
    """Tasks with these deadlines."""
    tasks = [TimerTask(1, print) for _ in deadlines]
    for task, deadline in zip(tasks, deadlines, strict=True):
        buckets.place(task, deadline)
    return tasks


def handed(buckets):
    """Deadlines of what lies in the outbox, in order."""
    return [task.deadline_ms for bucket in buckets.outbox for task in bucket.tasks()]


def drain(buckets, now_ms):
    """Portion after portion; how many there were."""
    portions = 0
    while buckets.do_portion(now_ms):
        portions += 1
        buckets._check()
    return portions


def test_nothing_due(buckets):
    """Only the clock moves."""
    place(buckets, 5)
    assert not buckets.do_portion(4)
    assert buckets.wheel.now_ms == 4
    assert not buckets.outbox


def test_a_bucket_of_level_0_is_handed_over_whole(buckets):
    """However many tasks are in it, in one portion and without touching one."""
    place(buckets, *[7] * 1000)
    assert buckets.do_portion(7)
    assert [len(b) for b in buckets.outbox] == [1000]
    assert (buckets.tally.pending, buckets.tally.backlog) == (0, 1000)


def test_cascades_in_bounded_portions(buckets):
    """A big bucket of a higher level is moved some at a time; in between nothing is lost."""
    count = 8 * PORTION
    place(buckets, *[25] * count)
    portions = drain(buckets, 24)
    assert portions >= 8
    assert (buckets.tally.pending, buckets.cascades) == (count, 1)
    assert drain(buckets, 25) == 1
    assert handed(buckets) == [25] * count


def test_added_and_cancelled_between_portions(buckets):
    """While a bucket is half cascaded its tasks can be cancelled and new ones placed beside it."""
    tasks = place(buckets, *[30] * 3 * PORTION)
    assert buckets.do_portion(20)
    assert buckets.at_work()
    for task in tasks[::2]:
        assert task.cancel()
    place(buckets, 31, 22)
    buckets._check()
    drain(buckets, 31)
    assert handed(buckets) == [22, *[30] * (len(tasks) // 2), 31]


def test_in_order_of_due_tick(buckets):
    """After a long pause tasks of all levels come out by due time."""
    deadlines = [8001, 400, 3, 401, 20, 19, 7999, 399, 21, 8000, 1]
    place(buckets, *deadlines)
    drain(buckets, 10_000)
    assert handed(buckets) == sorted(deadlines)


def test_what_is_due_already_goes_straight_out(buckets):
    """A deadline that the wheel has passed is handed over at once, never put behind the clock."""
    buckets.do_portion(100)
    task = TimerTask(1, print)
    assert buckets.place(task, 100) is buckets.outbox[0]
    assert handed(buckets) == [100]


def test_emptied_buckets_are_dropped_unseen(buckets):
    """A bucket whose tasks were all cancelled neither comes due nor counts as next."""
    near, far = place(buckets, 3, 300)
    near.cancel()
    assert buckets.next_occupied().expiration_ms == 300
    assert len(buckets.queue) == 1
    far.cancel()
    assert not buckets.do_portion(1000)
    assert len(buckets.queue) == 0


def test_wake_is_owed_for_an_earlier_bucket_only(buckets):
    """By whoever makes the first bucket; not by who drains."""
    place(buckets, 500)
    assert buckets.wake_owed
    buckets.wake_owed = False
    place(buckets, 500, 501, 900)
    assert not buckets.wake_owed
    place(buckets, 30)
    assert buckets.wake_owed
    buckets.wake_owed = False
    drain(buckets, 480)
    assert not buckets.wake_owed


def test_a_task_of_another_timer_leaves_no_trace(buckets):
    """Neither here nor there, due already or not."""
    other = Buckets(1, 20, 0)
    (task,) = place(other, 5)
    buckets.do_portion(10)
    for deadline in (3, 50):
        with pytest.raises(TimerError, match="another timer"):
            buckets.place(task, deadline)
    assert not buckets.outbox
    assert (buckets.tally.pending, other.tally.pending) == (0, 1)


def test_cancel_some_empties_everything(buckets):
    """Portion after portion, the half cascaded bucket too, and one that was emptied meanwhile."""
    count = 2 * PORTION + 1
    tasks = place(buckets, *[30] * count, 1000, 5)
    drain(buckets, 5)
    assert buckets.do_portion(20)
    for task in tasks[:count]:
        task.cancel()
    assert buckets.at_work()
    cancelled = 0
    while some := buckets.cancel_some():
        cancelled += len(some)
    assert cancelled == 1
    assert not buckets._draining
    assert len(buckets.queue) == 0


def test_occupied(buckets):
    """A number a level; emptied buckets do not count."""
    tasks = place(buckets, 1, 1, 2, 25, 30, 500)
    assert buckets.occupied() == (2, 1, 1)
    tasks[-1].cancel()
    assert buckets.occupied() == (2, 1, 0)
