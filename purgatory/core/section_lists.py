"""The watch lists where the code is compiled: changes that are sections, without the lock.

While all keys are of built-in types (see `keys`), a change is an atomic section. A change in the
middle of another takes the lock, and is deferred.

Without the interpreter lock, threads wait for each other at a shared lock, dict or count. So there
the keys are spread by hash over several shards, each with all of these. A section enters the shards
of its keys, in their order. Any other change enters all shards; no foreign code runs under one
shard's lock, so there is no deadlock. See "Without the interpreter lock" in docs/performance.md.
Any thread.
"""

from collections.abc import Hashable
from typing import Final

from _purgatory_cpython.atomicity import ATOMIC_SECTIONS, LOCKED_SECTIONS, SETDEFAULT_FAILS_SAFELY
from _purgatory_cpython.sections import enter_section, leave_section, part_of, sixteenth_of
from purgatory.core.keys import are_builtin_keys, is_builtin_key
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import OperationState, Outcome
from purgatory.core.watch_lists import WatchLists, WatchShard, operations_of

# Bound once: compiled code looks up no module's dict.
_enter_section: Final = enter_section
_leave_section: Final = leave_section
_part_of: Final = part_of
_sixteenth_of: Final = sixteenth_of

SHARDS: Final = 16


def new_watch_lists(name: str) -> WatchLists:
    """Return watch lists of the kind that is quickest here."""
    if ATOMIC_SECTIONS:
        return AtomicWatchLists(name)
    return ShardedWatchLists(name) if LOCKED_SECTIONS else WatchLists(name)


class AtomicWatchLists(WatchLists):
    """Watch lists with the interpreter lock, which compiled code keeps until its next call."""

    def _may_be_section(self) -> bool:
        """Tell whether what follows runs no foreign code. Under the lock of a shard, if locked.

        False in the middle of another change, while keys may run code, and after `close`, when the
        last removal sets an event.
        """
        return self._builtin_keys_only and not (self._changing or self.closed)

    def watch(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        operation._op_sequence = None
        if not (
            SETDEFAULT_FAILS_SAFELY and are_builtin_keys(keys) and self._try_append(operation, keys)
        ):
            super().watch(operation, keys)

    def _try_append(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> bool:
        """Do as `_append_all`, looking up each key once; False if not atomic.

        Not atomic if the operation is the second of a key: a new dict may run the cycle collector.
        Nor if a dict cannot grow: `_append_all` tries again. Saves 16 % of a pair of submission and
        completion (callgrind).
        """
        if not self._may_be_section():
            return False
        if operation._op_outcome is not None:
            return True
        shard = self._first
        n = 0
        try:
            while n < len(keys):
                found = shard.of_key.setdefault(keys[n], operation)
                if found is not operation:
                    if not isinstance(found, dict):
                        break
                    found[shard.sequence_of(operation)] = operation
                shard.entries += 1
                n += 1
        except MemoryError:
            pass
        if n < len(keys):
            for done in range(n):
                shard.remove(keys[done], operation)
            return False
        shard.pending += 1
        operation._op_keys = keys
        return True

    def _append_all(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        if not are_builtin_keys(keys):
            self._builtin_keys_only = False
        super()._append_all(operation, keys)

    def release(self, operation: OperationState, outcome: Outcome) -> Exception | None:
        if not self._may_be_section():
            return super().release(operation, outcome)
        self._first.count(operation, outcome)
        return self._unwatch(self._first, operation)

    def watchers_of(self, key: Hashable) -> list[DelayedOperation]:
        if is_builtin_key(key) and self._may_be_section():
            return operations_of(self._first.of_key.get(key))
        return super().watchers_of(key)

    def sole_watcher(self, key: Hashable) -> DelayedOperation | None:
        """See `WatchLists`. Spares most completions a list: 4 % of submission and completion."""
        if is_builtin_key(key) and self._may_be_section():
            found = self._first.of_key.get(key)
            if isinstance(found, DelayedOperation):
                return found
        return None


class ShardedWatchLists(AtomicWatchLists):
    """Watch lists without the interpreter lock: sections lock their keys' shards."""

    def __init__(self, name: str) -> None:
        shards = [WatchShard(number) for number in range(SHARDS)]
        super().__init__(name, shards, LockOfAll(shards))
        self._parts: Final = tuple(shards)

    def _shard_of(self, key: Hashable) -> WatchShard:
        return _part_of(self._parts, key)

    def _enter(self, shard: WatchShard) -> bool:
        """Begin a section in a single shard; False if impossible. The caller leaves its lock."""
        _enter_section(shard.lock)
        if self._may_be_section():
            return True
        _leave_section(shard.lock)
        return False

    def _enter_all(self, keys: tuple[Hashable, ...]) -> int:
        """Take the locks of the shards of built-in keys; a number for `_leave_all`."""
        found = 0
        for key in keys:
            found |= 1 << _sixteenth_of(key)
        for number in range(SHARDS):
            if found >> number & 1:
                _enter_section(self._shards[number].lock)
        return found

    def _leave_all(self, entered: int) -> None:
        number = 0
        while entered >> number:
            if entered >> number & 1:
                _leave_section(self._shards[number].lock)
            number += 1

    def _try_append(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> bool:
        """See `AtomicWatchLists`; False if impossible.

        A new dict is possible here: the collector waits for interpreted code.
        """
        shard = self._shard_of(keys[0])
        if len(keys) > 1:
            entered = self._enter_all(keys)
            appended = self._may_be_section() and self._append_locked(shard, operation, keys)
            self._leave_all(entered)
            return appended
        if not self._enter(shard):
            return False
        appended = self._append_locked(shard, operation, keys)
        _leave_section(shard.lock)
        return appended

    def _append_locked(
        self, shard: WatchShard, operation: DelayedOperation, keys: tuple[Hashable, ...]
    ) -> bool:
        """Append it in a section; False if a dict cannot grow. `shard`: of the first key."""
        if operation._op_outcome is not None:
            return True
        part = shard
        n = 0
        try:
            while n < len(keys):
                if n:
                    part = self._shard_of(keys[n])
                found = part.of_key.setdefault(keys[n], operation)
                if found is not operation:
                    if isinstance(found, dict):
                        several = found
                    else:
                        several = {part.sequence_of(found): found}
                        part.of_key[keys[n]] = several
                    several[part.sequence_of(operation)] = operation
                part.entries += 1
                n += 1
        except MemoryError:
            for done in range(n):
                self._shard_of(keys[done]).remove(keys[done], operation)
            return False
        shard.pending += 1
        operation._op_keys = keys
        return True

    def release(self, operation: OperationState, outcome: Outcome) -> Exception | None:
        """See `WatchLists`. In a section, if possible.

        The keys are read before the shards are known, and again under their locks.
        """
        keys = operation._op_keys
        if not (are_builtin_keys(keys) and self._release_in_section(operation, outcome, keys)):
            with self._lock:
                self._first.count(operation, outcome)
                return self._remove(operation)
        return None

    def _release_in_section(
        self, operation: OperationState, outcome: Outcome, keys: tuple[Hashable, ...]
    ) -> bool:
        # An operation without keys counts in the shard of the thread that made it.
        shard = self._shard_of(keys[0]) if keys else self._shards[operation._tt_lane & (SHARDS - 1)]
        entered = self._enter_all(keys) if len(keys) > 1 else 0
        _enter_section(shard.lock)
        released = operation._op_keys is keys and self._may_be_section()
        try:
            if released:
                shard.count(operation, outcome)
                # Without keys, the submission may put the operation on lists meanwhile, under
                # other locks, and then removes the operation.
                if keys:
                    self._unwatch(shard, operation)
        finally:
            _leave_section(shard.lock)
            self._leave_all(entered)
        return released

    def watchers_of(self, key: Hashable) -> list[DelayedOperation]:
        if is_builtin_key(key):
            shard = self._shard_of(key)
            if self._enter(shard):
                try:
                    return operations_of(shard.of_key.get(key))
                finally:
                    _leave_section(shard.lock)
        return WatchLists.watchers_of(self, key)

    def sole_watcher(self, key: Hashable) -> DelayedOperation | None:
        if is_builtin_key(key):
            shard = self._shard_of(key)
            if self._enter(shard):
                found = shard.of_key.get(key)
                _leave_section(shard.lock)
                if isinstance(found, DelayedOperation):
                    return found
        return None


class LockOfAll:
    """The locks of all shards, taken in their order, as one. Re-entrant."""

    __slots__ = ("_shards",)

    def __init__(self, shards: list[WatchShard]) -> None:
        self._shards: Final = shards

    def __enter__(self) -> None:
        for shard in self._shards:
            _enter_section(shard.lock)

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        for shard in self._shards:
            _leave_section(shard.lock)
