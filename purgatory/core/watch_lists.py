"""WatchLists: watch key -> the operations that wait for it.

Exact at any moment: an operation is in the lists of all its keys or of none, a key without
operations takes no memory, and the counts change together with the lists. It returns operations and
calls no code of theirs: its callers do that, under no lock.

There is one lock for all keys, held for a few dictionary steps. Kafka has 512 of them; in Python a
second lock costs more than the waiting it saves. It is a leaf lock: under it only `__hash__` and
`__eq__` of keys run. (If a key's hash or equality changes while it is watched, an entry is left
behind that is never found, as in any dict.)

Compiled, even that lock is mostly skipped. While all keys are of built-in types (see `keys`), a
change of the lists is an atomic section, unless it begins in the middle of another change: then it
takes the lock, and is deferred like any such change. (Without the interpreter lock a section takes
the lock as well, at little cost.)
"""

import threading
from collections.abc import Hashable
from typing import Any, Final, cast

from purgatory.core._cpython.mypyc_types import i64
from purgatory.core.keys import are_builtin_keys, is_builtin_key
from purgatory.core.operation import DelayedOperation
from purgatory.core.operation_state import COUNTED, OperationState
from purgatory.core.outcome import CANCELLED, COMPLETED, EXPIRED, Outcome
from purgatory.errors import PurgatoryClosed
from timingwheel.lowlevel import (
    ATOMIC_SECTIONS,
    COMPILED,
    LOCKED_SECTIONS,
    enter_section,
    leave_section,
    new_lock,
)

# Bound once: compiled, that saves a look into the module's dict for each operation.
_enter_section: Final = enter_section
_leave_section: Final = leave_section

# Most keys are watched by one operation, which then stands for its list: that saves a dict for each
# key. From the second on it is a dict by sequence number, in order of arrival: operations cannot be
# its keys, since user classes may define __eq__ as they like. An operation draws its number when it
# first needs one. (Ids are scattered in a dict, collide there, and are made anew at each look.)
_BySequence = dict[object, DelayedOperation]


class WatchLists:
    """The watch lists of one purgatory, and its figures. All methods may be called by any thread.

    `closed`: nothing may be watched any more. `drained` is set, and `fully_drained` true, when
    nothing is watched any more either; the latter can be read without a call. `entries`: pairs of
    operation and key. `pending`: operations. `completed`, `failed`, `expired`, `cancelled`:
    operations that ended so.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # A key's __eq__, a finalizer or a signal handler may re-enter while it is held. Their
        # changes are deferred until the current one is done.
        self._lock: Final[Any] = new_lock()
        self._changing = False  # a change that is not atomic is under way
        # Whether all keys are of built-in types; true again once there are none. Guarded by _lock.
        self._builtin_keys_only = True
        # An operation and the keys to watch; no keys: remove it.
        self._deferred_changes: list[tuple[OperationState, tuple[Hashable, ...]]] = []
        self._of_key: Final[dict[Hashable, DelayedOperation | _BySequence]] = {}
        self._last_sequence = i64(0)
        self.closed: bool = False
        self.entries: int = 0
        self.pending: int = 0
        self.completed: int = 0
        self.failed: int = 0
        self.expired: int = 0
        self.cancelled: int = 0
        self.drained: threading.Event = threading.Event()
        self.fully_drained: bool = False

    def watch(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        """Put an operation on the lists of distinct keys. Raises PurgatoryClosed.

        One that has ended meanwhile stays off: the thread that ended it does not come back for it.
        """
        operation._op_sequence = None  # it may have a number of other lists
        if COMPILED and are_builtin_keys(keys) and self._enter_section():
            appended = self._append_atomically(operation, keys)
            if LOCKED_SECTIONS:
                _leave_section(self._lock)
            if appended:
                return
        with self._lock:
            self.check_open()
            if self._changing:
                self._deferred_changes.append((operation, keys))
            elif operation._op_outcome is None:
                self._changing = True
                try:
                    self._append_all(operation, keys)
                finally:
                    self._changing = False
                    if self._deferred_changes:
                        self._apply_deferred()

    def _enter_section(self) -> bool:
        """Begin, compiled, a change or a look that runs no foreign code; False if it cannot be one.

        Not in the middle of another change. Not while watched keys may run code when they are
        compared. Not after `close`, when the removal of the last operation sets an event. Where
        sections are locked, the caller leaves `_lock`.
        """
        if LOCKED_SECTIONS:
            _enter_section(self._lock)
        if self._builtin_keys_only and not (self._changing or self.closed):
            return True
        if LOCKED_SECTIONS:
            _leave_section(self._lock)
        return False

    def check_open(self) -> None:
        """Raise PurgatoryClosed if nothing may be watched any more."""
        if self.closed:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def check_not_drained(self) -> None:
        """Raise PurgatoryClosed if nothing is watched any more either."""
        if self.fully_drained:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def _append_atomically(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> bool:
        """Do what `_append_all` does, with one look at each key; False if it cannot be atomic.

        It cannot if the operation is the second of a key: that takes a new dict, and making an
        object that the cycle collector tracks may run the collector. Nor if a dict cannot grow:
        `_append_all` tries again. Saves 16 % of a pair of
        submission and completion (7,382 instead of 8,807 instructions, callgrind).
        """
        if operation._op_outcome is not None:
            return True
        n = 0
        try:
            while n < len(keys):
                found = self._of_key.setdefault(keys[n], operation)
                if found is not operation:
                    if not isinstance(found, dict):
                        self._remove_first(keys, n, operation)
                        return False
                    found[self._sequence_of(operation)] = operation
                self.entries += 1
                n += 1
        except MemoryError:
            self._remove_first(keys, n, operation)
            return False
        self.pending += 1
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
        pending = self.pending + 1
        # First, so that `_unwatch` takes back whatever of it was done.
        self.pending = pending
        operation._op_keys = keys
        try:
            for key in keys:
                self._append(key, operation)
        except BaseException:  # a key that cannot be compared, no memory, or an interrupt
            self._unwatch(operation)
            raise

    def _append(self, key: Hashable, operation: DelayedOperation) -> None:
        entries = self.entries + 1  # before the change: interpreted, it needs memory
        found = self._of_key.get(key)
        if found is None:
            self._of_key[key] = operation
        elif isinstance(found, dict):
            found[self._sequence_of(operation)] = operation
        else:
            first, second = self._sequence_of(found), self._sequence_of(operation)
            self._of_key[key] = {first: found, second: operation}
        self.entries = entries

    def _sequence_of(self, operation: OperationState) -> object:
        """Return its number in lists of several. Locked, or in an atomic section."""
        if operation._op_sequence is None:
            self._last_sequence += 1
            operation._op_sequence = self._last_sequence
        return operation._op_sequence

    def release(self, operation: OperationState, outcome: Outcome) -> Exception | None:
        """Count an outcome and `remove` the operation. Idempotent."""
        if ATOMIC_SECTIONS and self._enter_section():
            self._count(operation, outcome)
            return self._unwatch(operation)
        if LOCKED_SECTIONS and self._enter_section():
            try:
                self._count(operation, outcome)
                return self._unwatch(operation)
            finally:
                _leave_section(self._lock)
        with self._lock:
            self._count(operation, outcome)
            return self._remove(operation)

    def _count(self, operation: OperationState, outcome: Outcome) -> None:
        if operation._op_stage < COUNTED:
            # No call before the stage is marked, and no memory is needed after: both are done or
            # neither.
            if outcome is COMPLETED:
                self.completed += 1
            elif outcome is EXPIRED:
                self.expired += 1
            elif outcome is CANCELLED:
                self.cancelled += 1
            else:
                self.failed += 1
            operation._op_stage = COUNTED

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
            self._changing = True
            try:
                error = self._unwatch(operation)
            finally:
                self._changing = False
                if self._deferred_changes:
                    self._apply_deferred()
        if self.closed:
            self._note_drained()
        return error

    def _unwatch(self, operation: OperationState) -> Exception | None:
        error = self._remove_entries(operation, operation._op_keys)
        pending = self.pending - 1
        if operation._op_keys:
            operation._op_keys = ()
            self.pending = pending
            if not (self._builtin_keys_only or self._of_key):
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
        found = self._of_key.get(key)
        entries = self.entries - 1
        if found is operation:
            del self._of_key[key]
            self.entries = entries
        elif isinstance(found, dict):
            try:
                del found[operation._op_sequence]  # no call, if it is there
            except KeyError:
                return
            self.entries = entries
            if not found:
                del self._of_key[key]

    def _apply_deferred(self) -> None:
        """Make the changes that came while another was under way."""
        while self._deferred_changes:
            operation, keys = self._deferred_changes.pop(0)
            self._changing = True
            try:
                if not keys:
                    self._unwatch(operation)
                elif operation._op_outcome is None:
                    self._append_all(cast("DelayedOperation", operation), keys)
            finally:
                self._changing = False
        self._note_drained()

    def _note_drained(self) -> None:
        # Not twice: a finalizer might re-enter inside set(), which takes a lock.
        if self.closed and not self.pending and not self.drained.is_set():
            self.fully_drained = True
            self.drained.set()

    def watchers_of(self, key: Hashable) -> list[DelayedOperation]:
        """Return the operations that watch a key at this moment, first come first."""
        if ATOMIC_SECTIONS and is_builtin_key(key) and self._enter_section():
            return _operations(self._of_key.get(key))
        with self._lock:
            return _operations(self._of_key.get(key))

    def sole_watcher(self, key: Hashable) -> DelayedOperation | None:
        """Return the only watcher of a key, if an atomic look finds it; None: use `watchers_of`.

        Spares most completions a list of one: 4 % of a pair of submission and completion (7,382
        instead of 7,700 instructions, callgrind), 2 % of one with a condition in Python.
        """
        if COMPILED and is_builtin_key(key) and self._enter_section():
            found = self._of_key.get(key)
            if LOCKED_SECTIONS:
                _leave_section(self._lock)
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
            values = list(self._of_key.values())  # one call: finalizers may run between two
        found = {id(operation): operation for value in values for operation in _operations(value)}
        return list(found.values())

    def __len__(self) -> int:
        """Return how many keys are watched."""
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


def _operations(value: DelayedOperation | _BySequence | None) -> list[DelayedOperation]:
    if value is None:
        return []
    return list(value.values()) if isinstance(value, dict) else [value]
