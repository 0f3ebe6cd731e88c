"""KeyedOperation: completes once `need` distinct watch keys have been completed."""

import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Final

from purgatory.core._cpython.mypyc_types import mypyc_attr
from purgatory.core.lifecycle import finalize, try_set_outcome
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import COMPLETED
from timingwheel.lowlevel import ATOMIC_SECTIONS

# Stands for "no value": any other object may be a value.
_NO_VALUE: Final = object()


@mypyc_attr(allow_interpreted_subclasses=True)
class KeyedOperation(DelayedOperation):
    """Waits for `need` of its keys; the first completion of a key counts, with its value.

    `check_and_complete` of a key does not affect it: a key counts when it is *completed*.
    """

    __slots__ = ("_op_value", "_op_values", "_op_values_lock", "by_key", "need")

    def __init__(self, timeout: float | timedelta, need: int = 1) -> None:
        super().__init__(timeout)
        # KeyedOperation has no condition of its own; only subclasses define try_complete().
        self._op_has_condition = type(self) is not KeyedOperation
        self.need = need
        self.by_key: Hashable = None  # the key that completed it; set before the outcome
        self._op_value: object = _NO_VALUE  # of by_key
        # The values of all keys so far, and the lock that guards counting them; unless one key is
        # enough. __hash__ and __eq__ of keys run under it, and may re-enter. Order: before
        # _op_lock.
        self._op_values: dict[Hashable, object] | None = None
        self._op_values_lock: AbstractContextManager[bool] | None = None
        if need != 1:
            self._op_values = {}
            self._op_values_lock = threading.RLock()

    @property
    def values(self) -> dict[Hashable, object]:
        """Key -> value of the keys completed so far, in order; a copy."""
        values = self._op_values
        if values is not None:
            with self._op_values_lock:  # type: ignore[union-attr]
                return dict(values)
        return {} if self._op_value is _NO_VALUE else {self.by_key: self._op_value}

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """Count the completion of a key. True if this call completed the operation."""
        won = False
        try:
            if self._op_values_lock is not None:
                with self._op_values_lock:
                    if self._op_count(key, value):
                        if ATOMIC_SECTIONS:
                            won = _try_complete_by(self, key, value)
                        else:
                            with self._op_lock:  # type: ignore[union-attr]
                                won = _try_complete_by(self, key, value)
            elif ATOMIC_SECTIONS:
                won = _try_complete_by(self, key, value)
            else:
                with self._op_lock:  # type: ignore[union-attr]
                    won = _try_complete_by(self, key, value)
            if won:
                finalize(self, COMPLETED)
        except BaseException:
            if won:
                finalize(self, COMPLETED)
            raise
        return won

    def _op_count(self, key: Hashable, value: object) -> bool:
        """Note the first completion of a key; whether there have been enough. Locked."""
        values = self._op_values
        assert values is not None
        if self._op_outcome is None:
            if key not in values:
                values[key] = value
            return len(values) >= self.need
        return False


def _try_complete_by(operation: KeyedOperation, key: Hashable, value: object) -> bool:
    """Win the race for a key, or return False. Locked, or in an atomic section."""
    # Checked again: a key's __eq__ may have re-entered and ended the operation.
    if operation._op_outcome is not None:
        return False
    # Before the outcome: a thread that sees the operation completed finds its key.
    operation.by_key = key
    operation._op_value = value
    try:
        return try_set_outcome(operation, COMPLETED)
    except BaseException:  # an interrupt on entering: the operation is still pending
        operation.by_key = None
        operation._op_value = _NO_VALUE
        raise
