"""LoopDelivery: brings the ends of operations to the futures of one event loop.

Only the loop's thread may touch its futures. An end in the loop itself is delivered at once.
Others, from threads, finalizers and signal handlers, are queued, and wake the loop once.

Ends are delivered in portions: each future makes its task run in the loop's next step, which would
otherwise be as long as there are futures.
"""

import asyncio
from collections import deque
from typing import Any, Final

from purgatory.core.operations.future import CANCELLED_AND_NOTIFIED
from purgatory.errors import PurgatoryClosed, WrongEventLoop

# Futures resolved in one step of the loop. Their tasks run in the next: 3 ms at 10 us each.
PORTION: Final = 256

# Bound once: compiled, that saves look-ups. Of the base class: a `LoopFuture` would take them for
# calls of the program.
_set_result: Final[Any] = asyncio.Future.set_result
_set_exception: Final[Any] = asyncio.Future.set_exception
_cancel: Final[Any] = asyncio.Future.cancel
_running_loop: Final[Any] = asyncio._get_running_loop


class LoopDelivery:
    """Made in the loop's thread; any thread may call `deliver` and `call`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop: Any = loop
        self.is_closed = False  # written by `AsyncPurgatory.close`
        # A future to resolve; its result, error, state.
        self._queue: deque[tuple[Any, object, BaseException | None, str]] = deque()
        self._is_scheduled = False  # a step of the loop will look at the queue
        # Whether a verb runs in the loop, and how many futures it may still resolve.
        self.in_verb = False
        self.direct_left: int = 0

    def check_open(self, name: str) -> None:
        """Raise PurgatoryClosed if closed, or as `check_loop`."""
        self.check_loop(name)
        if self.is_closed:
            raise PurgatoryClosed(f"async purgatory {name!r} is closed")

    def check_loop(self, name: str) -> None:
        """Raise WrongEventLoop unless the caller runs in the loop."""
        running = _running_loop()
        if running is not self.loop:
            where = "no event loop" if running is None else f"another event loop, {running!r}"
            raise WrongEventLoop(
                f"async purgatory {name!r} is bound to {self.loop!r}; it was called in {where}. "
                "From another thread use complete_threadsafe"
            )

    def deliver(self, future: Any, result: object, error: BaseException | None, state: str) -> None:
        """Resolve a future of the loop, now or soon. Any thread."""
        if self.in_verb and self.direct_left > 0 and _running_loop() is self.loop:
            self.direct_left -= 1
            resolve(future, result, error, state)
        elif not self.loop.is_closed():
            self._queue.append((future, result, error, state))
            self._schedule()

    def _schedule(self) -> None:
        # After an append: a step clears the mark before it reads the queue.
        if not self._is_scheduled:
            self._is_scheduled = True
            try:
                self.call(self.deliver_portion)
            except BaseException:  # the next append schedules it
                self._is_scheduled = False
                raise

    def call(self, callback: Any) -> None:
        """Call back in the loop's next step. Any thread. Does nothing if the loop is closed."""
        try:
            self.loop.call_soon_threadsafe(callback)
        except RuntimeError:
            if not self.loop.is_closed():
                raise

    def hold_back(self) -> None:
        """Queue further ends without waking the loop: `deliver_portion` follows."""
        self._is_scheduled = True

    def deliver_portion(self) -> None:
        """Deliver a portion of the queue; the rest in later steps. In the loop."""
        self._is_scheduled = False
        left = PORTION
        try:
            while left > 0 and self._queue:
                left -= 1
                future, result, error, state = self._queue.popleft()
                resolve(future, result, error, state)
        finally:
            if self._queue:
                self._schedule()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is queued."""
        return not self._queue


def resolve(future: Any, result: Any, error: BaseException | None, state: str) -> None:
    """Resolve a future, unless it is done. In its loop."""
    try:
        if state == CANCELLED_AND_NOTIFIED:
            _cancel(future, result)
        elif error is None:
            _set_result(future, result)
        else:
            # Other threads may have raised the error: start with the traceback of the end.
            error.__traceback__ = result
            _set_exception(future, _raisable(error))
            future.exception()  # a dropped future must not be logged
    except asyncio.InvalidStateError:
        pass


def _raisable(error: BaseException) -> BaseException:
    if isinstance(error, StopIteration):  # which no coroutine can raise
        wrapped = RuntimeError("the operation failed with a StopIteration")
        wrapped.__cause__ = error
        return wrapped
    return error
