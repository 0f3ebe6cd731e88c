"""DeferredOperation: the operation behind a future of `Purgatory.defer`.

Compiled; the future itself is not: it inherits from the standard library's, which is Python. Where
there are steps, the operation keeps what the future shows, state, result and exception: there they
are fields of a compiled object, and to end the future is one step that does not touch it at all. It
goes on to keep them when it has ended, and lets go of all else. Where there are no steps the future
keeps them itself.
"""

from collections.abc import Hashable
from datetime import timedelta
from typing import Any

from purgatory.core.future import CANCELLED, FINISHED, PENDING, DeferredFuture
from purgatory.core.keyed import KeyedOperation
from purgatory.core.lifecycle import RELEASED
from purgatory.core.outcome import COMPLETED
from purgatory.errors import OperationCancelled, OperationExpired
from timingwheel.lowlevel import ATOMIC_SECTIONS


class DeferredOperation(KeyedOperation):
    """A `KeyedOperation` that resolves a future. Made together by `Purgatory.defer`."""

    __slots__ = ("_watch_keys", "cancel_requested", "error", "future", "result", "state")

    def __init__(
        self, timeout: float | timedelta, need: int, watch_keys: tuple[Hashable, ...]
    ) -> None:
        super().__init__(timeout, need)
        self._op_has_condition = False  # keys complete it, and nothing else: there is no condition
        self._watch_keys = watch_keys
        self.cancel_requested = False  # by the future's owner
        if ATOMIC_SECTIONS:
            # The future to be told of the end: one that somebody looks at, or, where there are no
            # steps, any (`PurgatoryCore.defer` sets it). Not longer, or the two would be a cycle.
            self.future: DeferredFuture | None = None
            # What the future shows as _state, _result and _exception.
            self.state: object = PENDING
            self.result: object = None
            self.error: object = None

    def on_first_access(self, future: Any) -> None:
        """Note that somebody looks at what the future makes on demand; he does so afterwards."""
        # One step: who looks finds the end, or is found by who tells of it.
        if self.state == PENDING:
            self.future = future

    def on_complete(self) -> None:
        """Resolve the future, unless the operation expired."""
        if self._op_outcome is COMPLETED:
            self._resolve(self.values if self.need > 1 else self._op_value, None)

    def on_expiration(self) -> None:
        """Fail the future."""
        keys = ", ".join(map(_safe_repr, self._watch_keys))
        self._resolve(
            None, OperationExpired(f"{self.need} of {keys} not completed within {self.delay_ms} ms")
        )

    def on_cancel(self) -> None:
        """Cancel the future if that was asked of it, else fail it."""
        if self.cancel_requested:
            self._resolve(None, None, CANCELLED)
        else:
            self._resolve(None, OperationCancelled("the operation was cancelled"))

    def _resolve(self, result: object, error: Exception | None, state: str = FINISHED) -> None:
        future = self.future
        if ATOMIC_SECTIONS and future is None:
            # One step. Nobody looks at it, and who begins to look from now on finds it done.
            self.result = result
            self.error = error
            self.state = state
        elif future is not None:
            try:
                if state == CANCELLED:
                    future.set_cancelled()
                elif error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)
            except Exception:  # its owner has ended it by hand; he is told, and no cycle is left
                self.future = None
                raise
        # The future refers to us for as long as there is one.
        self.future = None
        self._op_owner = None
        self._watch_keys = ()

    def _op_on_interrupted(self) -> None:
        # What an interrupt kept from the future comes again: those who wait must not hang.
        if self._op_stage > RELEASED and self._unresolved():
            self._op_stage = RELEASED

    def _unresolved(self) -> bool:
        future = self.future
        return (ATOMIC_SECTIONS and self.state == PENDING) if future is None else not future.done()


def _safe_repr(key: Hashable) -> str:
    try:
        return repr(key)
    except Exception:  # noqa: BLE001  # a key that cannot be shown still expires
        return object.__repr__(key)
