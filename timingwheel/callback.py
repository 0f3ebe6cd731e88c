"""check_callback: refuses what a timer cannot call. Any thread."""

import inspect
from typing import Any, Final

from timingwheel._cpython.callback_kind import LOOK_CLOSER, STATELESS, callback_kind

# Bound once: compiled, that saves a look-up in the module's dict for each task.
_callback_kind: Final = callback_kind


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
