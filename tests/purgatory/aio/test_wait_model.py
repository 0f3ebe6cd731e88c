"""An AsyncPurgatory and `WaitModel`: tasks that wait, and futures of `defer`."""

import asyncio
from typing import NamedTuple

import pytest

from purgatory import DelayedOperation
from purgatory.aio import AsyncPurgatory
from tests.purgatory.aio.conftest import loop_factory
from tests.testing.wait_machine import WaitMachine, future_ending, run
from timingwheel import ManualClock


class Subject(NamedTuple):
    """A task that waits, with its operation unless that has ended at once; or a future."""

    future: asyncio.Future
    operation: asyncio.Future | DelayedOperation | None


class AsyncSystem:
    """Calls an AsyncPurgatory in its loop."""

    def __init__(self, loop):
        self.loop = loop
        self.clock = ManualClock()
        self.p = AsyncPurgatory(clock=self.clock)
        self.futures = []

    def in_loop(self, call, *args):
        """Call a function in the loop, and let all tasks run that this wakes."""

        async def main():
            result = call(*args)
            for _ in range(4):  # the timer's wake-up, its step, the delivery, the task
                await asyncio.sleep(0)
            return result

        return self.loop.run_until_complete(main())

    def submit(self, keys, timeout_ms, need):
        times = {"timeout": timeout_ms / 1000, "need": need}
        if len(self.futures) % 2:
            future = self.in_loop(lambda: self.p.defer(*keys, **times))
            self.futures.append(future)
            return Subject(future, future)
        before = set(self.p.purgatory._parts.lists.all())
        task = self.in_loop(lambda: asyncio.ensure_future(self.p.wait(*keys, **times)))
        self.futures.append(task)
        new = set(self.p.purgatory._parts.lists.all()) - before
        return Subject(task, new.pop() if new else None)

    def extend(self, subject, timeout_ms):
        if subject.operation is None:
            return False
        return self.in_loop(self.p.extend, subject.operation, timeout_ms / 1000)

    def complete(self, key, value, limit, hold_ms):
        def complete():
            return self.p.complete(key, value, limit=limit, hold=hold_ms / 1000)

        return self.in_loop(complete)

    def fail(self, key, message):
        return self.in_loop(self.p.fail, key, OSError(message))

    def cancel(self, subject):
        return self.in_loop(subject.future.cancel)

    def advance(self, ms):
        self.clock.advance(ms / 1000)
        self.in_loop(self.p.purgatory.timer.advance_clock)

    def ending(self, subject):
        return future_ending(subject.future)

    def figures(self):
        stats = self.p.stats()
        return stats.pending, stats.held

    def check(self):
        self.p.purgatory._check()

    def close(self):
        self.loop.run_until_complete(self.p.close())
        assert not asyncio.all_tasks(self.loop)
        for future in self.futures:
            assert future.done()
            future.cancelled() or future.exception()  # read, so that asyncio does not log it
        self.loop.close()


@pytest.mark.parametrize("name", ["asyncio", "uvloop"])
def test_it_agrees_with_the_model(name):
    """The AsyncPurgatory and the model agree after any sequence of calls."""
    make_loop = loop_factory(name)

    class Machine(WaitMachine):
        def make_system(self):
            return AsyncSystem(make_loop())

    run(Machine)
