"""KeyboardInterrupts by a timer's signals, at random times: each operation ends once.

In compiled code too, which is interrupted where it calls interpreted functions, and in system
calls. `PURGATORY_INTERRUPTS` is how many.
"""

import os
import random
from queue import SimpleQueue

import pytest

from purgatory import OperationExpired, Purgatory
from tests.testing.leaks import HANG_TIMEOUT_S
from tests.testing.mq_interrupts import TimerInterrupter
from tests.testing.purgatory_harness import PurgatoryHarness

INTERRUPTS = int(os.environ.get("PURGATORY_INTERRUPTS", "300"))
WAITS = 25
KEYS = 6


class QueueJournal:
    """A journal whose method is a function in C: `put(operation, outcome)`."""

    def __init__(self):
        self.queue = SimpleQueue()
        self.ended = self.queue.put


class Play:
    """A purgatory, and calls in a random order; a call that was interrupted may have been done.

    Journal and callbacks of the futures are functions in C, which cannot be interrupted in the
    middle.
    """

    def __init__(self, choice):
        self.choice = choice
        self.journal = QueueJournal()
        self.harness = PurgatoryHarness(wheel_size=4, journal=self.journal)
        self.purgatory = self.harness.purgatory
        self.futures = []
        self.told = []
        self.events = []  # each for one operation
        self.untold = set()  # futures whose callback may not have been registered

    def call(self):
        """Make the calls, in turn."""
        calls = [
            *(self.complete, self.fail, self.hold, self.complete_later, self.resolve_by_hand),
            *(self.cancel, self.cancel_for_key, self.extend, self.advance, self.advance, list),
        ]
        for _ in range(WAITS):
            self.submit()
            self.choice.choice(calls)()

    def submit(self):
        """Submit an operation for some keys."""
        keys = self.choice.sample(range(KEYS), self.choice.randrange(1, 4))
        need = self.choice.randrange(1, len(keys) + 1)
        future = self.purgatory.defer(*keys, timeout=self.choice.random() / 20, need=need)
        self.untold.add(id(future))
        self.futures.append(future)
        future.add_done_callback(self.told.append)
        self.untold.discard(id(future))

    def complete(self):
        """Complete a key."""
        self.purgatory.complete(self.choice.randrange(KEYS), "value")

    def complete_later(self):
        """Post the completion of a key, and have it done."""
        self.purgatory.complete_later(self.choice.randrange(KEYS), "value")
        self.purgatory.step()

    def hold(self):
        """Complete a key for one operation, now or later."""
        event = object()
        self.events.append(event)
        self.purgatory.complete(self.choice.randrange(KEYS), event, limit=1, hold=0.02)

    def fail(self):
        """Fail a key."""
        self.purgatory.fail(self.choice.randrange(KEYS), OSError)

    def resolve_by_hand(self):
        """Set the result of one of the futures, unless it is done."""
        future = self.choice.choice(self.futures)
        if not future.done():
            future.set_result("by hand")

    def extend(self):
        """Extend one of the futures."""
        self.choice.choice(self.futures).extend(self.choice.random() / 20)

    def cancel(self):
        """Cancel one of the futures."""
        self.choice.choice(self.futures).cancel()

    def cancel_for_key(self):
        """Cancel what waits for a key."""
        self.purgatory.cancel_for_key(self.choice.randrange(KEYS))

    def advance(self):
        """Let some expire."""
        self.harness.clock.advance(self.choice.random() / 100)
        self.harness.timer.advance_clock()

    def check(self):
        """Let the rest expire; assert that each operation ended once, and told of it once."""
        purgatory, timer = self.purgatory, self.harness.timer
        timer.advance_clock()  # an interrupted drain goes on
        purgatory._check()
        purgatory.step()  # what an interrupted step has left
        waiting = purgatory.delayed + purgatory.stats().held
        assert waiting == len(timer), "on the lists or held is in the wheel"
        self.harness.clock.advance(1)
        timer.advance_clock()
        purgatory._check()
        stats = purgatory.stats()
        assert (stats.pending, stats.watch_entries, len(timer)) == (0, 0, 0)
        ended = stats.completed + stats.failed + stats.expired + stats.cancelled
        assert len(self.futures) <= ended <= len(self.futures) + 1
        assert all(future.done() for future in self.futures)
        assert not self.harness.errors
        journaled = [self.journal.queue.get(block=False) for _ in range(ended)]
        assert self.journal.queue.empty(), "written down twice"
        assert len(set(map(id, journaled))) == ended, "not written down"
        told = [id(future) for future in self.told]
        assert len(set(told)) == len(told), "told twice"
        assert {id(future) for future in self.futures} - set(told) <= self.untold, "not told"
        counted = [id(value) for future in self.futures for value in values_of(future)]
        assert all(counted.count(id(event)) <= 1 for event in self.events), "an event counted twice"


def values_of(future):
    """Return the values of the keys that completed a future."""
    if future.cancelled() or future.exception() is not None:
        return []
    result = future.result()
    return result.values() if isinstance(result, dict) else [result]


@pytest.mark.timeout(60 + INTERRUPTS // 20)
def test_interrupts_at_random_times():
    """Whatever the call was in the middle of, the next calls find a purgatory that is in order."""
    choice = random.Random(0)
    interrupts = plays = 0
    with TimerInterrupter(0) as interrupter:
        while interrupts < INTERRUPTS:
            play = Play(choice)
            interrupts += interrupter.run(play.call)
            interrupter.check(play)
            plays += 1
    assert plays < 20 * INTERRUPTS


class ThreadedPlay:
    """A purgatory with its threads, started, waited for and closed in the main thread."""

    def __init__(self):
        self.purgatory = Purgatory()
        self.futures = []

    def call(self):
        """Start it, wait for a completion and an expiry, and close it."""
        purgatory = self.purgatory
        purgatory.start()
        self.futures.append(purgatory.defer("key", timeout=HANG_TIMEOUT_S))
        purgatory.complete_later("key", "value")
        assert self.futures[0].result(HANG_TIMEOUT_S) == "value"
        self.futures.append(purgatory.defer("other", timeout=0.001))
        assert isinstance(self.futures[1].exception(HANG_TIMEOUT_S), OperationExpired)
        purgatory.close()

    def check(self):
        """Close it: all that was accepted has ended, and so have the threads."""
        self.purgatory.close()
        assert all(future.done() for future in self.futures)
        assert not self.purgatory._loop_runs()


@pytest.mark.timeout(60 + INTERRUPTS // 20)
def test_interrupts_of_calls_that_wait():
    """KeyboardInterrupt comes out as it is, also of a start of a thread; nothing waits for ever."""
    interrupts = 0
    with TimerInterrupter(1) as interrupter:
        while interrupts < INTERRUPTS // 10:
            play = ThreadedPlay()
            interrupts += interrupter.run(play.call)
            interrupter.check(play)
