"""LoopDelivery: once woken for many ends, portions, and futures that are done already."""

import asyncio
import threading

import pytest

from purgatory.aio.loop_delivery import PORTION, LoopDelivery, resolve
from purgatory.core.operations.future import FINISHED


class CountingLoop:
    """Counts the wake-ups of a loop that runs in a test."""

    def __init__(self):
        self.calls = []
        self.closed = False

    def call_soon_threadsafe(self, callback):
        if self.closed:
            raise RuntimeError("Event loop is closed")
        self.calls.append(callback)

    def is_closed(self):
        return self.closed


@pytest.fixture
def done():
    """A future that is done already."""
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    future.set_result(None)
    yield future
    loop.close()


class TestWaking:
    def test_many_ends_wake_once(self, done):
        """Until the loop has looked, further ends wake it no more."""
        loop = CountingLoop()
        delivery = LoopDelivery(loop)
        for _ in range(10):
            delivery.deliver(done, None, None, FINISHED)
        assert len(loop.calls) == 1
        loop.calls.pop()()
        assert delivery.is_idle
        delivery.deliver(done, None, None, FINISHED)
        assert len(loop.calls) == 1

    def test_from_threads(self, done):
        """No end is forgotten while threads and the loop race."""
        loop = CountingLoop()
        delivery = LoopDelivery(loop)
        running = threading.Event()

        def end_many():
            running.wait()
            for _ in range(2000):
                delivery.deliver(done, None, None, FINISHED)

        threads = [threading.Thread(target=end_many) for _ in range(3)]
        for thread in threads:
            thread.start()
        running.set()
        while any(thread.is_alive() for thread in threads) or loop.calls:
            if loop.calls:
                loop.calls.pop()()
        for thread in threads:
            thread.join()
        assert delivery.is_idle

    def test_an_interrupt_on_waking_is_made_up_for(self, done):
        """The next end wakes the loop, for both."""
        loop = CountingLoop()
        delivery = LoopDelivery(loop)
        delivery.loop = type("Interrupted", (CountingLoop,), {"call_soon_threadsafe": _interrupt})()
        with pytest.raises(KeyboardInterrupt):
            delivery.deliver(done, None, None, FINISHED)
        delivery.loop = loop
        delivery.deliver(done, None, None, FINISHED)
        assert len(loop.calls) == 1
        loop.calls.pop()()
        assert delivery.is_idle

    def test_a_closed_loop_is_not_woken(self, done):
        """Nothing is kept for it either."""
        loop = CountingLoop()
        loop.closed = True
        delivery = LoopDelivery(loop)
        delivery.deliver(done, None, None, FINISHED)
        delivery.call(print)
        assert (delivery.is_idle, loop.calls) == (True, [])

    def test_portions(self, done):
        """What is beyond a portion comes in the next steps."""
        loop = CountingLoop()
        delivery = LoopDelivery(loop)
        for _ in range(2 * PORTION + 1):
            delivery.deliver(done, None, None, FINISHED)
        steps = 0
        while loop.calls:
            loop.calls.pop()()
            steps += 1
        assert (steps, delivery.is_idle) == (3, True)


def _interrupt(*_):
    raise KeyboardInterrupt


class TestResolve:
    def test_a_stop_iteration_is_wrapped(self, run):
        """No coroutine can raise one."""

        async def main():
            future = asyncio.get_running_loop().create_future()
            resolve(future, None, StopIteration(1), FINISHED)
            with pytest.raises(RuntimeError) as info:
                await future
            assert isinstance(info.value.__cause__, StopIteration)

        run(main())

    def test_one_that_is_done_stays_as_it_is(self, run):
        """The program, or a cancelled task, was first."""

        async def main():
            future = asyncio.get_running_loop().create_future()
            future.set_result(1)
            resolve(future, 2, None, FINISHED)
            assert await future == 1

        run(main())
