"""KeyedOperation: completes once ``need`` distinct watch keys have been completed."""

import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Final

from purgatory.core.lifecycle import finalize
from purgatory.core.mypyc_types import mypyc_attr
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import COMPLETED
from timingwheel.lowlevel import ATOMIC_SECTIONS

# No value yet: any other object may be one.
_NOTHING: Final = object()


@mypyc_attr(allow_interpreted_subclasses=True)
class KeyedOperation(DelayedOperation):
    """Waits for ``need`` of its keys; the first completion of a key counts, with its value.

    `check_and_complete` of a key leaves it alone: a key counts when it is *completed*.
    """

    __slots__ = ("_op_value", "_op_values", "_op_values_lock", "by_key", "need")

    def __init__(self, timeout: float | timedelta, need: int = 1) -> None:
        super().__init__(timeout)
        # Of this very class there is no condition; whether of one that inherits from it, it knows.
        self._op_has_condition = type(self) is not KeyedOperation
        self.need = need
        self.by_key: Hashable = None  # the key that completed it; set together with the outcome
        self._op_value: object = _NOTHING  # of by_key
        # Of all keys so far, and what guards them and their counting, where one is not enough. The
        # keys' __hash__ and __eq__ run under it, and may come back. Order: before _op_lock.
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
        return {} if self._op_value is _NOTHING else {self.by_key: self._op_value}

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """Count the completion of a key. True if this call completed the operation."""
        won = False
        try:
            if self._op_values_lock is not None:
                with self._op_values_lock:
                    if self._op_count(key, value):
                        if ATOMIC_SECTIONS:
                            won = _try_set_outcome_by(self, key, value)
                        else:
                            with self._op_lock:  # type: ignore[union-attr]
                                won = _try_set_outcome_by(self, key, value)
            elif ATOMIC_SECTIONS:
                won = _try_set_outcome_by(self, key, value)
            else:
                with self._op_lock:  # type: ignore[union-attr]
                    won = _try_set_outcome_by(self, key, value)
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


def _try_set_outcome_by(operation: KeyedOperation, key: Hashable, value: object) -> bool:
    # Asked again: a key's __eq__ may have come back to us and ended it.
    if operation._op_outcome is not None:
        return False
    operation.by_key = key
    operation._op_value = value
    operation._op_outcome = COMPLETED
    return True
