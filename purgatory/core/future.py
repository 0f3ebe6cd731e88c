"""The Future form of a delayed operation: what `Purgatory.defer` returns. Any thread.

Most futures of a purgatory are awaited by a callback or a look at their result, or dropped. So
where there are steps (`atomicity`) one has nothing of its own but its operation, which
keeps its state (see ``deferred``), and the costly parts are made when somebody looks at them (see
``lazy_attribute``). A reader registers with the operation before it reads: either it finds the
future done, or the thread that ends it finds the reader, and goes the standard library's way.
"""

import concurrent.futures
import operator
import threading
from typing import TYPE_CHECKING, Any, Final

from purgatory.core.lazy_attribute import LazyAttribute
from timingwheel.lowlevel import ATOMIC_SECTIONS

if TYPE_CHECKING:
    from purgatory.core.deferred import DeferredOperation

# As the standard library writes them.
PENDING: Final = "PENDING"
FINISHED: Final = "FINISHED"
CANCELLED: Final = "CANCELLED_AND_NOTIFIED"


def _on_first_access(future: Any) -> None:
    future._operation.on_first_access(future)


def _delegated(field: str) -> Any:
    """A field of the future that its operation keeps."""

    def keep(future: "DeferredFuture", value: object) -> None:
        setattr(future._operation, field, value)

    return property(operator.attrgetter(f"_operation.{field}"), keep)


class FastResultFuture(concurrent.futures.Future[Any]):
    """A future that is looked at mostly when its result is there."""

    __slots__ = ()

    def result(self, timeout: float | None = None) -> Any:
        """See ``concurrent.futures.Future``; what is there already is had without its lock."""
        if self._state == FINISHED and self._exception is None:
            return self._result
        return super().result(timeout)


class DeferredFuture(FastResultFuture):
    """A ``concurrent.futures.Future`` whose end is that of its operation.

    ``result()``: the value of the completed key, or, with need > 1, a dict key -> value of those
    that completed it. Raises OperationExpired (a TimeoutError) after the timeout, and
    OperationCancelled when the purgatory ended it. ``asyncio.wrap_future`` awaits it.
    """

    __slots__ = ("_operation",)
    _operation: "DeferredOperation"  # set once

    if ATOMIC_SECTIONS:
        __init__ = object.__init__
        _state = _delegated("state")
        _result = _delegated("result")
        _exception = _delegated("error")
        _condition = LazyAttribute(threading.Condition, _on_first_access)
        _waiters = LazyAttribute(list[Any], _on_first_access)
        _done_callbacks = LazyAttribute(list[Any], _on_first_access)

    def cancel(self) -> bool:
        """Cancel the operation; False if it has ended otherwise."""
        operation = self._operation
        if operation.done() and self._state != PENDING:
            return self.cancelled()
        operation.cancel_requested = True
        operation.cancel()
        # Another thread at work on the operation may have to tell us yet.
        return operation.cancelled()

    def set_cancelled(self) -> None:
        """Be cancelled; called by the operation."""
        super().cancel()
        self.set_running_or_notify_cancel()
