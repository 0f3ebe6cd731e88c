"""The Future form of a delayed operation: what `Purgatory.defer` returns. Any thread.

Most futures of a purgatory are awaited by a callback or a look at their result, or dropped. So
where there are steps (`timingwheel.steps`) their costly parts are made when somebody looks at them
(see ``on_demand``); until then a future's end is one step, done in ``deferred``, without its lock.
Who looks says so before he looks: either he finds it done, or who ends it finds him.
"""

import concurrent.futures
import threading
from typing import TYPE_CHECKING, Any, Final

from purgatory.on_demand import OnDemand
from timingwheel import STEPS

if TYPE_CHECKING:
    from purgatory.deferred import DeferredOperation

# As the standard library writes them.
PENDING: Final = "PENDING"
FINISHED: Final = "FINISHED"


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
        _condition = OnDemand(threading.Condition)
        _waiters = OnDemand(list[Any])
        _done_callbacks = OnDemand(list[Any])

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
