"""LoopOperation: the operation behind a wait, and its end beside the loop."""

import asyncio

import pytest

from purgatory import OperationCancelled
from purgatory.aio import AsyncPurgatory


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
