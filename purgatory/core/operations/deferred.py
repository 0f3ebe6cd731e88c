"""DeferredOperation: the operation behind a future of `Purgatory.defer`. Any thread.

Compiled, unlike the future. So the operation keeps the future's state, result and exception, and
resolves them in one section under its lock. After the end, it keeps only these.
"""

from collections.abc import Hashable
from datetime import timedelta
from typing import Any

from purgatory.core.operations.future import (
    CANCELLED_AND_NOTIFIED,
    FINISHED,
    PENDING,
    DeferredFuture,
)
from purgatory.core.operations.keyed import KeyedOperation, end_by_hand
from purgatory.core.operations.operation import check_not_forked
from purgatory.core.operations.operation_state import (
    CALLBACKS_DONE,
    COMPLETED,
    FAILED,
    ON_COMPLETE_CALLED,
    RELEASED,
    enter,
    first_of,
    leave,
)
from purgatory.core.operations.outcome_race import call_next
from purgatory.errors import OperationCancelled, OperationExpired
from timingwheel.lowlevel import COMPILED, to_ns


class DeferredOperation(KeyedOperation):
    """A `KeyedOperation` that resolves a future. `Purgatory.defer` makes both."""

    __slots__ = ("_watch_keys", "cancel_requested", "error", "future", "result", "state")

    def __init__(
        self, timeout: float | timedelta, need: int, watch_keys: tuple[Hashable, ...]
    ) -> None:
        super().__init__(timeout, need)
        self._op_has_condition = False
        self._watch_keys = watch_keys
        self.cancel_requested: bool = False  # by `DeferredFuture.cancel`
        # Set once a thread has registered the future; dropped at the end: no reference cycle.
        self.future: DeferredFuture | None = None
        # The future's _state, _result and _exception.
        self.state: object = PENDING
        self.result: object = None
        self.error: object = None

    def on_first_access(self, future: Any) -> None:
        """Register a future; see `LazyAttribute`.

        A reader either sees the future resolved or is registered before it resolves.
        """
        if COMPILED:
            enter(self)
            _register(self, future)
            leave(self)
        else:
            with self._op_lock:
                _register(self, future)

    def on_wait(self) -> None:
        """Warn if a thread is about to wait for a timeout that nothing drives.

        Raises PurgatoryForked in a forked child.
        """
        owner = self._op_owner
        if owner is not None:
            owner.check_not_forked()
            first_of(owner).warn_if_not_driven()

    def extend(self, timeout: float | timedelta) -> bool:
        """See `Purgatory.extend`."""
        to_ns(timeout, "timeout")  # raises also after the end
        owner = self._op_owner
        return owner is not None and owner.extend(self, timeout)

    def resolve_by_hand(self, result: object, error: BaseException | None) -> bool:
        """End the operation regardless of its keys; False if already ended.

        Raises PurgatoryForked in a forked child.
        """
        check_not_forked(self)
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
                except MemoryError as shortage:  # threads wait
                    error = shortage
            self.resolve(result, error)

    def on_expiration(self) -> None:
        """Fail the future."""
        try:
            keys = ", ".join(map(_safe_repr, self._watch_keys))
            error: Exception = OperationExpired(
                f"not completed within {self.delay_ms} ms: needed {self.need} of {keys}"
            )
        except MemoryError as shortage:  # threads wait
            error = shortage
        except BaseException:  # a key that raises on look-up, or an interrupt
            self.resolve(None, OperationExpired(f"not completed within {self.delay_ms} ms"))
            raise
        self.resolve(None, error)

    def on_failure(self) -> None:
        """Fail the future with the error."""
        self.resolve(None, self.failure)

    def on_cancel(self) -> None:
        """Cancel the future if its own `cancel` was called, else fail it."""
        if self.cancel_requested:
            self.resolve(None, None, CANCELLED_AND_NOTIFIED)
        else:
            try:
                error: Exception = OperationCancelled("the operation was cancelled")
            except MemoryError as shortage:  # threads wait
                error = shortage
            self.resolve(None, error)

    def resolve(self, result: object, error: BaseException | None, state: str = FINISHED) -> None:
        """Resolve the future; after an interrupt, a second call does the rest.

        The result of an error is its present traceback: `result()` raises with it.
        """
        if error is not None:
            result = error.__traceback__
        while not _try_store(self, result, error, state):
            pass  # a lock takes a few bytes
        future = self.future
        if future is not None:
            try:
                again = False
                while not _try_resolve(future, result, error, state, again):
                    again = True
            except Exception:  # resolved by foreign code
                self.future = None
                raise
        self.drop_references()

    def drop_references(self) -> None:
        """Keep only the result: a live future refers to its operation."""
        self.future = None
        self._op_owner = None
        self._watch_keys = ()

    def _op_on_raised(self, error: Exception) -> None:
        """Resolve the future: no further callback will.

        The callback is called again, for a signal handler may have raised the error.
        """
        if self._op_stage == CALLBACKS_DONE and self.is_unresolved():
            self._op_stage = ON_COMPLETE_CALLED
            try:
                call_next(self)
            except Exception:  # noqa: BLE001  # its own error
                self.resolve(None, error)

    def _op_on_interrupted(self) -> None:
        # The interrupt may have come before all waiting threads were told: they would hang.
        if self._op_stage <= RELEASED:
            return
        if self.is_unresolved():
            self._op_stage = RELEASED
        elif self.future is not None:
            self.future.tell_again()

    def is_unresolved(self) -> bool:
        """Whether the future is still to be resolved."""
        future = self.future
        return self.state == PENDING if future is None else not future.done()


# Sections under the operation's lock.


def _register(operation: DeferredOperation, future: DeferredFuture) -> None:
    if operation.state == PENDING:
        operation.future = future


def _store(
    operation: DeferredOperation, result: object, error: BaseException | None, state: str
) -> None:
    """Resolve the future, unless registered. A future registered later is done at once."""
    if operation.future is None:
        operation.result = result
        operation.error = error
        operation.state = state  # last: read without the lock


def _try_store(
    operation: DeferredOperation, result: object, error: BaseException | None, state: str
) -> bool:
    if COMPILED:
        enter(operation)
        _store(operation, result, error, state)
        leave(operation)
        return True
    try:
        with operation._op_lock:
            _store(operation, result, error, state)
    except MemoryError:
        return False
    return True


def _try_resolve(
    future: DeferredFuture, result: object, error: BaseException | None, state: str, again: bool
) -> bool:
    """Resolve a future; False if memory is short. `again`: after such an attempt."""
    try:
        if again and future.done():
            future.tell_again()
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
