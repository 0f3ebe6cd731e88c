"""The Future form of a delayed operation: what `Purgatory.defer` returns."""

import concurrent.futures
from collections.abc import Hashable
from datetime import timedelta
from typing import Any

from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.keyed import KeyedOperation
from purgatory.operation import Outcome


class DeferredFuture(concurrent.futures.Future[Any]):
    """A ``concurrent.futures.Future`` whose end is that of its operation.

    ``result()``: the value of the completed key, or, with need > 1, a dict key -> value of those
    that completed it. Raises OperationExpired (a TimeoutError) after the timeout, and
    OperationCancelled when the purgatory ended it. ``asyncio.wrap_future`` awaits it.
    """

    def __init__(self, operation: "DeferredOperation") -> None:
        super().__init__()
        # None once it has ended: without the cycle both are freed with the last reference.
        self._operation: DeferredOperation | None = operation
        self._cancel_asked = False

    def cancel(self) -> bool:
        """Cancel the operation; False if it has ended otherwise."""
        self._cancel_asked = True
        operation = self._operation
        if operation is not None:
            operation.cancel()
        return self.cancelled()

    def end(self, outcome: Outcome, result: object) -> None:
        """Resolve to a result, or fail with an exception; called by the operation, once."""
        self._operation = None
        if outcome is Outcome.COMPLETED:
            self.set_result(result)
        elif outcome is Outcome.CANCELLED and self._cancel_asked:
            super().cancel()
            self.set_running_or_notify_cancel()
        else:
            assert isinstance(result, BaseException)
            self.set_exception(result)


class DeferredOperation(KeyedOperation):
    """A `KeyedOperation` that resolves a future."""

    __slots__ = ("_watch_keys", "future")

    def __init__(
        self, timeout: float | timedelta, need: int, watch_keys: tuple[Hashable, ...]
    ) -> None:
        super().__init__(timeout, need)
        self._watch_keys = watch_keys
        self.future = DeferredFuture(self)

    def on_complete(self) -> None:
        """Resolve the future, unless the operation expired."""
        if self._op_outcome is Outcome.COMPLETED:
            values = self.values
            self.future.end(Outcome.COMPLETED, values if self.need > 1 else values.get(self.by_key))

    def on_expiration(self) -> None:
        """Fail the future."""
        keys = ", ".join(map(repr, self._watch_keys))
        self.future.end(
            Outcome.EXPIRED,
            OperationExpired(f"{self.need} of {keys} not completed within {self.delay_ms} ms"),
        )

    def on_cancel(self) -> None:
        """Cancel or fail the future."""
        self.future.end(Outcome.CANCELLED, OperationCancelled("the operation was cancelled"))
