"""Checks of the arguments of events and deferred futures. Any thread."""

from contextvars import Context

from purgatory.core.held_events import UNLIMITED


def check_limit(limit: object) -> int:
    """Return a limit; UNLIMITED for None. Raises TypeError, and ValueError for less than 1."""
    if limit is None:
        return UNLIMITED
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit is {limit!r}; expected an int or None")
    if limit < 1:
        raise ValueError(f"limit is {limit!r}; expected at least 1")
    return limit


def check_max_held(max_held: object) -> int:
    """Return how many events may be held. Raises TypeError, and ValueError for less than 0."""
    if isinstance(max_held, bool) or not isinstance(max_held, int):
        raise TypeError(f"max_held is {max_held!r}; expected an int")
    if max_held < 0:
        raise ValueError(f"max_held is {max_held!r}; expected at least 0")
    return max_held


def to_exception(error: object) -> Exception:
    """Return an exception, made if `error` is a class of them. Raises TypeError for others."""
    made = error() if isinstance(error, type) and issubclass(error, Exception) else error
    if not isinstance(made, Exception):
        raise TypeError(f"error is {error!r}; expected an Exception or a class of them")
    return made


def check_context(context: object) -> Context:
    """Return a context. Raises TypeError for anything else."""
    if not isinstance(context, Context):
        raise TypeError(f"context is {context!r}; expected a contextvars.Context or None")
    return context
