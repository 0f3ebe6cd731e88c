"""The Future form of a delayed operation: what `Purgatory.defer` returns."""

import concurrent.futures
from collections.abc import Hashable
from datetime import timedelta
from typing import Any, Self

from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.keyed import KeyedOperation
from purgatory.operation import RELEASED, Outcome


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
        self.future = DeferredFuture()

    def _op_attempt(self) -> bool:
        # Keys complete it, and nothing else: there is no condition to ask.
        return False

    def on_complete(self) -> None:
        """Resolve the future, unless the operation expired."""
        if self._op_outcome is Outcome.COMPLETED:
            values = self.values
            self.future.end(Outcome.COMPLETED, values if self.need > 1 else values.get(self.by_key))

    def on_expiration(self) -> None:
        """Fail the future."""
        keys = ", ".join(map(_shown, self._watch_keys))
        self.future.end(
            Outcome.EXPIRED,
            OperationExpired(f"{self.need} of {keys} not completed within {self.delay_ms} ms"),
        )

    def on_cancel(self) -> None:
        """Cancel or fail the future."""
        self.future.end(Outcome.CANCELLED, OperationCancelled("the operation was cancelled"))

    def _op_interrupted(self) -> None:
        # What an interrupt kept from the future comes again: those who wait must not hang.
        if self._op_stage > RELEASED and not self.future.done():
            self._op_stage = RELEASED


def _shown(key: Hashable) -> str:
    try:
        return repr(key)
    except Exception:  # noqa: BLE001  # a key that cannot be shown still expires
        return object.__repr__(key)
