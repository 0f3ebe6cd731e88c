"""Callbacks of futures on an event loop, as asyncio's, but for coroutine functions."""

import asyncio
import contextvars

import pytest

from purgatory.loop_callbacks import LoopCallbacks

VARIABLE = contextvars.ContextVar("VARIABLE", default="default")


async def coroutine(_):
    """Do nothing."""


@pytest.mark.parametrize("fn", [coroutine, 5])
def test_a_callback_that_nothing_awaits(fn):
    """It would never run, so it is refused at once."""

    async def main():
        with pytest.raises(TypeError, match="expected a"):
            LoopCallbacks().add_done_callback(fn)

    asyncio.run(main())


def test_the_context():
    """The one given, else that of `add_done_callback`: not of the step that ends the future."""

    async def main():
        future, seen = LoopCallbacks(), []
        other = contextvars.copy_context()
        other.run(VARIABLE.set, "given")
        future.add_done_callback(lambda _: seen.append(VARIABLE.get()))
        future.add_done_callback(lambda _: seen.append(VARIABLE.get()), context=other)
        VARIABLE.set("of the end")
        future.set_result(1)
        await asyncio.sleep(0)
        return seen

    assert asyncio.run(main()) == ["default", "given"]
