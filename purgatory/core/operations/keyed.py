"""KeyedOperation: completes once `need` distinct watch keys have been completed."""

from collections.abc import Hashable
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any, Final, cast

from _purgatory_cpython.locks import freed_at_exit
from _purgatory_cpython.mypyc_types import mypyc_attr
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import (
    COMPLETED,
    FAILED,
    PROGRESSED,
    UNAFFECTED,
    WON,
    Claim,
    OperationOwner,
    Outcome,
    enter,
    leave,
    prepare_operation,
)
from purgatory.core.operations.outcome_race import finalize, try_set_outcome
from timingwheel.lowlevel import COMPILED, keep_for_ever, new_hot_rlock, plain_int

_NO_VALUE: Final = object()
keep_for_ever(_NO_VALUE)
_NO_LOCK: Final = nullcontext()


@mypyc_attr(allow_interpreted_subclasses=True)
class KeyedOperation(DelayedOperation):
    """Waits for `need` of its keys; the first completion of a key counts, with its value.

    `check_and_complete` of a key does not affect it: a key counts when it is *completed*. If an
    uncounted key fails, the operation fails, whatever its need.
    """

    __slots__ = ("_op_value", "_op_values", "_op_values_lock", "by_key", "need")

    # `need`: compiled, an int would take a bool for one.
    def __init__(self, timeout: float | timedelta, need: Any = 1) -> None:
        super().__init__(timeout)
        # Only subclasses define try_complete().
        self._op_has_condition = type(self) is not KeyedOperation
        self.need: int = need if type(need) is int else plain_int("need", need)
        self.by_key: Hashable = None  # set before the outcome
        self._op_value: object = _NO_VALUE  # of by_key
        # If need > 1: the values of all keys so far, and the lock of counting. __hash__ and __eq__
        # of keys run under the lock, and may re-enter. Lock order: before _op_lock.
        self._op_values: dict[Hashable, object] | None = None
        self._op_values_lock: AbstractContextManager[bool] | None = None
        if self.need != 1:
            self._op_values = {}
            self._op_values_lock = new_hot_rlock()

    @property
    def values(self) -> dict[Hashable, object]:
        """Key -> value of the keys completed so far, in order; a copy."""
        values = self._op_values
        if values is not None:
            with freed_at_exit(self._op_values_lock):
                return dict(values)
        if self._op_value is _NO_VALUE or self._op_outcome is FAILED:
            return {}
        return {self.by_key: self._op_value}

    @property
    def failure(self) -> BaseException | None:
        """The error of a failed operation; else None."""
        if self._op_outcome is not FAILED:
            return None
        return cast("BaseException", self._op_value)

    def on_failure(self) -> object:
        """Called exactly once, when a key failed: see `failure`; no other callback follows."""
        return None

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        won = False
        try:
            if self._op_values_lock is not None:
                won = _count_key(self, key, value) == WON
            elif COMPILED:
                enter(self)
                won = _try_end(self, COMPLETED, key, value)
                leave(self)
            else:
                with self._op_lock:
                    won = _try_end(self, COMPLETED, key, value)
            if won:
                finalize(self, COMPLETED)
        except BaseException:
            if won:
                finalize(self, COMPLETED)
            raise
        return won

    def _op_count_key(self, key: Hashable, value: object, claim: Claim) -> int:
        del claim  # no condition is checked
        return _count_key(self, key, value)

    def _op_forget_counted(self) -> None:
        if self._op_values is not None:
            with freed_at_exit(self._op_values_lock):
                self._op_values.clear()

    def _op_fail_key(self, key: Hashable, error: BaseException) -> bool:
        """Fail, unless the key has counted."""
        return end_by_hand(self, FAILED, error, (key,))

    def _op_count(self, key: Hashable, value: object) -> int:
        """Note the first completion of a key. Locked."""
        values = self._op_values
        if self._op_outcome is not None or values is None:
            return UNAFFECTED
        is_new = key not in values
        if is_new:
            values[key] = value
        if len(values) >= self.need:
            return WON
        return PROGRESSED if is_new else UNAFFECTED


def prepare_keyed(
    operation: KeyedOperation, need: int, owner: OperationOwner, lock: AbstractContextManager[bool]
) -> None:
    """See `prepare_operation`; without a condition."""
    prepare_operation(operation, owner, lock)
    operation.need = need
    operation.by_key = None
    operation._op_value = _NO_VALUE
    operation._op_values = None
    operation._op_values_lock = None
    if need != 1:
        operation._op_values = {}
        operation._op_values_lock = lock


def _count_key(operation: KeyedOperation, key: Hashable, value: object) -> int:
    """Count the completion of a key. If this raises after WON, the operation is finalized."""
    effect = WON
    won = False
    values_lock = operation._op_values_lock
    try:
        with _NO_LOCK if values_lock is None else freed_at_exit(values_lock):
            if values_lock is not None:
                effect = operation._op_count(key, value)
            if effect == WON:
                if COMPILED:
                    enter(operation)
                    won = _try_end(operation, COMPLETED, key, value)
                    leave(operation)
                else:
                    with operation._op_lock:
                        won = _try_end(operation, COMPLETED, key, value)
    except BaseException:  # an interrupt
        if won:
            finalize(operation, COMPLETED)
        raise
    return effect if won or effect != WON else UNAFFECTED


def end_by_hand(
    operation: KeyedOperation, outcome: Outcome, value: object, uncounted: tuple[Hashable, ...] = ()
) -> bool:
    """End the operation whatever its need, with a value or an error; False if already ended.

    `uncounted`: end only if none of these keys has counted. Without any, counted values are
    dropped.
    """
    won = False
    values_lock = operation._op_values_lock
    try:
        with _NO_LOCK if values_lock is None else freed_at_exit(values_lock):
            if _drops_values(operation, uncounted):
                if COMPILED:
                    enter(operation)
                    won = _try_end(operation, outcome, None, value)
                    leave(operation)
                else:
                    with operation._op_lock:
                        won = _try_end(operation, outcome, None, value)
        if won:
            finalize(operation, outcome)
    except BaseException:
        if won:
            finalize(operation, outcome)
        raise
    return won


def _drops_values(operation: KeyedOperation, uncounted: tuple[Hashable, ...]) -> bool:
    values = operation._op_values
    if not uncounted:
        if operation._op_outcome is None:
            operation._op_values = None
    elif values is not None:
        for key in uncounted:
            if key in values:
                return False
    return True


def _try_end(operation: KeyedOperation, outcome: Outcome, key: Hashable, value: object) -> bool:
    """Win the race, or return False. Locked, or in an atomic section."""
    # A key's __eq__ may have re-entered and ended the operation.
    if operation._op_outcome is not None:
        return False
    # Before the outcome: threads that see the end find key and value.
    operation.by_key = key
    operation._op_value = value
    try:
        return try_set_outcome(operation, outcome)
    except BaseException:  # an interrupt: still pending
        operation.by_key = None
        operation._op_value = _NO_VALUE
        raise
