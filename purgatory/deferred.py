"""DeferredOperation: the operation behind a future of `Purgatory.defer`.

Compiled; the future itself is not: it inherits from the standard library's, which is Python.
"""

from collections.abc import Hashable
from datetime import timedelta

from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.future import DeferredFuture
from purgatory.keyed import KeyedOperation
from purgatory.operation import RELEASED
from purgatory.outcome import CANCELLED, COMPLETED, EXPIRED


class DeferredOperation(KeyedOperation):
    """A `KeyedOperation` that resolves a future."""

    __slots__ = ("_watch_keys", "future")

    def __init__(
        self, timeout: float | timedelta, need: int, watch_keys: tuple[Hashable, ...]
    ) -> None:
        super().__init__(timeout, need)
        self._op_asks = False  # keys complete it, and nothing else: there is no condition
        self._watch_keys = watch_keys
        self.future = DeferredFuture()

    def on_complete(self) -> None:
        """Resolve the future, unless the operation expired."""
        if self._op_outcome is COMPLETED:
            self.future.end(COMPLETED, self.values if self.need > 1 else self._op_value)

    def on_expiration(self) -> None:
        """Fail the future."""
        keys = ", ".join(map(_shown, self._watch_keys))
        self.future.end(
            EXPIRED,
            OperationExpired(f"{self.need} of {keys} not completed within {self.delay_ms} ms"),
        )

    def on_cancel(self) -> None:
        """Cancel or fail the future."""
        self.future.end(CANCELLED, OperationCancelled("the operation was cancelled"))

    def _op_interrupted(self) -> None:
        # What an interrupt kept from the future comes again: those who wait must not hang.
        if self._op_stage > RELEASED and not self.future.done():
            self._op_stage = RELEASED


def _shown(key: Hashable) -> str:
    try:
        return repr(key)
    except Exception:  # noqa: BLE001  # a key that cannot be shown still expires
        return object.__repr__(key)
