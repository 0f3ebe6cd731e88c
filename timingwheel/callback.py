"""check_callback: refuses what a timer cannot call. Any thread."""

import inspect
from typing import Any, Final

from timingwheel._cpython.plain_functions import is_plain_function

# Bound once: compiled, that saves a look-up in the module's dict for each task.
_is_plain_function: Final = is_plain_function


def check_callback(name: str, callback: Any) -> None:
    """Raise TypeError for what is no callable, and for a coroutine function.

    A timer's threads have no event loop: they would make the coroutine and drop it.
    """
    if not _is_plain_function(callback):
        _check_closely(name, callback)


def _check_closely(name: str, callback: Any) -> None:
    if not callable(callback):
        raise TypeError(f"{name} is {callback!r}; expected a callable")
    if inspect.iscoroutinefunction(callback) or inspect.isasyncgenfunction(callback):
        raise TypeError(
            f"{name} is {callback!r}, a coroutine function; expected a function that is not async"
        )
