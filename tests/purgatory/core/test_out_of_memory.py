"""A purgatory whose allocations fail, one after the other: each operation ends exactly once."""

from functools import partial

import pytest

from purgatory import DelayedOperation, KeyedOperation, Purgatory
from tests.testing.out_of_memory import Scene, play_in_process
from timingwheel import InlineExecutor, ManualClock, Timer

HANG_S = 60
COUNT = 200
TIMEOUT_MS = 5000


def keys_of(n):
    """Some watch a key that others watch as well, some several keys."""
    return (f"own {n}", f"shared {n % 5}") if n % 3 else (f"own {n}",)


def timeout_s(n):
    return (n * 37 % TIMEOUT_MS + 1) / 1000


class Counting(KeyedOperation):
    """Counts how often each callback was called."""

    def __init__(self, timeout):
        super().__init__(timeout)
        self.completions = self.expirations = self.cancellations = 0

    def on_complete(self):
        self.completions += 1

    def on_expiration(self):
        self.expirations += 1

    def on_cancel(self):
        self.cancellations += 1

    def check_end(self):
        assert self.done()
        expired = self.done() and not self.cancelled() and self.expirations
        assert self.completions == (0 if self.cancelled() else 1), self
        assert self.cancellations == (1 if self.cancelled() else 0), self
        assert self.expirations <= 1
        assert not (expired and self.cancelled())


class PurgatoryScene(Scene):
    """Operations that wait for keys."""

    def __init__(self, width):
        self.clock = ManualClock()
        timer = Timer(clock=self.clock, tick_ms=1, wheel_size=8, executor=InlineExecutor())
        self.errors = []
        self.purgatory = Purgatory(timer=timer, on_error=self.on_error)
        self.operations = [Counting(timeout_s(n)) for n in range(COUNT)]
        super().__init__(self.make_steps(), width)

    def on_error(self, error, operation):
        assert isinstance(error, MemoryError), error

    def submit_all(self):
        for n in range(COUNT):
            self.purgatory.try_complete_else_watch(self.operations[n], keys_of(n))

    def run_out(self):
        """Assert that all is consistent, before and after what is left has expired."""
        self.purgatory._check()
        self.clock.advance(TIMEOUT_MS + 1)
        self.purgatory.timer.advance_clock()
        # Threads of the timer run what the executor had no memory for.
        self.purgatory.timer.close(cancel_pending=False, timeout=HANG_S)
        self.purgatory._check()
        stats = self.purgatory.stats()
        assert (stats.pending, stats.watch_entries, stats.watched_keys) == (0, 0, 0)
        assert len(self.purgatory.timer) == 0
        return stats


class Submit(PurgatoryScene):
    """`try_complete_else_watch`: what was accepted waits; what was refused may be tried again."""

    def make_steps(self):
        return [
            partial(self.purgatory.try_complete_else_watch, self.operations[n], keys_of(n))
            for n in range(COUNT)
        ]

    def check(self):
        self.purgatory._check()
        again = [n for n in range(COUNT) if self.raised[n] and not self.operations[n].done()]
        for n in again:
            if self.operations[n]._op_owner is None:
                self.purgatory.try_complete_else_watch(self.operations[n], keys_of(n))
        stats = self.run_out()
        for operation in self.operations:
            operation.check_end()
        assert stats.expired == COUNT


class Defer(PurgatoryScene):
    """`defer`: a future that was returned resolves."""

    def make_steps(self):
        return [
            partial(self.purgatory.defer, *keys_of(n), timeout=timeout_s(n)) for n in range(COUNT)
        ]

    def check(self):
        self.purgatory._check()
        futures = [future for future in self.results if future is not None]
        assert len(futures) == self.raised.count(False)
        for n in range(0, COUNT, 2):
            self.purgatory.complete(f"own {n}", n)
        self.run_out()
        for n in range(COUNT):
            future = self.results[n]
            if future is not None:
                assert future.done(), n
                assert (future.exception() is None) == (n % 2 == 0)


class Ending(PurgatoryScene):
    """Pending operations that end meanwhile."""

    def check(self):
        stats = self.run_out()
        for operation in self.operations:
            operation.check_end()
        assert stats.completed + stats.expired + stats.cancelled == COUNT


class Complete(Ending):
    """`complete`, of a key of one operation and of a key that many watch."""

    def make_steps(self):
        self.submit_all()
        steps = [partial(self.purgatory.complete, f"own {n}", n) for n in range(0, COUNT, 2)]
        return [*steps, *(partial(self.purgatory.complete, f"shared {n}") for n in range(3))]


class Cancel(Ending):
    """`cancel` and `cancel_for_key`."""

    def make_steps(self):
        self.submit_all()
        steps = [operation.cancel for operation in self.operations[::2]]
        return [*steps, *(partial(self.purgatory.cancel_for_key, f"shared {n}") for n in range(3))]


class Expire(Ending):
    """The clock expires them."""

    def make_steps(self):
        self.submit_all()
        steps = []
        for _ in range(50):
            steps += [partial(self.clock.advance, 97), self.purgatory.timer.advance_clock]
        return steps


class Futures(PurgatoryScene):
    """Futures that are completed and expire."""

    def make_steps(self):
        self.futures = [
            self.purgatory.defer(*keys_of(n), timeout=timeout_s(n)) for n in range(COUNT)
        ]
        steps = [partial(self.purgatory.complete, f"own {n}", n) for n in range(0, COUNT, 2)]
        for _ in range(50):
            steps += [partial(self.clock.advance, 97), self.purgatory.timer.advance_clock]
        return steps

    def check(self):
        self.run_out()
        assert all(future.done() for future in self.futures)


class Conditional(DelayedOperation):
    """Is completed by its condition."""

    ready = False

    def try_complete(self):
        return self.ready and self.force_complete()


class Check(PurgatoryScene):
    """`check_and_complete` of operations with a condition of their own."""

    def make_steps(self):
        self.operations = [Conditional(timeout_s(n)) for n in range(COUNT)]
        self.submit_all()
        for operation in self.operations[::2]:
            operation.ready = True
        return [partial(self.purgatory.check_and_complete, f"own {n}") for n in range(COUNT)]

    def check(self):
        self.run_out()
        assert all(operation.done() for operation in self.operations)


@pytest.mark.parametrize("scene", [Submit, Defer, Complete, Cancel, Expire, Futures, Check])
def test_purgatory_without_memory(scene):
    """Each allocation fails in turn: what was accepted ends once, `_check` holds."""
    play_in_process(scene)
