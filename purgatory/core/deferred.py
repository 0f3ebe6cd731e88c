"""DeferredOperation: the operation behind a future of `Purgatory.defer`.

Compiled; the future is not, since it inherits from the standard library's. Where sections are
atomic the operation keeps what the future shows: its state, result and exception. They are fields
of a compiled object there, so that resolving the future is one atomic section that does not touch
the future at all. The operation keeps them after its end, and drops all other references. Where
sections are not atomic the future keeps them itself.
"""

from collections.abc import Hashable
from datetime import timedelta
from typing import Any

from purgatory.core.future import CANCELLED_AND_NOTIFIED, FINISHED, PENDING, DeferredFuture
from purgatory.core.keyed import KeyedOperation, end_by_hand
from purgatory.core.operation_state import RELEASED
from purgatory.core.outcome import COMPLETED, FAILED
from purgatory.errors import OperationCancelled, OperationExpired
from timingwheel.lowlevel import ATOMIC_SECTIONS, to_ns


class DeferredOperation(KeyedOperation):
    """A `KeyedOperation` that resolves a future. `Purgatory.defer` makes both."""

    __slots__ = ("_watch_keys", "cancel_requested", "error", "future", "result", "state")

    def __init__(
        self, timeout: float | timedelta, need: int, watch_keys: tuple[Hashable, ...]
    ) -> None:
        super().__init__(timeout, need)
        self._op_has_condition = False  # only keys complete it
        self._watch_keys = watch_keys
        self.cancel_requested = False  # by `DeferredFuture.cancel`
        if ATOMIC_SECTIONS:
            # The future to resolve: one that a thread has registered, or, where sections are not
            # atomic, any (`Purgatory.defer` sets it). Dropped at the end, or the two would be a
            # reference cycle.
            self.future: DeferredFuture | None = None
            # What the future shows as _state, _result and _exception.
            self.state: object = PENDING
            self.result: object = None
            self.error: object = None

    def on_first_access(self, future: Any) -> None:
        """Register a future of which a lazy attribute is about to be accessed."""
        # Atomic: a reader either sees the future resolved or is registered before it resolves.
        if self.state == PENDING:
            self.future = future

    def on_wait(self) -> None:
        """Warn if a thread is about to wait for a timeout that nothing drives."""
        owner = self._op_owner
        if owner is not None:
            owner.warn_if_not_driven()

    def extend(self, timeout: float | timedelta) -> bool:
        """Let its timeout count anew from now; False if it has ended."""
        to_ns(timeout)  # a bad one is an error in any case
        owner = self._op_owner
        return owner is not None and owner.extend(self, timeout)

    def resolve_by_hand(self, result: object, error: BaseException | None) -> bool:
        """End it as the program says, whatever its keys; False if it has ended."""
        if error is not None:
            return end_by_hand(self, FAILED, error)
        return end_by_hand(self, COMPLETED, result)

    def on_complete(self) -> None:
        """Resolve the future, unless the operation expired."""
        if self._op_outcome is COMPLETED:
            result: object = self._op_value
            error: Exception | None = None
            if self._op_values is not None:
                try:
                    result = self.values
                except MemoryError as shortage:  # threads wait for the future all the same
                    error = shortage
            self._resolve(result, error)

    def on_expiration(self) -> None:
        """Fail the future."""
        try:
            keys = ", ".join(map(_safe_repr, self._watch_keys))
            error: Exception = OperationExpired(
                f"{self.need} of {keys} not completed within {self.delay_ms} ms"
            )
        except MemoryError as shortage:  # threads wait for the future all the same
            error = shortage
        self._resolve(None, error)

    def on_failure(self) -> None:
        """Fail the future with the error."""
        self._resolve(None, self.failure)

    def on_cancel(self) -> None:
        """Cancel the future if its own `cancel` was called, else fail it."""
        if self.cancel_requested:
            self._resolve(None, None, CANCELLED_AND_NOTIFIED)
        else:
            try:
                error: Exception = OperationCancelled("the operation was cancelled")
            except MemoryError as shortage:  # threads wait for the future all the same
                error = shortage
            self._resolve(None, error)

    def _resolve(self, result: object, error: BaseException | None, state: str = FINISHED) -> None:
        future = self.future
        if ATOMIC_SECTIONS and future is None:
            # Atomic. No future is registered, and one that registers from now on is done.
            self.result = result
            self.error = error
            self.state = state
        elif future is not None:
            try:
                again = False
                while not _try_resolve(future, result, error, state, again):
                    again = True  # it takes a few bytes, which other threads give back
            except Exception:  # resolved behind its back; reported, and no cycle is left
                self.future = None
                raise
        # The future refers to its operation as long as it lives.
        self.future = None
        self._op_owner = None
        self._watch_keys = ()

    def _op_on_interrupted(self) -> None:
        # An interrupt may have kept the future from being resolved: call the callback again, or
        # threads that wait for the future would hang. Or they were not all told.
        if self._op_stage <= RELEASED:
            return
        if self._unresolved():
            self._op_stage = RELEASED
        elif self.future is not None:
            self.future.tell_waiters()

    def _unresolved(self) -> bool:
        future = self.future
        if future is None:
            return ATOMIC_SECTIONS and self.state == PENDING
        return not future.done()


def _try_resolve(
    future: DeferredFuture, result: object, error: BaseException | None, state: str, again: bool
) -> bool:
    """Resolve a future; False if there is no memory for that now. `again`: it was tried before."""
    try:
        if again and future.done():  # but its waiters may not have been told
            future.tell_waiters()
        elif state == CANCELLED_AND_NOTIFIED:
            future.set_cancelled()
        else:
            future.set_finished(result, error)
    except MemoryError:
        return False
    return True


def _safe_repr(key: Hashable) -> str:
    try:
        return repr(key)
    except Exception:  # noqa: BLE001  # a key that cannot be shown still expires
        return object.__repr__(key)
