"""The Future form of a delayed operation: what `Purgatory.defer` returns. Any thread.

Most futures of a purgatory are awaited by a callback or a look at their result, or dropped. So
where there are steps (`atomicity`) one has nothing of its own but its operation, which
keeps its state (see ``deferred``), and the costly parts are made when somebody looks at them (see
``on_demand``). Who looks tells the operation so before he looks: either he finds the future done,
or who ends it finds him, and goes the standard library's way.
"""

import concurrent.futures
import operator
import threading
from typing import TYPE_CHECKING, Any, Final

from purgatory.core.lazy_attribute import OnDemand
from timingwheel import STEPS

if TYPE_CHECKING:
    from purgatory.core.deferred import DeferredOperation

# As the standard library writes them.
PENDING: Final = "PENDING"
FINISHED: Final = "FINISHED"
CANCELLED: Final = "CANCELLED_AND_NOTIFIED"


def _look(future: Any) -> None:
    future._operation.look(future)


def _kept(field: str) -> Any:
    """A field of the future that its operation keeps."""

    def keep(future: "DeferredFuture", value: object) -> None:
        setattr(future._operation, field, value)

    return property(operator.attrgetter(f"_operation.{field}"), keep)


class ReadyFuture(concurrent.futures.Future[Any]):
    """A future that is looked at mostly when its result is there."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> Any:
        """See ``concurrent.futures.Future``; what is there already is had without its lock."""
        if self._state == FINISHED and self._exception is None:
            return self._result
        return super().result(timeout)


class DeferredFuture(ReadyFuture):
    """A ``concurrent.futures.Future`` whose end is that of its operation.

    ``result()``: the value of the completed key, or, with need > 1, a dict key -> value of those
    that completed it. Raises OperationExpired (a TimeoutError) after the timeout, and
    OperationCancelled when the purgatory ended it. ``asyncio.wrap_future`` awaits it.
    """

    __slots__ = ("_operation",)
    _operation: "DeferredOperation"  # set once

    if STEPS:
        __init__ = object.__init__
        _state = _kept("state")
        _result = _kept("result")
        _exception = _kept("error")
        _condition = OnDemand(threading.Condition, _look)
        _waiters = OnDemand(list[Any], _look)
        _done_callbacks = OnDemand(list[Any], _look)

    def cancel(self) -> bool:
        """Cancel the operation; False if it has ended otherwise."""
        operation = self._operation
        if operation.done() and self._state != PENDING:
            return self.cancelled()
        operation.cancel_asked = True
        operation.cancel()
        # Another thread at work on the operation may have to tell us yet.
        return operation.cancelled()

    def end_cancelled(self) -> None:
        """Be cancelled; called by the operation."""
        super().cancel()
        self.set_running_or_notify_cancel()
