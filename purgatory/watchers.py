"""WatchLists: watch key -> the operations that wait for it.

Exact at any moment: an operation is in the lists of all its keys or of none, a key without
operations takes no memory, and the counts are kept where the lists change.

One lock for all keys, held for as long as a few dictionary steps take. Kafka has 512 of them; in
Python the second lock costs more than the waiting it saves (one thread runs at a time). It is a
leaf: nothing of ours is called while it is held, only the ``__hash__`` and ``__eq__`` of keys.
"""

import threading
from collections.abc import Hashable

from purgatory.errors import PurgatoryClosed
from purgatory.operation import DelayedOperation, Outcome

# Most keys are watched by one operation: it stands for its list, which saves a dict a key. From
# the second on it is a dict in order of arrival, by id: user classes may compare as they like.
_Many = dict[int, DelayedOperation]


class WatchLists:
    """All methods may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()  # a key's __eq__ may come back to us
        self._of_key: dict[Hashable, DelayedOperation | _Many] = {}
        self.closed = False
        self.entries = 0  # pairs of operation and key
        self.pending = 0  # operations
        self.ended = dict.fromkeys(Outcome, 0)
        self.drained = threading.Event()  # closed, and nothing is pending

    def watch(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        """Put an operation on the lists of distinct keys. Raises PurgatoryClosed.

        One that has ended meanwhile stays off: who ended it has no need to come back.
        """
        with self._lock:
            self.refuse_if_closed()
            if operation._op_outcome is None:
                self._append_all(operation, keys)

    def refuse_if_closed(self) -> None:
        """Raise PurgatoryClosed when nothing may be watched any more."""
        if self.closed:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def refuse_if_ended(self) -> None:
        """Raise PurgatoryClosed when nothing is watched any more, either."""
        if self.drained.is_set():
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def _append_all(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        done = 0
        try:
            for key in keys:
                self._append(key, operation)
                done += 1
        except BaseException:  # a key that cannot be compared, an interrupt
            for key in keys[:done]:
                self._take_off(key, operation)
            raise
        self.pending += 1
        operation._op_keys = keys

    def _append(self, key: Hashable, operation: DelayedOperation) -> None:
        found = self._of_key.get(key)
        if found is None:
            self._of_key[key] = operation
        elif isinstance(found, dict):
            found[id(operation)] = operation
        else:
            self._of_key[key] = {id(found): found, id(operation): operation}
        self.entries += 1

    def release(self, operation: DelayedOperation, outcome: Outcome) -> None:
        """Take an operation off its lists, if it is on any, and count its outcome."""
        with self._lock:
            self.ended[outcome] += 1
            self.remove(operation)

    def remove(self, operation: DelayedOperation) -> None:
        """Take an operation off its lists, if it is on any."""
        with self._lock:
            keys = operation._op_keys
            if not keys:
                return
            operation._op_keys = ()
            self.pending -= 1
            for key in keys:
                self._take_off(key, operation)
            if self.closed and not self.pending:
                self.drained.set()

    def _take_off(self, key: Hashable, operation: DelayedOperation) -> None:
        found = self._of_key[key]
        self.entries -= 1
        if not isinstance(found, dict):
            del self._of_key[key]
            return
        del found[id(operation)]
        if not found:
            del self._of_key[key]

    def watching(self, key: Hashable) -> list[DelayedOperation]:
        """The operations that watch a key at this moment, first come first."""
        with self._lock:
            return _operations(self._of_key.get(key))

    def close(self) -> None:
        """Refuse to watch from now on."""
        with self._lock:
            self.closed = True
            if not self.pending:
                self.drained.set()

    def all(self) -> list[DelayedOperation]:
        """Every operation of this moment, once."""
        with self._lock:
            found = {
                id(operation): operation
                for value in self._of_key.values()
                for operation in _operations(value)
            }
            return list(found.values())

    def __len__(self) -> int:
        """How many keys are watched."""
        return len(self._of_key)

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken."""
        with self._lock:
            lists = {key: _operations(value) for key, value in self._of_key.items()}
            assert all(lists.values()), self._of_key
            assert self.entries == sum(map(len, lists.values())), (self.entries, lists)
            assert self.pending == len(self.all()), (self.pending, lists)
            for key, operations in lists.items():
                assert all(key in operation._op_keys for operation in operations), (key, operations)
            assert self.entries == sum(len(operation._op_keys) for operation in self.all()), lists

    def __repr__(self) -> str:
        return f"<WatchLists {self.pending} operations, {self.entries} entries, {len(self)} keys>"


def _operations(value: DelayedOperation | _Many | None) -> list[DelayedOperation]:
    if value is None:
        return []
    return list(value.values()) if isinstance(value, dict) else [value]
