"""LoopFuture: what AsyncPurgatory.defer returns."""

import asyncio
import contextvars
import gc

import pytest

from purgatory import OperationExpired
from purgatory.aio import AsyncPurgatory, LoopFuture
from timingwheel import ManualClock

VARIABLE = contextvars.ContextVar("VARIABLE", default="default")


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

    def test_a_coroutine_function_is_no_callback(self, run):
        """It would never run; a function is called, in its context if there is one."""

        async def coroutine(_):
            """Do nothing."""

        async def main():
            async with AsyncPurgatory() as p:
                future, got, context = p.defer("a"), [], contextvars.copy_context()
                with pytest.raises(TypeError, match="a coroutine function"):
                    future.add_done_callback(coroutine)
                context.run(VARIABLE.set, "given")
                future.add_done_callback(lambda done: got.append((done, VARIABLE.get())))
                future.add_done_callback(lambda _: got.append(VARIABLE.get()), context=context)
                p.complete("a")
                await asyncio.sleep(0)
                assert got == [(future, "default"), "given"]

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
