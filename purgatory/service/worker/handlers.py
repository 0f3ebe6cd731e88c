"""Handlers: the functions of a worker, and the `Job` that each gets.

Immutable, but for `Attempt`, which any thread may use.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from purgatory.service.client.arguments import Duration, checked_seconds
from purgatory.service.client.functions import check_function
from timingwheel.lowlevel import check_count

# Held while an event is made.
_making: Final = threading.Lock()


class Attempt:
    """An attempt: tells of the job's cancellation, and extends the time limit."""

    __slots__ = ("_event", "is_cancelled")

    def __init__(self) -> None:
        self._event: threading.Event | None = None  # made on demand: most are never used
        self.is_cancelled: bool = False

    def extend(self, seconds: float) -> bool:
        """See `Job.extend`; without a worker False."""
        del seconds
        return False

    @property
    def cancelled(self) -> threading.Event:
        """See `Job.cancelled`."""
        with _making:
            if self._event is None:
                self._event = threading.Event()
        if self.is_cancelled:  # checked last: `cancel` may have missed the event
            self._event.set()
        return self._event

    def cancel(self) -> None:
        """Set `cancelled`."""
        self.is_cancelled = True
        event = self._event
        if event is not None:
            event.set()


#: Most jobs that a worker may run at a time.
MAX_CONCURRENCY: Final = 1000
# The server's limit.
_MOST_ATTEMPTS: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Job:
    """A due job, leased to this worker.

    `id` is the same at each attempt; `attempt` counts from 1. `token` grows with each lease of any
    job: storage that refuses lower tokens refuses a worker without its lease. Times are Unix
    milliseconds; `due_ms`: when the job should have begun.
    """

    id: str
    kind: str
    payload: Any
    attempt: int
    token: int
    submitted_ms: int
    due_ms: int
    tags: tuple[str, ...] = ()
    _attempt: Attempt = field(default_factory=Attempt, repr=False, compare=False)

    @property
    def cancelled(self) -> threading.Event:
        """The event that is set when the job is cancelled: no other attempt follows.

        The job ends done if the handler returns, else cancelled. A coroutine is cancelled, too.
        """
        return self._attempt.cancelled

    def extend(self, seconds: Duration) -> bool:
        """Have the time limit count anew for `seconds`, and renew the lease.

        False if the worker has given up the attempt. Raises TypeError and ValueError.
        """
        return self._attempt.extend(checked_seconds(seconds, "seconds"))


#: It may be a coroutine function.
HandlerFunction = Callable[[Job], Any]


class Retry(NamedTuple):
    """How often a job is tried, and the first and longest delay in seconds."""

    max_attempts: int
    delay: float
    max_delay: float


class HandlerLimits(NamedTuple):
    """The seconds of an attempt, and how many run at a time; None: no own limit."""

    timeout: float | None = None
    concurrency: int | None = None


_NO_LIMITS: Final = HandlerLimits()


class Handler(NamedTuple):
    """A function and its settings; `is_async`: awaited in the event loop."""

    function: HandlerFunction
    retry: Retry
    is_async: bool
    limits: HandlerLimits = _NO_LIMITS


def make_handler(
    function: HandlerFunction, retry: Retry, limits: HandlerLimits = _NO_LIMITS
) -> Handler:
    """Return a handler. Raises TypeError, also for a generator function."""
    return Handler(function, retry, check_function("handler", function), limits)


def check_limits(timeout: Duration | None, concurrency: int | None) -> HandlerLimits:
    """Return the limits of a handler. Raises TypeError and ValueError."""
    seconds = None if timeout is None else checked_seconds(timeout, "timeout")
    if seconds is not None and seconds <= 0:
        raise ValueError(f"timeout is {timeout!r}; expected more than 0 seconds, or None")
    return HandlerLimits(seconds, None if concurrency is None else check_concurrency(concurrency))


def check_concurrency(concurrency: object) -> int:
    """Return how many handlers run at a time. Raises TypeError and ValueError."""
    return check_count("concurrency", concurrency, 1, MAX_CONCURRENCY)


def check_retry(max_attempts: int, retry_delay: Duration, max_retry_delay: Duration) -> Retry:
    """Return how often a job is tried. Raises TypeError and ValueError."""
    most = check_count("max_attempts", max_attempts, 1, _MOST_ATTEMPTS)
    delay = checked_seconds(retry_delay, "retry_delay")
    max_delay = checked_seconds(max_retry_delay, "max_retry_delay")
    if delay > max_delay:
        raise ValueError(
            f"retry_delay is {retry_delay!r}, max_retry_delay is {max_retry_delay!r}; expected "
            "0 <= retry_delay <= max_retry_delay"
        )
    return Retry(most, delay, max_delay)
