"""The Future form of a delayed operation: what `Purgatory.defer` returns."""

import concurrent.futures
from typing import TYPE_CHECKING, Any, Self

from purgatory.outcome import CANCELLED, COMPLETED, Outcome

if TYPE_CHECKING:
    from purgatory.deferred import DeferredOperation


class DeferredFuture(concurrent.futures.Future[Any]):
    """A ``concurrent.futures.Future`` whose end is that of its operation.

    ``result()``: the value of the completed key, or, with need > 1, a dict key -> value of those
    that completed it. Raises OperationExpired (a TimeoutError) after the timeout, and
    OperationCancelled when the purgatory ended it. ``asyncio.wrap_future`` awaits it.
    """

    def __init__(self) -> None:
        super().__init__()
        # Named only while it is pending: without the cycle both are freed with the last reference.
        self._operation: DeferredOperation | None = None
        self._cancel_asked = False

    def attach(self, operation: "DeferredOperation") -> Self:
        """Be the future of a submitted operation; called once, by who submits it."""
        self._operation = operation
        if operation.done():
            self._operation = None
        return self

    def cancel(self) -> bool:
        """Cancel the operation; False if it has ended otherwise."""
        self._cancel_asked = True
        operation = self._operation
        if operation is None:
            return self.cancelled()
        operation.cancel()
        # Another thread at work on the operation may have to tell us yet.
        return operation.cancelled()

    def end(self, outcome: Outcome, result: object) -> None:
        """Resolve to a result, or fail with an exception; called by the operation."""
        self._operation = None
        if outcome is COMPLETED:
            self.set_result(result)
        elif outcome is CANCELLED and self._cancel_asked:
            super().cancel()
            self.set_running_or_notify_cancel()
        else:
            assert isinstance(result, BaseException)
            self.set_exception(result)
