"""The Future form of a delayed operation: what `Purgatory.defer` returns. Any thread.

Half of the price of the standard library's future is a condition with its lock, two lists, and the
locking at its end. Most futures of a purgatory are awaited by a callback or a look at their result,
or dropped. So where there are steps (`timingwheel.steps`) those parts are made when somebody looks
at them first; until then the future's end is one step, done in ``deferred``. Who looks says so
before he looks: either he finds it done, or who ends it finds him.
"""

import concurrent.futures
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from timingwheel import STEPS

if TYPE_CHECKING:
    from purgatory.deferred import DeferredOperation

# As the standard library writes them.
PENDING: Final = "PENDING"
FINISHED: Final = "FINISHED"

T = TypeVar("T")


class _OnDemand(Generic[T]):
    """A part of a future that is made when somebody looks at it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, future: "DeferredFuture", owner: type) -> T:
        future._shared = True
        # One of those who look at the same time makes it for all. Found in there, it is not asked
        # for here again.
        made: T = future.__dict__.setdefault(self._name, self._make())
        return made


class DeferredFuture(concurrent.futures.Future[Any]):
    """A ``concurrent.futures.Future`` whose end is that of its operation.

    ``result()``: the value of the completed key, or, with need > 1, a dict key -> value of those
    that completed it. Raises OperationExpired (a TimeoutError) after the timeout, and
    OperationCancelled when the purgatory ended it. ``asyncio.wrap_future`` awaits it.
    """

    # Slots, for nothing is allocated when these change: what `deferred` does to them is one step.
    # Set by it. The operation is named only while it is pending: without the cycle both are freed
    # with the last reference.
    __slots__ = ("_exception", "_operation", "_result", "_state")
    _state: str
    _operation: "DeferredOperation | None"

    _cancel_asked = False
    _shared = False  # somebody has looked at what follows

    if STEPS:
        __init__ = object.__init__
        _condition = _OnDemand(threading.Condition)
        _waiters = _OnDemand(list[Any])
        _done_callbacks = _OnDemand(list[Any])

    def result(self, timeout: float | None = None) -> Any:
        """See ``concurrent.futures.Future``; what is there already is had without its lock."""
        if self._state == FINISHED and self._exception is None:
            return self._result
        return super().result(timeout)

    def cancel(self) -> bool:
        """Cancel the operation; False if it has ended otherwise."""
        self._cancel_asked = True
        operation = self._operation
        if operation is None:
            return self.cancelled()
        operation.cancel()
        # Another thread at work on the operation may have to tell us yet.
        return operation.cancelled()

    def end_cancelled(self, error: BaseException) -> None:
        """Be cancelled, if that was asked of us, or fail; called by the operation."""
        if self._cancel_asked:
            super().cancel()
            self.set_running_or_notify_cancel()
        else:
            self.set_exception(error)
