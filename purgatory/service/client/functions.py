"""Checks of the functions that programs pass, handlers and `on_outcome`. Any thread."""

import concurrent.futures
import functools
import inspect


def check_function(name: str, function: object) -> bool:
    """Return whether a function is async. Raises TypeError for no or a generator function."""
    if not callable(function):
        raise TypeError(f"{name} is {function!r}; expected a function")
    inner: object = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    forms = inner, getattr(inner, "__call__", None)  # noqa: B004  # of an object
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in forms):
        raise TypeError(
            f"{name} is {function!r}, a generator function; expected a function that runs at once"
        )
    return any(inspect.iscoroutinefunction(one) for one in forms)


def refuse_unfinished(name: str, result: object) -> None:
    """Raise TypeError for a coroutine, a generator or a future."""
    if result is None:  # mostly
        return
    if inspect.iscoroutine(result) or inspect.isgenerator(result):
        result.close()
    elif not (
        isinstance(result, concurrent.futures.Future)
        or inspect.isawaitable(result)
        or inspect.isasyncgen(result)
    ):
        return
    raise TypeError(
        f"{name} returned {result!r}, which has not run to its end; expected a result, or an "
        "`async def` function where coroutines are awaited"
    )
