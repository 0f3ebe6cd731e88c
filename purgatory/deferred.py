"""DeferredOperation: the operation behind a future of `Purgatory.defer`.

Compiled; the future itself is not: it inherits from the standard library's, which is Python. Where
there are steps, what is done to each future is done here.
"""

from collections.abc import Hashable
from datetime import timedelta
from typing import Final

from purgatory.errors import OperationCancelled, OperationExpired
from purgatory.future import FINISHED, PENDING, DeferredFuture
from purgatory.keyed import KeyedOperation
from purgatory.operation import RELEASED
from purgatory.outcome import COMPLETED
from timingwheel import STEPS

# Bound once: compiled, that saves a look into the module's dict for each operation.
_future: Final[type[DeferredFuture]] = DeferredFuture


class DeferredOperation(KeyedOperation):
    """A `KeyedOperation` that resolves a future."""

    __slots__ = ("_watch_keys", "future")

    def __init__(
        self, timeout: float | timedelta, need: int, watch_keys: tuple[Hashable, ...]
    ) -> None:
        super().__init__(timeout, need)
        self._op_asks = False  # keys complete it, and nothing else: there is no condition
        self._watch_keys = watch_keys
        future: DeferredFuture = _future()
        self.future = future
        if STEPS:  # its constructor does nothing
            future._state = PENDING
            future._result = None
            future._exception = None
        future._operation = self

    def on_complete(self) -> None:
        """Resolve the future, unless the operation expired."""
        if self._op_outcome is COMPLETED:
            self._end(self.values if self.need > 1 else self._op_value, None)

    def on_expiration(self) -> None:
        """Fail the future."""
        keys = ", ".join(map(_shown, self._watch_keys))
        self._end(
            None, OperationExpired(f"{self.need} of {keys} not completed within {self.delay_ms} ms")
        )

    def on_cancel(self) -> None:
        """Cancel or fail the future."""
        self.future._operation = None
        self.future.end_cancelled(OperationCancelled("the operation was cancelled"))

    def _end(self, result: object, error: OperationExpired | None) -> None:
        future = self.future
        future._operation = None
        if STEPS and not future._shared and future._state == PENDING:
            # One step. Nobody looks at it, and who begins to look from now on finds it done.
            future._result = result
            if error is not None:
                future._exception = error
            future._state = FINISHED
        elif error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _op_interrupted(self) -> None:
        # What an interrupt kept from the future comes again: those who wait must not hang.
        if self._op_stage > RELEASED and not self.future.done():
            self._op_stage = RELEASED


def _shown(key: Hashable) -> str:
    try:
        return repr(key)
    except Exception:  # noqa: BLE001  # a key that cannot be shown still expires
        return object.__repr__(key)
