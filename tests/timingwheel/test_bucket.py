"""TimerTaskList, the bucket: O(1) add, cancel and take, and its counts."""

import contextlib
import random

import pytest

from timingwheel import COMPILED, TimerTask
from timingwheel.bucket import GROWTH_LIMIT, MIN_CAPACITY, TimerCounters, TimerTaskList
from timingwheel.rwlock import ReadWriteLock
from timingwheel.task import CANCELLED, TAKEN


class BucketMaker:
    """Makes buckets of one timer: they share a lock and counters."""

    def __init__(self):
        self.lock, self.counters = ReadWriteLock(), TimerCounters()

    def bucket(self):
        """Return an empty bucket of level 0, due at 10."""
        return TimerTaskList(self.lock, self.counters, 0, 10)


@pytest.fixture
def make():
    """A maker of buckets that belong together."""
    return BucketMaker()


def tasks(count):
    """Return new tasks."""
    return [TimerTask(1, print) for _ in range(count)]


def content(bucket):
    """Return the tasks of a bucket, in order, after checking it."""
    bucket._check()
    return bucket.tasks()


def test_add_and_move_between_lists(make):
    """Kafka's TimerTaskListTest: counts follow tasks from list to list, the total stays."""
    lists = [make.bucket() for _ in range(3)]
    all_tasks = tasks(10)
    for count, task in enumerate(all_tasks, 1):
        lists[0].add(task)
        assert make.counters.waiting == count
    for target, group in ((lists[1], all_tasks[:4]), (lists[2], all_tasks[4:])):
        for task in group:
            lists[0].move(task, target)
            assert make.counters.waiting == 10
    assert [len(b) for b in lists] == [0, 4, 6]
    for bucket in lists:
        for task in list(content(bucket)):
            assert bucket.cancel(task)
        assert len(bucket) == 0
    assert (make.counters.waiting, make.counters.cancelled) == (0, 10)


def test_the_next_tasks_are_those_of_the_next_slots(make):
    """some_tasks() begins at the head, and looks at no more slots than it is told."""
    bucket, all_tasks = make.bucket(), tasks(6)
    for task in all_tasks:
        bucket.add(task)
    assert [bucket.some_tasks(limit) for limit in range(8)] == [
        all_tasks[:limit] for limit in range(8)
    ]
    bucket.move(all_tasks[0], make.bucket())
    assert bucket.cancel(all_tasks[2])
    for limit in range(8):
        slots = all_tasks[1 : 1 + limit] if bucket._head else all_tasks[:limit]
        gone = (all_tasks[0], all_tasks[2])
        assert bucket.some_tasks(limit) == [task for task in slots if task not in gone]


def test_cancel_is_only_for_what_is_here(make):
    """A bucket cancels no task that another bucket holds, or none."""
    one, other = make.bucket(), make.bucket()
    task = TimerTask(1, print)
    assert not one.cancel(task)
    other.add(task)
    assert not one.cancel(task)
    assert other.cancel(task)
    assert task.cancelled()
    assert len(other) == 0


def test_take_goes_in_order_and_releases(make):
    """Tasks are taken in order of arrival, and the bucket drops its reference at once."""
    bucket, (a, b, c) = make.bucket(), tasks(3)
    for task in (a, b, c):
        bucket.add(task)
    bucket.mark_dispatched()
    assert (make.counters.waiting, make.counters.backlog) == (0, 3)
    assert [bucket.take(), bucket.take()] == [a, b]
    assert a._tt_index == TAKEN
    assert a not in bucket.tasks()
    assert b.cancel() is False
    assert c.cancel() is True
    assert bucket.take() is None
    assert (make.counters.fired, make.counters.backlog, make.counters.cancelled) == (2, 0, 1)


@pytest.mark.parametrize("gone", range(2**4))
def test_take_passes_over_cancelled_tasks(make, gone):
    """Wherever they were, and however many in a row."""
    bucket, many = make.bucket(), tasks(4)
    for task in many:
        bucket.add(task)
    left = [task for n, task in enumerate(many) if not (gone >> n & 1 and bucket.cancel(task))]
    bucket.mark_dispatched()
    assert [bucket.take() for _ in range(5)] == left + [None] * (5 - len(left))


def test_mark_dispatched_is_idempotent(make):
    """Tasks are counted as dispatched once, however often they are marked."""
    bucket = make.bucket()
    for task in tasks(3):
        bucket.add(task)
    bucket.mark_dispatched()
    bucket.mark_dispatched()
    assert (make.counters.waiting, make.counters.backlog) == (0, 3)


def test_cancel_some(make):
    """The remaining tasks are cancelled batch by batch until none is left."""
    bucket = make.bucket()
    all_tasks = tasks(5)
    for task in all_tasks:
        bucket.add(task)
    bucket.mark_dispatched()
    bucket.take()
    assert bucket.cancel_some(3) == all_tasks[1:4]
    assert bucket.cancel_some(3) == [all_tasks[4]]
    assert bucket.cancel_some(3) == []
    assert all(task._tt_index == CANCELLED for task in all_tasks[1:])


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
@pytest.mark.parametrize(("failing", "is_done"), [(0, False), (0, True), (2, False), (2, True)])
def test_cancel_some_without_memory(make, monkeypatch, failing, is_done):
    """Returns exactly the tasks that were cancelled; raises if none was."""
    bucket, all_tasks, cancel = make.bucket(), tasks(5), TimerTaskList._cancel

    def short_of_memory(bucket, task):
        if task is not all_tasks[failing] or is_done:
            cancel(bucket, task)
        if task is all_tasks[failing]:
            raise MemoryError

    for task in all_tasks:
        bucket.add(task)
    monkeypatch.setattr(TimerTaskList, "_cancel", short_of_memory)
    cancelled = failing + is_done
    with contextlib.nullcontext() if cancelled else pytest.raises(MemoryError):
        assert bucket.cancel_some(4) == all_tasks[:cancelled]
    assert content(bucket) == all_tasks[cancelled:]


@pytest.mark.parametrize(
    ("dispatched", "waiting", "backlog"),
    [("", 2, 0), ("source", 1, 1), ("target", 1, 1), ("both", 0, 2)],
)
def test_move(make, dispatched, waiting, backlog):
    """Cascading moves the first task; it counts as the tasks of its new bucket do."""
    source, target = make.bucket(), make.bucket()
    a, b = tasks(2)
    source.add(a)
    source.add(b)
    for name, bucket in (("source", source), ("target", target)):
        if dispatched in (name, "both"):
            bucket.mark_dispatched()
    source.move(source.first(), target)
    assert (content(source), content(target)) == ([b], [a])
    assert (make.counters.waiting, make.counters.backlog) == (waiting, backlog)


def test_tasks_are_refused_once(make):
    """To the first of the threads that an executor refused."""
    bucket, many = make.bucket(), tasks(3)
    for task in many:
        bucket.add(task)
    assert [bucket.refuse(), bucket.refuse()] == [many, []]


@pytest.mark.parametrize("count", [0, 1, MIN_CAPACITY - 1, MIN_CAPACITY, MIN_CAPACITY + 1])
def test_nothing_is_left_to_take(make, count):
    """After the last task, also where it fills the last slot."""
    bucket, many = make.bucket(), tasks(count)
    for task in many:
        bucket.add(task)
    bucket.mark_dispatched()
    assert [bucket.take() for _ in many] == many
    for _ in range(2):
        assert bucket.take() is None
        assert content(bucket) == []
    bucket.add(late := TimerTask(1, print))
    assert bucket.take() is late


def test_belongs_to(make):
    """A bucket belongs to the timer that owns its lock."""
    assert make.bucket().belongs_to(make.lock)
    assert not make.bucket().belongs_to(ReadWriteLock())


def test_a_task_put_back_by_an_interrupt_is_taken_again(make):
    """A task put back comes next; one that was added again meanwhile stays where it is."""
    bucket, other, (a, b) = make.bucket(), make.bucket(), tasks(2)
    bucket.add(a)
    bucket.add(b)
    bucket.mark_dispatched()
    bucket._put_back(bucket.take())
    assert content(bucket) == [a, b]
    taken = bucket.take()
    other.add(taken)
    bucket._put_back(taken)
    assert (content(bucket), content(other)) == ([b], [a])
    assert (make.counters.fired, make.counters.backlog) == (1, 1)


class Nested:
    """An object with a finalizer that adds a task to a bucket."""

    def __init__(self, bucket, task):
        self.bucket, self.task = bucket, task

    def __del__(self):
        self.bucket.add(self.task)


def test_added_to_from_a_finalizer_meanwhile(make):
    """A finalizer that runs during a cancel may add to the same bucket."""
    bucket, (a, b, c) = make.bucket(), tasks(3)
    for task in (a, b):
        bucket.add(task)
    nested = TimerTask(1, print, Nested(bucket, c))
    bucket.add(nested)
    bucket.cancel(nested)
    del nested
    assert content(bucket) == [a, b, c]


@pytest.mark.parametrize("seed", range(5))
def test_random_actions(make, seed):
    """After seeded random adds, cancels and moves, buckets hold what plain sets hold."""
    rng = random.Random(seed)
    buckets = [make.bucket() for _ in range(3)]
    model = [set() for _ in buckets]
    for _ in range(600):
        i, j = rng.randrange(3), rng.randrange(3)
        bucket, inside = buckets[i], model[i]
        action = rng.random()
        if action < 0.5:
            task = TimerTask(1, print)
            bucket.add(task)
            inside.add(task)
        elif inside and action < 0.7:
            task = rng.choice(content(bucket))
            assert bucket.cancel(task)
            inside.discard(task)
        elif inside and i != j and action < 0.9:
            task = bucket.first()
            bucket.move(task, buckets[j])
            inside.discard(task)
            model[j].add(task)
        assert set(content(bucket)) == inside
        assert make.counters.waiting == sum(map(len, model))


class TestSlots:
    """The array of a bucket grows, is compacted, and is freed."""

    @pytest.mark.parametrize("seed", range(3))
    def test_compaction_bounds_the_capacity(self, make, seed):
        """Under long churn the capacity stays near the count, and the order of arrival is kept."""
        rng = random.Random(seed)
        bucket, alive = make.bucket(), {}
        most = 0
        for _ in range(60_000):
            task = TimerTask(1, print)
            bucket.add(task)
            alive[task] = None
            most = max(most, bucket._capacity)
            while len(alive) > 3000 and rng.random() < 0.9:
                # Mostly young tasks, as operations that complete soon; some stay long.
                doomed = next(iter(alive)) if rng.random() < 0.1 else next(reversed(alive))
                assert bucket.cancel(doomed)
                del alive[doomed]
        assert content(bucket) == list(alive)
        assert most < 2 * 3000 + 4 * GROWTH_LIMIT

    def test_takes_during_a_compaction_pass(self, make):
        """Takes and put-backs during a compaction pass neither lose nor double a task."""
        bucket, alive = make.bucket(), tasks(40_000)
        for task in alive:
            bucket.add(task)
        for number, task in enumerate(alive):
            if number % 5:
                bucket.cancel(task)
        del alive[1::5], alive[1::4], alive[1::3], alive[1::2]
        while not bucket._compact_read:
            bucket.add(late := TimerTask(1, print))
            alive.append(late)
        assert bucket._compact_read < bucket._end, "no pass is under way"
        bucket.mark_dispatched()
        taken = [bucket.take() for _ in range(500)]
        bucket._put_back(taken.pop())
        assert content(bucket) == alive[499:]
        for _ in range(GROWTH_LIMIT):
            bucket.add(late := TimerTask(1, print))
            alive.append(late)
        assert content(bucket) == alive[499:]
        assert taken == alive[:499]

    def test_memory_of_what_was_cancelled(self, make):
        """A bucket frees its slots when its last task is cancelled, and can be filled again."""
        bucket, many = make.bucket(), tasks(10_000)
        for task in many:
            bucket.add(task)
        assert bucket._capacity >= 10_000
        for task in many:
            bucket.cancel(task)
        assert bucket._capacity < 100
        for task in many:
            bucket.add(task)
        assert content(bucket) == many

    def test_put_back_where_nothing_is_left(self, make):
        """A task put back into a bucket that was emptied meanwhile is taken again."""
        bucket, many = make.bucket(), tasks(1000)
        for task in many:
            bucket.add(task)
        bucket.mark_dispatched()
        taken = bucket.take()
        assert len(bucket.cancel_some(1000)) == 999
        bucket._put_back(taken)
        assert content(bucket) == [taken]
        assert (make.counters.backlog, make.counters.fired) == (1, 0)
        assert bucket.take() is taken

    def test_moves_into_a_full_bucket(self, make):
        """A full target grows while tasks cascade into it."""
        source, target, many = make.bucket(), make.bucket(), tasks(1000)
        for task in many:
            source.add(task)
        for task in many[::2]:
            source.cancel(task)
        while len(source):
            source.move(source.first(), target)
        assert content(target) == many[1::2]
