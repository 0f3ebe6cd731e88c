"""LoopDriver: the loop's timer drives the wheel."""

import asyncio

import pytest

from purgatory import OperationExpired
from purgatory.aio import AsyncPurgatory
from purgatory.aio.loop_delivery import LoopDelivery
from purgatory.aio.loop_driver import LoopDriver
from tests.testing.counting_waiter import CountingWaiter
from timingwheel import InlineExecutor, ManualClock, Timer


class TestDriving:
    def test_deadlines_in_any_order(self, run):
        """An earlier deadline that comes later sets the loop's timer anew."""

        async def main():
            async with AsyncPurgatory() as p:
                far = asyncio.create_task(p.wait("a", timeout=3600))
                for timeout in (0.08, 0.02):
                    await asyncio.sleep(0)
                    with pytest.raises(OperationExpired):
                        await p.wait("a", timeout=timeout)
                assert not far.done()
                far.cancel()

        run(main())

    def test_never_early(self, run):
        """The deadline has passed on the timer's clock, though uvloop rounds to milliseconds."""

        async def main():
            async with AsyncPurgatory() as p:
                now_ns = p.purgatory.timer._clock_reader.now_ns
                for n in range(1, 30):
                    due_ns = now_ns() + n * 333_000
                    with pytest.raises(OperationExpired):
                        await p.wait("a", timeout=n * 0.000333)
                    assert now_ns() >= due_ns

        run(main())

    def test_a_clock_moved_by_hand(self, run):
        """Each move wakes the driver, from any thread."""

        async def main():
            clock = ManualClock()
            async with AsyncPurgatory(clock=clock) as p:
                task = asyncio.create_task(p.wait("a", timeout=3600))
                await asyncio.sleep(0.01)
                assert not task.done()
                await asyncio.to_thread(clock.advance, 3600)
                with pytest.raises(OperationExpired):
                    await task

        run(main())

    def test_many_at_once_come_in_portions(self, run):
        """The loop does other things between two portions of expired waits."""

        async def main():
            steps = 0

            async def tick():
                nonlocal steps
                while p.delayed or not all(future.done() for future in futures):
                    steps += 1
                    await asyncio.sleep(0)

            clock = ManualClock()
            async with AsyncPurgatory(clock=clock) as p:
                futures = [p.defer(n, timeout=1) for n in range(3000)]
                clock.advance(1)
                await tick()
                assert steps > 5
                assert {type(future.exception()) for future in futures} == {OperationExpired}

        run(main())

    def test_one_timer_of_the_loop_is_enough(self):
        """A million waits of 30 seconds set it a few times, not a million."""

        async def main():
            loop = asyncio.get_running_loop()
            async with AsyncPurgatory() as p:
                for n in range(5000):
                    p.defer(n)
                    if n % 100 == 0:
                        await asyncio.sleep(0)
                assert len(loop._scheduled) < 10

        asyncio.run(main())

    def test_one_wait_after_the_other_does_not_wake_it(self):
        """A bucket that is emptied and filled again is no news."""

        async def main():
            async with AsyncPurgatory() as p:
                waiter = CountingWaiter()
                p.purgatory.timer.change_waiters(add=waiter)
                for _ in range(100):
                    future = p.defer("a")
                    await asyncio.sleep(0)
                    p.complete("a")
                    await future
                assert waiter.wakes < 10

        asyncio.run(main())

    def test_what_is_posted_is_done(self, run):
        """From a thread and from the loop, while nothing else happens in the loop."""

        async def main():
            async with AsyncPurgatory() as p:
                waits = [asyncio.create_task(p.wait(key)) for key in "abc"]
                await asyncio.sleep(0)
                await asyncio.to_thread(p.purgatory.complete_later, "a", 1)
                assert await waits[0] == 1
                p.purgatory.complete_later("b", 2)
                p.purgatory.fail_later("c", OSError("gone"))
                assert await waits[1] == 2
                with pytest.raises(OSError, match="gone"):
                    await waits[2]

        run(main())

    def test_a_clock_that_raises_is_logged(self, caplog):
        """The driver goes on with its next step."""
        broken = [False]
        clock = ManualClock()

        def read():
            if broken[0]:
                raise ZeroDivisionError
            return clock()

        async def main():
            async with AsyncPurgatory(clock=read) as p:
                future = p.defer("a", timeout=1)
                broken[0] = True
                p._driver.wake()
                await asyncio.sleep(0.01)
                p._driver._step()
                broken[0] = False
                clock.advance(1)
                p._driver._step()
                with pytest.raises(OperationExpired):
                    await future

        asyncio.run(main())
        assert caplog.text.count("the clock of timer 'purgatory' raised") > 1

    def test_it_does_not_wait(self, run):
        """The loop sleeps, not its driver."""

        async def main():
            loop = asyncio.get_running_loop()
            p = AsyncPurgatory()
            bus = p.purgatory._bus
            driver = LoopDriver(Timer(executor=InlineExecutor()), bus, LoopDelivery(loop))
            with pytest.raises(RuntimeError, match="cannot wait"):
                driver.wait(1)
            driver.wake()
            driver.stop()  # what is on the way finds it stopped
            await asyncio.sleep(0)

        run(main())
