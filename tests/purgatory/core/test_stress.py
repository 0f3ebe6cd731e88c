"""Races, repeated many times: each operation ends exactly once."""

import collections
import random
import sys
import threading

import pytest

from purgatory import DelayedOperation, Outcome, Purgatory
from tests.testing.purgatory_harness import HANG, PurgatoryHarness, all_in_threads
from timingwheel import InlineExecutor, ManualClock, Timer
from timingwheel.lowlevel import LOCKED_SECTIONS


@pytest.fixture(autouse=True)
def _many_switches():
    """Switch threads often, or a batch would be over before the other side began."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.00005)
    yield
    sys.setswitchinterval(before)


class Counted(DelayedOperation):
    """Counts its callbacks."""

    __slots__ = ("ends", "ready")

    def __init__(self, timeout):
        super().__init__(timeout)
        self.ready = False
        self.ends = []

    def try_complete(self):
        return self.ready and self.force_complete()

    def on_complete(self):
        self.ends.append("complete")

    def on_expiration(self):
        self.ends.append("expiration")

    def on_cancel(self):
        self.ends.append("cancel")


ENDS = (["complete"], ["complete", "expiration"], ["cancel"])


@pytest.mark.parametrize("seed", [1, 2])
def test_all_at_once(seed):
    """Four threads submit, complete and cancel while the reaper expires."""
    count = 5000
    made = []
    futures = []
    completed = []
    cancelled = []

    def work(p, number):
        dice = random.Random(seed * 10 + number)
        mine, mine_futures = [], []
        for _ in range(count):
            act = dice.random()
            key = dice.randrange(40)
            if act < 0.35:
                op = Counted(dice.choice([0, 0.001, 0.002, 0.01, 30]))
                mine.append(op)
                op.ready = dice.random() < 0.1
                if p.try_complete_else_watch(op, [key, dice.randrange(40), -1 - number]):
                    completed.append(1)
            elif act < 0.55:
                keys = dice.sample(range(40), 3)
                mine_futures.append(
                    p.defer(*keys, timeout=dice.choice([0.001, 30]), need=dice.randint(1, 3))
                )
            elif act < 0.65 and mine:
                op = dice.choice(mine)
                op.ready = True
                completed.append(p.check_and_complete(key))
            elif act < 0.85:
                completed.append(p.complete(key))
            elif act < 0.9 and mine_futures:
                dice.choice(mine_futures).cancel()
            elif act < 0.95 and mine:
                dice.choice(mine).cancel()
            else:
                cancelled.append(len(p.cancel_for_key(key)))
        made.extend(mine)
        futures.extend(mine_futures)

    with Purgatory() as p:
        all_in_threads(*[lambda n=n: work(p, n) for n in range(4)])
        p._parts.lists._check()  # only the lists: the reaper may be in the middle of an expiry
    p._check()
    stats = p.stats()
    assert (stats.pending, stats.watch_entries, stats.watched_keys) == (0, 0, 0)
    assert all(op.ends in ENDS for op in made)
    assert all(future.done() for future in futures)
    assert stats.completed + stats.expired + stats.cancelled == len(made) + len(futures)
    ends = collections.Counter(len(op.ends) * 10 + (op.ends == ["cancel"]) for op in made)
    assert len(ends) == 3, "all three outcomes occur"
    assert sum(completed) <= stats.completed


def test_completion_races_expiry():
    """100,000 races of completion and expiry have one outcome each; both sides win some."""
    rounds, batch = 50, 2000
    clock = ManualClock()
    timer = Timer(clock=clock, executor=InlineExecutor())
    p = Purgatory(timer=timer)
    totals = collections.Counter()
    for number in range(rounds):
        ops = [Counted(1) for _ in range(batch)]
        for key, op in enumerate(ops):
            p.try_complete_else_watch(op, [key, -1])
            op.ready = True
        clock.advance(1)
        wins = []

        def complete(backwards=number % 2, wins=wins):
            keys = range(batch - 1, -1, -1) if backwards else range(batch)
            wins.extend(p.check_and_complete(key) for key in keys)

        all_in_threads(complete, timer.advance_clock)
        ends = collections.Counter(tuple(op.ends) for op in ops)
        assert set(ends) <= {("complete",), ("complete", "expiration")}, ends
        assert sum(wins) == ends["complete",]
        totals += ends
    assert sum(totals.values()) == 100_000
    assert len(totals) == 2, totals
    stats = p.stats()
    assert (stats.completed, stats.expired) == (
        totals["complete",],
        totals["complete", "expiration"],
    )
    assert (p.watched, p.delayed, len(timer)) == (0, 0, 0)
    p._check()


def test_complete_cancel_and_a_second_watcher_of_the_key():
    """Under two completers, a canceller and a submitter each operation ends once."""
    harness = PurgatoryHarness()
    p = harness.purgatory
    for _ in range(20):
        ops = [Counted(30) for _ in range(400)]
        late = [Counted(30) for _ in range(400)]
        for key, op in enumerate(ops):
            p.try_complete_else_watch(op, [key, key + 1000])
            op.ready = True
        wins = []

        def complete(offset, wins=wins):
            wins.extend(p.check_and_complete(key + offset) for key in range(400))

        def cancel(ops=ops):
            for op in reversed(ops):
                op.cancel()

        def submit(late=late):
            for key, op in enumerate(late):
                p.try_complete_else_watch(op, [key])

        all_in_threads(lambda c=complete: c(0), lambda c=complete: c(1000), cancel, submit)
        assert all(op.ends in (["complete"], ["cancel"]) for op in ops)
        assert sum(wins) == sum(op.ends == ["complete"] for op in ops)
        assert all(op.ends == [] for op in late)
        assert p.delayed == 400
        p._check()
        for key in range(400):
            assert p.cancel_for_key(key) == [late[key]]


@pytest.mark.parametrize("seed", range(6 if LOCKED_SECTIONS else 1))
@pytest.mark.parametrize("keys", [1, 3])
def test_operations_that_end_while_they_are_being_watched(keys, seed):
    """Each operation ends, by another thread, at about the time it is put on the lists.

    The other thread then knows no keys of it yet: the lists are left to the submission.
    """
    dice = random.Random(seed)
    p = PurgatoryHarness().purgatory
    ops = [Counted(30) for _ in range(20_000)]

    def submit():
        for n, op in enumerate(ops):
            p.try_complete_else_watch(op, range(n % 7, n % 7 + keys))

    def end():
        for op in ops:
            while op._op_owner is None:
                pass
            for _ in range(dice.randrange(50)):
                pass
            op.cancel()

    all_in_threads(submit, end)
    p._check()
    assert (p.watched, p.delayed, p.stats().cancelled) == (0, 0, len(ops))
    assert all(op.ends == ["cancel"] for op in ops)


def test_a_future_is_completed_once_by_many():
    """Four threads complete all keys of futures that need three of four: three count."""
    p = PurgatoryHarness().purgatory
    futures = [p.defer(*[(n, k) for k in range(4)], timeout=30, need=3) for n in range(2000)]
    wins = []

    def complete(k):
        wins.extend([p.complete((n, k), k) for n in range(2000)])

    all_in_threads(*[lambda k=k: complete(k) for k in range(4)])
    assert sum(wins) == 2000
    for n, future in enumerate(futures):
        result = future.result(0)
        assert len(result) == 3
        assert all(key == (n, value) for key, value in result.items())
    assert p.watched == 0


def test_all_waiting_threads_return():
    """Threads that wait for results return while others complete, cancel and close."""
    p = Purgatory()
    p.start()
    outcomes = []

    def wait(n):
        for i in range(50):
            future = p.defer((n, i), timeout=0.002 if i % 5 == 0 else 30)
            started.release()
            outcomes.append(type(future.exception(HANG)))

    started = threading.Semaphore(0)
    threads = [threading.Thread(target=wait, args=[n], daemon=True) for n in range(4)]
    for thread in threads:
        thread.start()
    turn = 0
    while any(thread.is_alive() for thread in threads):
        started.acquire(timeout=0.01)
        for n in range(4):
            for i in range(50):
                p.complete((n, i)) if turn % 2 else p.cancel_for_key((n, i))
        turn += 1
    p.close()
    assert len(outcomes) == 200
    assert p.stats().pending == 0
    assert sum(getattr(p.stats(), outcome) for outcome in Outcome) == 200
