"""Check arguments: what a timer cannot call, and what is no count. Any thread."""

import inspect
from typing import Any, Final

from timingwheel._cpython.callback_kind import LOOK_CLOSER, STATELESS, callback_kind

# Bound once: compiled, that saves a look-up in the module's dict for each task.
_callback_kind: Final = callback_kind

_MAX_COUNT: Final = 2**61


def check_callback(name: str, callback: Any) -> bool:
    """Raise TypeError for what is no callable, and for a coroutine function.

    A timer's threads have no event loop: they would make the coroutine and drop it. Returns whether
    the callback is known to refer to nothing but its module.
    """
    kind = _callback_kind(callback)
    if kind == LOOK_CLOSER:
        _check_closely(name, callback)
    return kind == STATELESS


def _check_closely(name: str, callback: Any) -> None:
    if not callable(callback):
        raise TypeError(f"{name} is {callback!r}; expected a callable")
    if inspect.iscoroutinefunction(callback) or inspect.isasyncgenfunction(callback):
        raise TypeError(
            f"{name} is {callback!r}, a coroutine function; expected a function that is not async"
        )


def check_count(name: str, value: Any, least: int) -> None:
    """Raise TypeError for what is no int, ValueError if it is below `least` or huge."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r}; expected an int")
    if value < least:
        raise ValueError(f"{name} is {value!r}; expected at least {least}")
    if value > _MAX_COUNT:
        raise ValueError(f"{name} is {value!r}; expected at most {_MAX_COUNT}")
