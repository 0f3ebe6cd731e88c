"""WatchLists: watch key -> the operations that wait for it.

Exact at any moment: an operation is in the lists of all its keys or of none, a key without
operations takes no memory, and the counts change together with the lists. It returns operations and
calls no code of theirs: its callers do that, under no lock.

There is one lock for all keys, held for a few dictionary steps. Kafka has 512 of them; with the
interpreter lock a second one costs more than the waiting it saves. It is a leaf lock: under it only
`__hash__` and `__eq__` of keys run. (If a key's hash or equality changes while it is watched, an
entry is left behind that is never found, as in any dict.)

Compiled, even that lock is mostly skipped. While all keys are of built-in types (see `keys`), a
change of the lists is an atomic section, unless it begins in the middle of another change: then it
takes the lock, and is deferred like any such change. Without the interpreter lock, the keys are
spread over several shards, and a section takes the lock of the shards of its keys; "the lock" is
then that of all shards (see `watch_shards`).

One file, though long: all of it reads or changes the same fields, under the same lock.
"""

import threading
from collections.abc import Hashable
from typing import Any, Final, cast

from _purgatory_cpython.atomicity import SETDEFAULT_FAILS_SAFELY
from purgatory.core.keys import are_builtin_keys, is_builtin_key
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import OperationState, Outcome
from purgatory.core.watch_shards import BySequence, WatchShard, WatchShards
from purgatory.errors import PurgatoryClosed
from timingwheel.lowlevel import (
    ATOMIC_SECTIONS,
    COMPILED,
    LOCKED_SECTIONS,
    InterruptibleEvent,
    enter_section,
    leave_section,
)

# Whether operations are put on the lists in sections.
SECTIONS_APPEND: Final[bool] = COMPILED and SETDEFAULT_FAILS_SAFELY
# Bound once: compiled, that saves a look into the module's dict for each operation.
_enter_section: Final = enter_section
_leave_section: Final = leave_section


class WatchLists:
    """The watch lists of one purgatory, and its figures. All methods may be called by any thread.

    `closed`: nothing may be watched any more. `drained` is set, and `fully_drained` true, when
    nothing is watched any more either; the latter can be read without a call. `entries`: pairs of
    operation and key. `pending`: operations. `completed`, `failed`, `expired`, `cancelled`:
    operations that ended so.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._shards: Final = WatchShards()
        self._first: Final = self._shards.first  # where all keys are, if there is one shard
        # A key's __eq__, a finalizer or a signal handler may re-enter while it is held. Their
        # changes are deferred until the current one is done.
        self._lock: Final[Any] = self._shards.lock
        # These are changed under the lock, and read in sections.
        self._changing = False  # a change that is not atomic is under way
        # Whether all keys are of built-in types; true again once there are none.
        self._builtin_keys_only = True
        # An operation and the keys to watch; no keys: remove it.
        self._deferred_changes: list[tuple[OperationState, tuple[Hashable, ...]]] = []
        self.closed: bool = False
        self.drained: threading.Event = InterruptibleEvent()
        self.fully_drained: bool = False

    def watch(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        """Put an operation on the lists of distinct keys. Raises PurgatoryClosed.

        One that has ended meanwhile stays off: the thread that ended it does not come back for it.
        """
        operation._op_sequence = None  # it may have a number of other lists
        if SECTIONS_APPEND and are_builtin_keys(keys) and self._watch_in_section(operation, keys):
            return
        with self._lock:
            self.check_open()
            if self._changing:
                self._deferred_changes.append((operation, keys))
            else:
                self._change(operation, keys)

    def _watch_in_section(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> bool:
        """Put it on the lists in a section; False if that is impossible, and nothing is done."""
        if LOCKED_SECTIONS and len(keys) > 1:
            shards = self._shards.enter(keys)
            appended = self._may_be_section() and self._append_atomically(
                self._shards.of(keys[0]), operation, keys
            )
            self._shards.leave(shards)
            return appended
        shard = self._shards.of(keys[0]) if LOCKED_SECTIONS else self._first
        if not self._enter_section(shard):
            return False
        appended = self._append_atomically(shard, operation, keys)
        if LOCKED_SECTIONS:
            _leave_section(shard.lock)
        return appended

    def _enter_section(self, shard: WatchShard) -> bool:
        """Begin, compiled, a change or a look that runs no foreign code; False if it cannot be one.

        Where sections are locked, the caller leaves the lock of the shard.
        """
        if LOCKED_SECTIONS:
            _enter_section(shard.lock)
        if self._may_be_section():
            return True
        if LOCKED_SECTIONS:
            _leave_section(shard.lock)
        return False

    def _may_be_section(self) -> bool:
        """Tell whether what follows runs no foreign code. Under the lock of a shard, if locked.

        Not in the middle of another change. Not while watched keys may run code when they are
        compared. Not after `close`, when the removal of the last operation sets an event.
        """
        return self._builtin_keys_only and not (self._changing or self.closed)

    def check_open(self) -> None:
        """Raise PurgatoryClosed if nothing may be watched any more."""
        if self.closed:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def check_not_drained(self) -> None:
        """Raise PurgatoryClosed if nothing is watched any more either."""
        if self.fully_drained:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def _append_atomically(
        self, shard: WatchShard, operation: DelayedOperation, keys: tuple[Hashable, ...]
    ) -> bool:
        """Do what `_append_all` does, with one look at each key; False if it cannot be atomic.

        It cannot if the operation is the second of a key: that takes a new dict, and making an
        object that the cycle collector tracks may run the collector. (Without the interpreter lock
        it does not: the collector waits for interpreted code.) Nor if a dict cannot grow:
        `_append_all` tries again. Saves 16 % of a pair of submission and completion (7,382 instead
        of 8,807 instructions, callgrind). `shard`: of the first key.
        """
        if operation._op_outcome is not None:
            return True
        part = shard
        n = 0
        try:
            while n < len(keys):
                if n and LOCKED_SECTIONS:
                    part = self._shards.of(keys[n])
                found = part.of_key.setdefault(keys[n], operation)
                if found is not operation:
                    if isinstance(found, dict):
                        several = found
                    elif LOCKED_SECTIONS:
                        several = {part.sequence_of(found): found}
                        part.of_key[keys[n]] = several
                    else:
                        self._remove_first(keys, n, operation)
                        return False
                    several[part.sequence_of(operation)] = operation
                part.entries += 1
                n += 1
        except MemoryError:
            self._remove_first(keys, n, operation)
            return False
        shard.pending += 1
        operation._op_keys = keys
        return True

    def _remove_first(
        self, keys: tuple[Hashable, ...], count: int, operation: DelayedOperation
    ) -> None:
        for n in range(count):
            self._remove_entry(keys[n], operation)

    def _append_all(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        if COMPILED and not are_builtin_keys(keys):
            self._builtin_keys_only = False
        first = self._first
        pending = first.pending + 1
        # First, so that `_unwatch` takes back whatever of it was done.
        first.pending = pending
        operation._op_keys = keys
        try:
            for key in keys:
                self._append(key, operation)
        except BaseException:  # a key that cannot be compared, no memory, or an interrupt
            self._unwatch(first, operation)
            raise

    def _append(self, key: Hashable, operation: DelayedOperation) -> None:
        shard = self._shards.of(key)
        entries = shard.entries + 1  # before the change: interpreted, it needs memory
        found = shard.of_key.get(key)
        if found is None:
            shard.of_key[key] = operation
        elif isinstance(found, dict):
            found[shard.sequence_of(operation)] = operation
        else:
            first, second = shard.sequence_of(found), shard.sequence_of(operation)
            shard.of_key[key] = {first: found, second: operation}
        shard.entries = entries

    def release(self, operation: OperationState, outcome: Outcome) -> Exception | None:
        """Count an outcome and `remove` the operation. Idempotent."""
        if ATOMIC_SECTIONS and self._enter_section(self._first):
            self._first.count(operation, outcome)
            return self._unwatch(self._first, operation)
        if LOCKED_SECTIONS and self._release_in_section(operation, outcome):
            return None
        with self._lock:
            self._first.count(operation, outcome)
            return self._remove(operation)

    def _release_in_section(self, operation: OperationState, outcome: Outcome) -> bool:
        """Release it in a section; False if that is impossible, and nothing is done.

        What it waits for is read before its shards are known, and so once more when they are
        locked.
        """
        keys = operation._op_keys
        if not are_builtin_keys(keys):
            return False
        shard = self._shards.of(keys[0]) if keys else self._shards.of_maker(operation)
        entered = self._shards.enter(keys) if len(keys) > 1 else 0
        _enter_section(shard.lock)
        released = operation._op_keys is keys and self._may_be_section()
        try:
            if released:
                shard.count(operation, outcome)
                # One without keys may be put on lists at this moment, under locks that are not
                # held here. Its submission then takes it off.
                if keys:
                    self._unwatch(shard, operation)
        finally:
            _leave_section(shard.lock)
            self._shards.leave(entered)
        return released

    def remove(self, operation: OperationState) -> Exception | None:
        """Take an operation off its lists, if it is on any. Idempotent, also after an interrupt.

        Returns what a key's `__hash__` or `__eq__` raised; that key's entry is left behind. Raises
        MemoryError, after which it can be called again.
        """
        with self._lock:
            return self._remove(operation)

    def _remove(self, operation: OperationState) -> Exception | None:
        error = None
        if self._changing:
            self._deferred_changes.append((operation, ()))
            return None
        if operation._op_keys:
            error = self._change(operation, ())
        if self.closed:
            try:
                self._note_drained()
            except BaseException:  # an interrupt: a thread that closes may wait for it
                self._note_drained()
                raise
        return error

    def _unwatch(self, shard: WatchShard, operation: OperationState) -> Exception | None:
        """Take it off its lists. `shard`: one whose lock is held, where it is counted."""
        error = self._remove_entries(operation, operation._op_keys)
        pending = shard.pending - 1
        if operation._op_keys:
            operation._op_keys = ()
            shard.pending = pending
            if not (self._builtin_keys_only or len(self)):
                self._builtin_keys_only = True
        return error

    def _remove_entries(
        self, operation: OperationState, keys: tuple[Hashable, ...]
    ) -> Exception | None:
        first = None
        for key in keys:
            try:
                self._remove_entry(key, operation)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001  # whatever a key raises is reported
                first = first or error
        return first

    def _remove_entry(self, key: Hashable, operation: OperationState) -> None:
        """Remove one entry, if it is there; it is counted without a call in between."""
        shard = self._shards.of(key) if LOCKED_SECTIONS else self._first
        found = shard.of_key.get(key)
        entries = shard.entries - 1
        if found is operation:
            del shard.of_key[key]
            shard.entries = entries
        elif isinstance(found, dict):
            try:
                del found[operation._op_sequence]  # no call, if it is there
            except KeyError:
                return
            shard.entries = entries
            if not found:
                del shard.of_key[key]

    def _change(self, operation: OperationState, keys: tuple[Hashable, ...]) -> Exception | None:
        """Watch `keys` for an operation, or remove it if there are none; then what was deferred.

        Returns as `remove`.
        """
        self._changing = True
        try:
            return self._watch_or_unwatch(operation, keys)
        finally:
            self._changing = False
            if self._deferred_changes:
                try:
                    self._apply_deferred()
                except Exception:
                    raise
                except BaseException:  # an interrupt: those that are left would wait for a change
                    self._apply_deferred()
                    raise

    def _watch_or_unwatch(
        self, operation: OperationState, keys: tuple[Hashable, ...]
    ) -> Exception | None:
        """Do all of it or nothing; or, after an exception in a removal, what can be done again."""
        if not keys:
            return self._unwatch(self._first, operation)
        if operation._op_outcome is None:
            self._append_all(cast("DelayedOperation", operation), keys)
        return None

    def _apply_deferred(self) -> None:
        """Make the changes that came while another was under way.

        One that is interrupted, or that memory is short for, is left to be made again.
        """
        while self._deferred_changes:
            operation, keys = self._deferred_changes[0]
            self._changing = True
            try:
                self._watch_or_unwatch(operation, keys)
            except MemoryError:
                raise
            except Exception:
                del self._deferred_changes[0]
                raise
            finally:
                self._changing = False
            del self._deferred_changes[0]
        self._note_drained()

    def _note_drained(self) -> None:
        if self.closed and not self.pending:
            self.fully_drained = True
            self.drained.set()

    def watchers_of(self, key: Hashable) -> list[DelayedOperation]:
        """Return the operations that watch a key at this moment, first come first."""
        if COMPILED and is_builtin_key(key):
            shard = self._shards.of(key) if LOCKED_SECTIONS else self._first
            if self._enter_section(shard):
                try:
                    return _operations(shard.of_key.get(key))
                finally:
                    if LOCKED_SECTIONS:
                        _leave_section(shard.lock)
        with self._lock:
            return _operations(self._shards.of(key).of_key.get(key))

    def sole_watcher(self, key: Hashable) -> DelayedOperation | None:
        """Return the only watcher of a key, if an atomic look finds it; None: use `watchers_of`.

        Spares most completions a list of one: 4 % of a pair of submission and completion (7,382
        instead of 7,700 instructions, callgrind), 2 % of one with a condition in Python.
        """
        if COMPILED and is_builtin_key(key):
            shard = self._shards.of(key) if LOCKED_SECTIONS else self._first
            if self._enter_section(shard):
                found = shard.of_key.get(key)
                if LOCKED_SECTIONS:
                    _leave_section(shard.lock)
                if isinstance(found, DelayedOperation):
                    return found
        return None

    def close(self) -> None:
        """Refuse to watch anything from now on."""
        with self._lock:
            self.closed = True
            self._note_drained()

    def all(self) -> list[DelayedOperation]:
        """Return all pending operations, each once."""
        with self._lock:
            values = self._shards.values()
        found = {id(operation): operation for value in values for operation in _operations(value)}
        return list(found.values())

    def __len__(self) -> int:
        """Return how many keys are watched."""
        return self._shards.keys() if LOCKED_SECTIONS else len(self._first.of_key)

    # Read without the lock. Of several shards: what was true a moment ago.

    @property
    def entries(self) -> int:
        """How many pairs of operation and key there are."""
        return sum([shard.entries for shard in self._shards.all])

    @property
    def pending(self) -> int:
        """How many operations are on the lists."""
        return sum([shard.pending for shard in self._shards.all])

    @property
    def completed(self) -> int:
        """How many operations completed."""
        return sum([shard.completed for shard in self._shards.all])

    @property
    def failed(self) -> int:
        """How many operations failed."""
        return sum([shard.failed for shard in self._shards.all])

    @property
    def expired(self) -> int:
        """How many operations expired."""
        return sum([shard.expired for shard in self._shards.all])

    @property
    def cancelled(self) -> int:
        """How many operations were cancelled."""
        return sum([shard.cancelled for shard in self._shards.all])

    def _check(self) -> None:
        """Verify every invariant; AssertionError says which one is broken."""
        with self._lock:
            self._shards._check()
            found = dict(self._shards.items())
            lists = {key: _operations(value) for key, value in found.items()}
            assert len(found) == len(self), found
            assert all(lists.values()), found
            assert self.entries == sum(map(len, lists.values())), (self.entries, lists)
            assert self.pending == len(self.all()), (self.pending, lists)
            for key, operations in lists.items():
                assert all(key in operation._op_keys for operation in operations), (key, operations)
            assert self.entries == sum(len(operation._op_keys) for operation in self.all()), lists

    def __repr__(self) -> str:
        return f"<WatchLists {self.pending} operations, {self.entries} entries, {len(self)} keys>"


def _operations(value: DelayedOperation | BySequence | None) -> list[DelayedOperation]:
    if value is None:
        return []
    return list(value.values()) if isinstance(value, dict) else [value]
