"""KeyedOperation: completes once ``need`` distinct watch keys have been completed."""

import threading
from collections.abc import Hashable
from datetime import timedelta

from purgatory.operation import DelayedOperation, Keeper, Outcome


class KeyedOperation(DelayedOperation):
    """Waits for ``need`` of its keys; the first completion of a key counts, with its value.

    `check_and_complete` of a key leaves it alone: a key counts when it is *completed*.
    """

    __slots__ = ("_op_values", "by_key", "need")

    def __init__(self, timeout: float | timedelta, need: int = 1) -> None:
        super().__init__(timeout)
        # The keys' __hash__ and __eq__ run under it, and may come back to us.
        self._op_lock = threading.RLock()
        self.need = need
        # Guarded by _op_lock, as by_key; both fixed once the operation has ended.
        self._op_values: dict[Hashable, object] = {}
        self.by_key: Hashable = None  # the key that completed it

    @property
    def values(self) -> dict[Hashable, object]:
        """Key -> value of the keys completed so far, in order; a copy."""
        with self._op_lock:
            return dict(self._op_values)

    def _op_enter(self, keeper: Keeper, keys: tuple[Hashable, ...]) -> bool:
        check_need(self.need, len(keys))
        return super()._op_enter(keeper, keys)

    def _op_complete_key(self, key: Hashable, value: object) -> bool:
        """Count the completion of a key. True if this call completed the operation."""
        won = False
        try:
            with self._op_lock:
                if self._op_outcome is None:
                    if key not in self._op_values:
                        self._op_values[key] = value
                    # Asked again: a key's __eq__ may have come back to us and ended it.
                    if len(self._op_values) >= self.need and self._op_outcome is None:
                        # No call between these: an interrupt finds all done or none.
                        self.by_key = key
                        won = True
                        self._op_outcome = Outcome.COMPLETED
            if won:
                self._op_leave(Outcome.COMPLETED)
        except BaseException:
            if won:
                self._op_leave(Outcome.COMPLETED)
            raise
        return won


def distinct_keys(keys: object) -> tuple[Hashable, ...]:
    """Watch keys without duplicates, in order.

    TypeError for what is no collection, a single str or bytes, and unhashable keys; ValueError
    when there are none.
    """
    if isinstance(keys, (str, bytes)):
        raise TypeError(f"keys is {keys!r}; expected a collection of keys, such as [{keys!r}]")
    try:
        distinct = tuple(dict.fromkeys(keys))  # type: ignore[call-overload]
    except TypeError as error:
        raise TypeError(f"keys is {keys!r}; expected a collection of hashable keys") from error
    if not distinct:
        raise ValueError("keys is empty; expected at least one watch key")
    return distinct


def check_need(need: int, keys: int) -> None:
    """TypeError or ValueError for a ``need`` that ``keys`` distinct keys cannot meet."""
    if isinstance(need, bool) or not isinstance(need, int):
        raise TypeError(f"need is {need!r}; expected an int")
    if not 1 <= need <= keys:
        raise ValueError(f"need is {need!r}; expected 1 to {keys}, the number of distinct keys")
