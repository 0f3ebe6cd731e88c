"""Handlers: the functions of a worker, by kind of job, and the `Job` that each gets. Immutable."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from purgatory.service.client.backoff import backoff_s
from purgatory.service.client.functions import check_function
from timingwheel.lowlevel import to_ms

# A server takes no more.
_MOST_ATTEMPTS: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is due, leased to this worker.

    `id` is the same at each attempt; `attempt` counts from 1. `token` grows with each lease of any
    job: storage that refuses tokens below the highest that it has seen of a job refuses a worker
    that has lost its lease. Times are Unix milliseconds; `due_ms`: when it should have begun.
    """

    id: str
    kind: str
    payload: Any
    attempt: int
    token: int
    submitted_ms: int
    due_ms: int


#: A function of a job, or a coroutine function.
HandlerFunction = Callable[[Job], Any]


class Retry(NamedTuple):
    """How often a job is tried, and the seconds between attempts: the first, and at most."""

    max_attempts: int
    delay: float
    max_delay: float

    def seconds_after(
        self, attempt: int, uniform: Callable[[float, float], float] = random.uniform
    ) -> float:
        """Return the seconds to wait after an attempt; see `backoff_s`."""
        return backoff_s(attempt, self.delay, self.max_delay, uniform)


class Handler(NamedTuple):
    """A function and how its jobs are tried again; `is_async`: it is awaited in the event loop."""

    function: HandlerFunction
    retry: Retry
    is_async: bool


def make_handler(function: HandlerFunction, retry: Retry) -> Handler:
    """Return a handler. Raises TypeError if it is no function, or a generator function."""
    return Handler(function, retry, check_function("handler", function))


def check_retry(retry: Retry) -> Retry:
    """Return it. Raises ValueError for bad values."""
    if isinstance(retry.max_attempts, bool) or not isinstance(retry.max_attempts, int):
        raise TypeError(f"max_attempts is {retry.max_attempts!r}; expected an int")
    if not 1 <= retry.max_attempts <= _MOST_ATTEMPTS:
        raise ValueError(f"max_attempts is {retry.max_attempts}; expected 1 to {_MOST_ATTEMPTS}")
    if not 0 <= retry.delay <= retry.max_delay:
        raise ValueError(
            f"retry_delay is {retry.delay}, max_retry_delay is {retry.max_delay}; expected 0 or "
            "more, and not the larger first"
        )
    to_ms(retry.max_delay)  # a server takes no longer one
    return retry
