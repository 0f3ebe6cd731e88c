"""check_callback: refuses what a timer cannot call. Any thread."""

import inspect
from types import FunctionType, MethodType
from typing import Any, Final

# Bound once: compiled, that saves look-ups in the modules' dicts for each task.
_FUNCTION: Final[Any] = FunctionType
_METHOD: Final[Any] = MethodType

_ASYNC_FLAGS: Final = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def check_callback(name: str, callback: Any) -> None:
    """Raise TypeError for what is no callable, and for a coroutine function.

    A timer's threads have no event loop: they would make the coroutine and drop it.
    """
    kind = type(callback)
    if kind is _FUNCTION:
        is_async = callback.__code__.co_flags & _ASYNC_FLAGS != 0
    elif kind is _METHOD:
        is_async = _is_async(callback.__func__)
    elif not callable(callback):
        raise TypeError(f"{name} is {callback!r}; expected a callable")
    else:
        is_async = _is_async(callback)
    if is_async:
        raise TypeError(
            f"{name} is {callback!r}, a coroutine function; expected a function that is not async"
        )


def _is_async(callback: Any) -> bool:
    if type(callback) is _FUNCTION:
        return bool(callback.__code__.co_flags & _ASYNC_FLAGS)
    return inspect.iscoroutinefunction(callback) or inspect.isasyncgenfunction(callback)
