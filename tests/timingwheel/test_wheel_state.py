"""WheelState: detaching, cascading and dispatching in bounded batches."""

import pytest

from timingwheel import TimerError, TimerTask
from timingwheel.stats import WheelLevel
from timingwheel.wheel import END_OF_TIME_NS
from timingwheel.wheel_state import DRAIN_BATCH, MAX_SEEN, WheelState


@pytest.fixture
def state():
    """A state with tick 1, size 20, clock at 0; checked at the end."""
    state = WheelState(1, 20, 0)
    yield state
    state._check()


def place(state, *deadlines):
    """Place a task for each deadline; return the tasks."""
    tasks = [TimerTask(1, print) for _ in deadlines]
    for task, deadline in zip(tasks, deadlines, strict=True):
        state.place(task, deadline)
    return tasks


def dispatched(state):
    """Return the deadlines in the dispatch queue, in order."""
    return [task.deadline_ns for bucket in state.dispatch_queue for task in bucket.tasks()]


def drain(state, now_ns):
    """Drain batch by batch; return how many there were."""
    batches = 0
    while state.drain_batch(now_ns):
        batches += 1
        state._check()
    return batches


def test_nothing_due(state):
    """Without a due bucket only the wheel's time moves."""
    place(state, 5)
    assert not state.drain_batch(4)
    assert state.wheel.now_ns == 4
    assert not state.dispatch_queue


def test_a_bucket_of_level_0_is_dispatched_whole(state):
    """A due bucket of level 0 is dispatched in one batch, however many tasks it has."""
    place(state, *[7] * 1000)
    assert state.drain_batch(7)
    assert [len(b) for b in state.dispatch_queue] == [1000]
    assert (state.counters.waiting, state.counters.backlog) == (0, 1000)


def test_cascades_in_bounded_batches(state):
    """A big bucket of a higher level cascades batch by batch, and loses no task."""
    count = 8 * DRAIN_BATCH
    place(state, *[25] * count)
    assert drain(state, 24) >= 8
    assert (state.counters.waiting, state.cascades) == (count, 1)
    assert drain(state, 25) == 1
    assert dispatched(state) == [25] * count


def test_added_and_cancelled_between_batches(state):
    """While a bucket is half cascaded, its tasks can be cancelled and others added."""
    tasks = place(state, *[30] * 3 * DRAIN_BATCH)
    assert state.drain_batch(20)
    assert state.has_undelivered()
    for task in tasks[::2]:
        assert task.cancel()
    place(state, 31, 22)
    state._check()
    drain(state, 31)
    assert dispatched(state) == [22, *[30] * (len(tasks) // 2), 31]


def test_in_order_of_due_tick(state):
    """After a long pause, tasks of all levels are dispatched by due time."""
    deadlines = [8001, 400, 3, 401, 20, 19, 7999, 399, 21, 8000, 1]
    place(state, *deadlines)
    drain(state, 10_000)
    assert dispatched(state) == sorted(deadlines)


def test_what_is_due_already_goes_straight_out(state):
    """A task that is due already is dispatched at once, and put in no slot."""
    state.drain_batch(100)
    task = TimerTask(1, print)
    assert state.place(task, 100) is state.dispatch_queue[0]
    assert dispatched(state) == [100]


def test_emptied_buckets_are_dropped_unseen(state):
    """A bucket without tasks neither comes due nor counts as the next."""
    near, far = place(state, 3, 300)
    near.cancel()
    assert state.next_occupied().expiration_ns == 300
    assert len(state.queue) == 1
    far.cancel()
    assert not state.drain_batch(1000)
    assert len(state.queue) == 0


def test_wake_is_owed_for_an_earlier_bucket_only(state):
    """A new first bucket needs a wake-up; the thread that drains needs none."""
    place(state, 500)
    assert state.queue.wake_owed
    state.queue.wake_owed = False
    place(state, 500, 501, 900)
    assert not state.queue.wake_owed
    place(state, 30)
    assert state.queue.wake_owed
    state.queue.wake_owed = False
    drain(state, 480)
    assert not state.queue.wake_owed


def test_a_task_of_another_timer_leaves_no_trace(state):
    """A task that is pending elsewhere is refused, and no counter changes."""
    other = WheelState(1, 20, 0)
    (task,) = place(other, 5)
    state.drain_batch(10)
    for deadline in (3, 50):
        with pytest.raises(TimerError, match="another timer"):
            state.place(task, deadline)
    with pytest.raises(TimerError, match="another timer"):
        state.place_due(task, 3, 3)
    assert not state.dispatch_queue
    assert (state.counters.waiting, other.counters.waiting) == (0, 1)


def test_cancel_some_empties_everything(state):
    """cancel_some empties all buckets, the half cascaded one and an empty one too."""
    count = 2 * DRAIN_BATCH + 1
    tasks = place(state, *[30] * count, 1000, 5)
    drain(state, 5)
    assert state.drain_batch(20)
    for task in tasks[:count]:
        task.cancel()
    assert state.has_undelivered()
    cancelled = 0
    while some := state.cancel_some():
        cancelled += len(some)
    assert cancelled == 1
    assert not state._draining
    assert len(state.queue) == 0


def test_occupied(state):
    """occupied() counts the buckets of each level; empty ones do not count."""
    tasks = place(state, 1, 1, 2, 25, 30, 500)
    assert state.occupied() == (2, 1, 1)
    tasks[-1].cancel()
    assert state.occupied() == (2, 1, 0)


def test_a_task_is_rescheduled_in_place_within_the_tick_of_its_bucket():
    """From a tick before the bucket on it moves, to be in time; with a later deadline it stays."""
    state = WheelState(10, 20, 0)
    [task] = place(state, 50)
    bucket = task._tt_list
    for deadline_ns, stays in ((51, True), (41, True), (40, False)):
        assert state.try_reschedule_in_place(task, deadline_ns) is stays
        assert (task.deadline_ns == deadline_ns) is stays
    state.place(task, 40)
    assert task._tt_list is not bucket
    state._check()
    assert drain(state, 40)
    assert dispatched(state) == [40]


@pytest.mark.parametrize(
    ("now_ns", "placed", "deadline_ns", "fits"),
    [
        (0, 50, 41, True),
        (0, 50, 50, True),
        (0, 50, 51, False),  # no bucket in that slot
        (0, 190, 200, False),  # the first time beyond level 0, and no level above
        (0, 250, 200, True),
        (0, 250, 390, True),  # level 1: one bucket for 200 to 399
        (0, 250, 400, False),
        (0, 5000, 4390, True),  # level 2
        (60, 70, 60, False),  # due already
    ],
)
def test_a_bucket_that_exists_is_the_fast_way(now_ns, placed, deadline_ns, fits):
    """A task that is pending nowhere goes into the bucket of its due time, if that exists."""
    state = WheelState(10, 20, 0)
    state.drain_batch(now_ns)
    [other] = place(state, placed)
    task = TimerTask(1, print)
    assert state.try_place_fast(task, deadline_ns) is fits
    assert (task._tt_list is other._tt_list, task.deadline_ns == deadline_ns) == (fits, fits)
    assert state.try_place_fast(other, placed) is False
    assert state.counters.waiting == 1 + fits
    state._check()


def test_a_full_bucket_is_no_fast_way(state):
    """A bucket without a free slot makes room, which the fast way does not."""
    place(state, 5)
    tasks = []
    while state.try_place_fast(task := TimerTask(1, print), 5):
        tasks.append(task)
    assert len(tasks) == 15
    assert task._tt_list is None


def test_the_next_due_time(state):
    """It is that of the first bucket, also while its tasks cascade; END_OF_TIME_NS without one."""
    assert state.next_due_ns() == END_OF_TIME_NS
    place(state, *[30] * (DRAIN_BATCH + 1))
    assert state.next_due_ns() == 20
    state.drain_batch(20)
    assert state.has_undelivered()
    assert state.next_due_ns() == 20
    drain(state, 20)
    assert state.next_due_ns() == 30


@pytest.mark.parametrize(("deadline_ns", "cascades"), [(41, 0), (50, 0), (51, 1)])
def test_a_later_deadline_counts_when_the_bucket_comes(deadline_ns, cascades):
    """A bucket cascades if a task in it is due later than the bucket; else it is dispatched."""
    state = WheelState(10, 20, 0)
    tasks = place(state, 50, 50)
    state.place(tasks[0], deadline_ns)
    drain(state, 50)
    assert state.cascades == cascades
    assert dispatched(state) == ([50] if cascades else [deadline_ns, 50])
    drain(state, 60)
    assert sorted(dispatched(state)) == sorted([deadline_ns, 50])


def test_a_batch_dispatches_so_many_buckets():
    """The lock is free again after DRAIN_BATCH buckets, however many are due."""
    state = WheelState(1, 2 * DRAIN_BATCH, 0)
    place(state, *range(1, DRAIN_BATCH + 10))
    assert state.drain_batch(DRAIN_BATCH + 9)
    assert len(state.dispatch_queue) == DRAIN_BATCH
    assert drain(state, DRAIN_BATCH + 9) == 1
    assert len(state.dispatch_queue) == DRAIN_BATCH + 9


def test_a_bucket_that_cascades_costs_one_more_than_its_tasks():
    """A batch counts both: one task costs 2 as it cascades, then 1 as it is dispatched."""
    state = WheelState(1, 2 * DRAIN_BATCH, 0)
    ends = [turn * 2 * DRAIN_BATCH for turn in range(1, DRAIN_BATCH)]
    place(state, *ends)
    assert state.drain_batch(ends[-1])
    assert len(state.dispatch_queue) == DRAIN_BATCH // 3


def test_levels_show_each_slot():
    """levels() counts the tasks of each slot, and tells where the clock's hand is."""
    state = WheelState(10, 3, 0)
    place(state, 10, 20, 20, 40, 71)
    assert state.levels(25) == (
        WheelLevel(tick_ns=10, slots=(0, 1, 2), hand=2),
        WheelLevel(tick_ns=30, slots=(0, 1, 1), hand=0),
    )
    assert state.levels(65)[1].hand == 2


@pytest.mark.parametrize("limit", range(7))
@pytest.mark.parametrize("moved", [None, 75, 95, 500])
def test_the_first_tasks_are_in_order_of_deadline(limit, moved):
    """Also with a task whose deadline lies beyond its bucket."""
    state = WheelState(10, 20, 0)
    tasks = place(state, 45, 65, 62, 91, 300, 210)
    if moved:
        state.place(tasks[0], moved)
    first = [task.deadline_ns for task in state.first_tasks(limit)]
    assert first == sorted(task.deadline_ns for task in tasks)[:limit]


def test_the_first_tasks_are_few(state):
    """first_tasks() looks at MAX_SEEN tasks, of all buckets together."""
    place(state, *[1] * (MAX_SEEN // 2), *[2] * MAX_SEEN, 3)
    first = [task.deadline_ns for task in state.first_tasks(3 * MAX_SEEN)]
    assert first == [1] * (MAX_SEEN // 2) + [2] * (MAX_SEEN // 2)


def test_the_check_finds_a_lost_place():
    """_check() fails for a bucket in another slot, and for a task that is due after its bucket."""
    state = WheelState(1, 20, 0)
    [task] = place(state, 5)
    slots = state.wheel.slots
    slots[5], slots[6] = None, slots[5]
    with pytest.raises(AssertionError):
        state._check()
    slots[5], slots[6] = slots[6], None
    state._check()
    task.deadline_ns = 9
    with pytest.raises(AssertionError):
        state._check()
