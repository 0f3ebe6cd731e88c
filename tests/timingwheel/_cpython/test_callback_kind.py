"""callback_kind: what kind of callable a callback is; only the compiled one looks."""

import functools

import pytest

from timingwheel import COMPILED
from timingwheel._cpython.callback_kind import LOOK_CLOSER, PLAIN, STATELESS, callback_kind


async def coroutine_function():
    """Await nothing."""


class Callable:
    """An object that can be called."""

    def __call__(self):
        """Do nothing."""

    async def wait(self):
        """Await nothing."""


@pytest.mark.parametrize(
    "callback", [coroutine_function, Callable(), Callable().wait, functools.partial(int), 5]
)
def test_others_are_looked_at_more_closely(callback):
    """What may be async, or cannot be called, is never taken for a plain function."""
    assert callback_kind(callback) == LOOK_CLOSER


def test_a_function_is_plain():
    """A function, or a method bound to an object; interpreted, nothing is known."""
    expected = (PLAIN, STATELESS) if COMPILED else (LOOK_CLOSER,)
    assert callback_kind(test_a_function_is_plain) in expected
    assert callback_kind(Callable().__call__) in expected
