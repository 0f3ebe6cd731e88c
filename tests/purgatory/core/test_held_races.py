"""Races of submissions with events that are held, limited or replaced: each counts exactly."""

import collections
import os
import random
import sys

import pytest

from purgatory import KeyedOperation, Purgatory
from tests.testing.purgatory_harness import PurgatoryHarness, all_in_threads

ROUNDS = 3000 if os.environ.get("RACES_ALL") else 400
BATCH = 5


@pytest.fixture(autouse=True)
def _many_switches():
    """Switch threads often, or one side would be over before the other began."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.00002)
    yield
    sys.setswitchinterval(before)


def test_no_event_is_lost_and_none_counts_twice():
    """Each of many keys is completed once, held for one; of two that submit, one gets it."""
    p = PurgatoryHarness(max_held=10**6).purgatory
    futures = [[None] * ROUNDS * BATCH for _ in range(2)]
    order = list(range(ROUNDS * BATCH))
    random.Random(5).shuffle(order)

    def submit(number):
        for key in range(ROUNDS * BATCH):
            futures[number][key] = p.defer(key, timeout=900)

    def complete():
        for key in order:
            p.complete(key, key, limit=1, hold=900)

    all_in_threads(lambda: submit(0), lambda: submit(1), complete)
    for key, pair in enumerate(zip(*futures, strict=True)):
        assert sorted(future.done() for future in pair) == [False, True], key
        assert [future.result(0) for future in pair if future.done()] == [key]
    assert p.stats().held == 0
    p._check()


def test_operations_that_give_their_unit_back():
    """A unit that met an operation which was just cancelled reaches the next one."""
    p = PurgatoryHarness(max_held=10**6).purgatory
    count = ROUNDS * 2
    ops = [KeyedOperation(900) for _ in range(count)]
    rivals, cancelled = [None] * count, [False] * count

    def submit():
        for key in range(count):
            p.try_complete_else_watch(ops[key], [key])

    def rival():
        for key in range(count):
            rivals[key] = p.defer(key, timeout=900)

    def cancel():
        for key in range(count):
            cancelled[key] = ops[key].cancel()

    def complete():
        for key in range(count):
            p.complete(key, limit=1, hold=900)

    all_in_threads(submit, rival, cancel, complete)
    for key in range(count):
        assert ops[key].completed + rivals[key].done() == 1, key
        assert not (cancelled[key] and ops[key].completed), key
    assert p.stats().held == 0
    p._check()


def test_all_at_once():
    """Threads submit, hold, replace, fail and extend few keys while the reaper expires."""
    made = []

    def work(p, number):
        dice = random.Random(number)
        mine = []
        for _ in range(ROUNDS * 5):
            key, act = dice.randrange(5), dice.random()
            if act < 0.4:
                keys = dice.sample(range(5), 2)
                mine.append(
                    p.defer(*keys, timeout=dice.choice([0.001, 5]), need=dice.choice([1, 2]))
                )
            elif act < 0.6:
                p.complete(key, limit=dice.choice([None, 1, 2]), hold=dice.choice([0.0, 0.001, 5]))
            elif act < 0.7:
                p.complete(key)
            elif act < 0.75:
                p.fail(key, OSError)
            elif act < 0.8 and mine:
                dice.choice(mine).cancel()
            elif mine:
                mine[-1].extend(dice.choice([0, 0.001, 5]))
        made.extend(mine)

    with Purgatory(max_held=10) as p:
        all_in_threads(*[lambda n=n: work(p, n) for n in range(4)])
        p._parts.lists._check()
    p._check()
    stats = p.stats()
    assert (stats.pending, stats.watched_keys, stats.held, len(p.timer)) == (0, 0, 0, 0)
    assert all(future.done() for future in made)
    ended = stats.completed + stats.failed + stats.expired + stats.cancelled
    assert ended == len(made)


RACES = 100_000 if os.environ.get("RACES_ALL") else 3000


class Counted(KeyedOperation):
    """Counts its callbacks."""

    def __init__(self, timeout):
        super().__init__(timeout)
        self.ends = []

    def on_complete(self):
        self.ends.append("complete")

    def on_expiration(self):
        self.ends.append("expiration")

    def on_cancel(self):
        self.ends.append("cancel")


ENDS = {
    "expire": ("complete", "expiration"),
    "complete": ("complete",),
    "cancel": ("cancel",),
}


@pytest.mark.parametrize("rival", ENDS)
def test_extend_races(rival):
    """One side extends, the other ends: what was extended in time waits on, else it has ended."""
    harness = PurgatoryHarness()
    p, clock, timer = harness.purgatory, harness.clock, harness.timer
    totals = collections.Counter()
    batch = 1000
    for number in range(RACES // batch):
        ops = [Counted(1) for _ in range(batch)]
        for key, op in enumerate(ops):
            p.try_complete_else_watch(op, [key])
        clock.advance(1)
        extended, ended = [], []

        def extend(backwards=number % 2, ops=ops, extended=extended):
            extended.extend(p.extend(op, 5) for op in (reversed(ops) if backwards else ops))
            if backwards:
                extended.reverse()

        def end(ops=ops, ended=ended):
            if rival == "expire":
                timer.advance_clock()
            elif rival == "complete":
                ended.extend(p.complete(key) for key in range(batch))
            else:
                ended.extend(op.cancel() for op in ops)

        all_in_threads(extend, end)
        if rival == "expire":
            assert [op.done() for op in ops] == [not was for was in extended]
        else:
            assert all(ended)
        assert all(tuple(op.ends) == (ENDS[rival] if op.done() else ()) for op in ops)
        assert p.delayed == len(timer) == sum(not op.done() for op in ops)
        totals += collections.Counter(extended)
        clock.advance(5)
        timer.advance_clock()
        assert p.delayed == len(timer) == 0
        assert all(tuple(op.ends) in (ENDS[rival], ENDS["expire"]) for op in ops)
        p._check()
    assert sum(totals.values()) == RACES
