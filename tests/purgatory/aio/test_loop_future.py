"""LoopFuture: what AsyncPurgatory.defer returns."""

import asyncio
import gc

import pytest

from purgatory import OperationCancelled, OperationExpired
from purgatory.aio import AsyncPurgatory, LoopFuture
from timingwheel import ManualClock


class TestDefer:
    def test_it_waits_from_the_call_on(self, run):
        """A completion before the await is not lost."""

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("a")
                assert isinstance(future, LoopFuture)
                assert p.complete("a", 1) == 1
                assert (future.done(), await future) == (True, 1)

        run(main())

    def test_it_works_with_gather_and_shield(self, run):
        """It is an asyncio future like any other."""

        async def main():
            async with AsyncPurgatory() as p:
                both = asyncio.gather(p.defer("a"), asyncio.shield(p.defer("b")))
                p.complete("a", 1)
                p.complete("b", 2)
                assert await both == [1, 2]

        run(main())

    def test_one_that_is_dropped_logs_nothing(self, run):
        """Its end need not be looked at."""

        async def main():
            async with AsyncPurgatory() as p:
                p.defer("a", timeout=0)
                p.defer("b")
                await asyncio.sleep(0)
                gc.collect()
            gc.collect()

        run(main())


class TestCancel:
    def test_it_cancels_the_operation_at_once(self, run):
        """Before any step of the loop nothing is watched any more."""

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("a")
                assert future.cancel("enough")
                assert (future.cancelled(), p.delayed, p.complete("a")) == (True, 0, 0)
                assert not future.cancel()
                with pytest.raises(asyncio.CancelledError, match="enough"):
                    await future

        run(main())

    def test_one_that_a_thread_has_completed(self, run):
        """It is completed, though its value is still on the way."""

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("a")
                # As a thread does it: not in a verb of the loop.
                assert p.complete_threadsafe("a", 1) == 1
                assert (future.done(), future.cancel()) == (False, False)
                assert await future == 1

        run(main())

    def test_a_task_cancelled_while_its_value_is_on_the_way(self, run):
        """The task is cancelled, the future has the value."""

        async def wait(future):
            return await future

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("a")
                task = asyncio.create_task(wait(future))
                await asyncio.sleep(0)
                p.complete_threadsafe("a", 1)
                assert task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert future.result() == 1

        run(main())

    def test_cancel_for_key(self, run):
        """The purgatory's own verb ends it with OperationCancelled."""

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("a")
                assert len(p.purgatory.cancel_for_key("a")) == 1
                with pytest.raises(OperationCancelled):
                    await future

        run(main())


class TestByHand:
    def test_a_result_ends_the_operation(self, run):
        """A program that resolves the future itself leaves no operation behind."""

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("a", "b", need=2)
                future.set_result("by hand")
                assert (p.delayed, await future) == (0, "by hand")
                failed = p.defer("a")
                failed.set_exception(ZeroDivisionError)
                assert p.delayed == 0
                with pytest.raises(ZeroDivisionError):
                    await failed
                assert (p.stats().completed, p.stats().failed) == (1, 1)

        run(main())

    def test_one_that_has_ended(self, run):
        """An end that is on its way counts, as one that has come."""

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("a")
                p.complete_threadsafe("a", 1)
                with pytest.raises(asyncio.InvalidStateError):
                    future.set_result(2)
                assert await future == 1
                with pytest.raises(asyncio.InvalidStateError):
                    future.set_exception(ZeroDivisionError())

        run(main())


class TestExtend:
    def test_the_timeout_counts_anew(self, run):
        """From the call on, to later or to sooner; not once it has ended."""

        async def main():
            clock = ManualClock()
            async with AsyncPurgatory(clock=clock) as p:
                future = p.defer("a", timeout=10)
                clock.advance(9)
                assert future.extend(10)
                clock.advance(9.9)
                await asyncio.sleep(0.01)
                assert not future.done()
                clock.advance(0.2)
                with pytest.raises(OperationExpired):
                    await future
                assert not future.extend(10)

        run(main())

    def test_to_sooner(self, run):
        """The loop's timer is set anew."""

        async def main():
            async with AsyncPurgatory() as p:
                future = p.defer("a", timeout=1000)
                await asyncio.sleep(0)
                assert future.extend(0.01)
                with pytest.raises(OperationExpired):
                    await future

        run(main())
