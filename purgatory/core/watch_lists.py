"""WatchLists: watch key -> the operations that wait for it.

Exact at any moment: an operation is in the lists of all its keys or of none, a key without
operations takes no memory, and the counts are kept where the lists change.

One lock for all keys, held for as long as a few dictionary steps take. Kafka has 512 of them; in
Python the second lock costs more than the waiting it saves (one thread runs at a time). It is a
leaf: nothing of ours is called while it is held, only the ``__hash__`` and ``__eq__`` of keys. (A
key whose hash or equality changes meanwhile leaves an entry that is never found, as in any dict.)

Compiled, even that lock is mostly left alone. While all keys are *plain*, of built-in types that
hash and compare without running anybody's code, a change of the lists is one step (see
``atomicity``), unless it begins in the middle of another: then, as ever, it waits its turn.
"""

import threading
from collections.abc import Hashable

from purgatory.core.keys import are_builtin_keys, is_builtin_key
from purgatory.core.lifecycle import COUNTED, finish
from purgatory.core.mypyc_types import i64
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import CANCELLED, COMPLETED, EXPIRED, Outcome
from purgatory.errors import PurgatoryClosed
from timingwheel.lowlevel import ATOMIC_SECTIONS

# Most keys are watched by one operation: it stands for its list, which saves a dict a key. From
# the second on it is a dict in order of arrival, by ticket: user classes may compare as they like.
# A ticket is a number that comes once, drawn when it is needed and kept by the operation. (Ids are
# no neighbours in a dict, collide there, and are made anew at each look.)
_BySequence = dict[object, DelayedOperation]


class WatchLists:
    """All methods may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        # A key's __eq__, a finalizer or a signal handler may come back to us while it is held. They
        # are let in; their changes wait in _deferred_changes until the current one is done.
        self._lock = threading.RLock()
        self._changing = False  # by more than a step
        self._builtin_keys_only = (
            True  # all keys are; guarded by _lock, and True again when there are none
        )
        self._deferred_changes: list[
            tuple[DelayedOperation, tuple[Hashable, ...]]
        ] = []  # no keys: remove
        self._of_key: dict[Hashable, DelayedOperation | _BySequence] = {}
        self._last_sequence = i64(0)  # drawn so far
        self.closed = False
        self.entries = 0  # pairs of operation and key
        self.pending = 0  # operations
        self.completed = 0
        self.expired = 0
        self.cancelled = 0
        self.drained = threading.Event()  # closed, and nothing is pending
        self.fully_drained = False  # the same, to be had without a call

    def watch(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        """Put an operation on the lists of distinct keys. Raises PurgatoryClosed.

        One that has ended meanwhile stays off: who ended it has no need to come back.
        """
        operation._op_sequence = None  # it may have one of other lists, which would not take it
        if (
            ATOMIC_SECTIONS
            and self._can_skip_lock()
            and are_builtin_keys(keys)
            and self._append_atomically(operation, keys)
        ):
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

    def _can_skip_lock(self) -> bool:
        """Whether, compiled, a change that calls nobody is a step now, and needs no lock.

        Not in the middle of another change. Not while the keys of others may run code when they are
        compared. Not after close, when the last to leave sets an event.
        """
        return self._builtin_keys_only and not (self._changing or self.closed)

    def check_open(self) -> None:
        """Raise PurgatoryClosed when nothing may be watched any more."""
        if self.closed:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def check_not_drained(self) -> None:
        """Raise PurgatoryClosed when nothing is watched any more, either."""
        if self.fully_drained:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def _append_atomically(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> bool:
        """`_append_all` as a step, with one look at each key. False if it cannot be one.

        It is none when the operation is the second of a key: that takes a dict, and when something
        is made that has references, the collector may run.
        """
        if operation._op_outcome is not None:
            return True
        for n in range(len(keys)):
            found = self._of_key.setdefault(keys[n], operation)
            if found is not operation:
                if not isinstance(found, dict):
                    for m in range(n):
                        self._remove_entry(keys[m], operation)
                    return False
                found[self._sequence_of(operation)] = operation
            self.entries += 1
        self.pending += 1
        operation._op_keys = keys
        return True

    def _append_all(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        if ATOMIC_SECTIONS and not are_builtin_keys(keys):
            self._builtin_keys_only = False
        try:
            for key in keys:
                self._append(key, operation)
        except BaseException:  # a key that cannot be compared, an interrupt
            self._remove_all_entries(operation, keys)
            raise
        self.pending += 1
        operation._op_keys = keys

    def _append(self, key: Hashable, operation: DelayedOperation) -> None:
        found = self._of_key.get(key)
        if found is None:
            self._of_key[key] = operation
        elif isinstance(found, dict):
            found[self._sequence_of(operation)] = operation
        else:
            first, second = self._sequence_of(found), self._sequence_of(operation)
            self._of_key[key] = {first: found, second: operation}
        self.entries += 1

    def _sequence_of(self, operation: DelayedOperation) -> object:
        """What an operation goes by in lists of several. Locked, or in a step."""
        if operation._op_sequence is None:
            self._last_sequence += 1
            operation._op_sequence = self._last_sequence
        return operation._op_sequence

    def release(self, operation: DelayedOperation, outcome: Outcome) -> Exception | None:
        """Count an outcome, once however often this is called, and `remove` the operation."""
        if ATOMIC_SECTIONS and self._can_skip_lock():
            self._count(operation, outcome)
            return self._remove_entries(operation)
        with self._lock:
            self._count(operation, outcome)
            return self._remove(operation)

    def _count(self, operation: DelayedOperation, outcome: Outcome) -> None:
        if operation._op_stage < COUNTED:
            # No call between these: an interrupt finds both done or neither.
            operation._op_stage = COUNTED
            if outcome is COMPLETED:
                self.completed += 1
            elif outcome is EXPIRED:
                self.expired += 1
            else:
                self.cancelled += 1

    @property
    def outcome_counts(self) -> dict[Outcome, int]:
        """How many operations had each outcome."""
        return {COMPLETED: self.completed, EXPIRED: self.expired, CANCELLED: self.cancelled}

    def remove(self, operation: DelayedOperation) -> Exception | None:
        """Take an operation off its lists, if it is on any. May be repeated after an interrupt.

        Returns what a key's ``__hash__`` or ``__eq__`` raised; that key's entry is left behind.
        """
        with self._lock:
            return self._remove(operation)

    def _remove(self, operation: DelayedOperation) -> Exception | None:
        error = None
        if self._changing:
            self._deferred_changes.append((operation, ()))
            return None
        if operation._op_keys:
            self._changing = True
            try:
                error = self._remove_entries(operation)
            finally:
                self._changing = False
                if self._deferred_changes:
                    self._apply_deferred()
        if self.closed:
            self._note_drained()
        return error

    def _remove_entries(self, operation: DelayedOperation) -> Exception | None:
        error = self._remove_all_entries(operation, operation._op_keys)
        if operation._op_keys:
            operation._op_keys = ()
            self.pending -= 1
            if not self._of_key:
                self._builtin_keys_only = True
        return error

    def _remove_all_entries(
        self, operation: DelayedOperation, keys: tuple[Hashable, ...]
    ) -> Exception | None:
        first = None
        for key in keys:
            try:
                self._remove_entry(key, operation)
            except Exception as error:  # noqa: BLE001  # whatever a key raises is reported
                first = first or error
        return first

    def _remove_entry(self, key: Hashable, operation: DelayedOperation) -> None:
        """Remove one entry, if it is there; the counting follows without a call."""
        found = self._of_key.get(key)
        if found is operation:
            del self._of_key[key]
            self.entries -= 1
        elif isinstance(found, dict):
            try:
                del found[operation._op_sequence]  # if it is there, that is free of calls as well
            except KeyError:
                return
            self.entries -= 1
            if not found:
                del self._of_key[key]

    def _apply_deferred(self) -> None:
        """Do the changes that came while another was under way."""
        while self._deferred_changes:
            operation, keys = self._deferred_changes.pop(0)
            self._changing = True
            try:
                if not keys:
                    self._remove_entries(operation)
                elif operation._op_outcome is None:
                    self._append_all(operation, keys)
            finally:
                self._changing = False
        self._note_drained()

    def _note_drained(self) -> None:
        # Not twice: a finalizer might come back to us inside set(), which locks.
        if self.closed and not self.pending and not self.drained.is_set():
            self.fully_drained = True
            self.drained.set()

    def watchers_of(self, key: Hashable) -> list[DelayedOperation]:
        """The operations that watch a key at this moment, first come first."""
        if ATOMIC_SECTIONS and self._can_skip_lock() and is_builtin_key(key):
            return _operations(self._of_key.get(key))
        with self._lock:
            return _operations(self._of_key.get(key))

    def sole_watcher(self, key: Hashable) -> DelayedOperation | None:
        """The one that watches a key, if that is quickly told; None: see `watchers_of`.

        Compiled, that saves most completions a list of one.
        """
        if ATOMIC_SECTIONS and self._can_skip_lock() and is_builtin_key(key):
            found = self._of_key.get(key)
            if isinstance(found, DelayedOperation):
                return found
        return None

    def complete(self, key: Hashable, value: object) -> int:
        """Tell the operations that watch a key that it was completed; how many that completed."""
        if ATOMIC_SECTIONS and (one := self.sole_watcher(key)) is not None:
            return 1 if one._op_complete_key(key, value) else 0
        completed = 0
        for operation in self.watchers_of(key):
            if operation._op_complete_key(key, value):
                completed += 1
        return completed

    def cancel(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch a key, and return them."""
        return [operation for operation in self.watchers_of(key) if finish(operation, CANCELLED)]

    def close(self) -> None:
        """Refuse to watch from now on."""
        with self._lock:
            self.closed = True
            self._note_drained()

    def all(self) -> list[DelayedOperation]:
        """Every operation of this moment, once."""
        with self._lock:
            values = list(self._of_key.values())  # at once: finalizers may come in between
        found = {id(operation): operation for value in values for operation in _operations(value)}
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


def _operations(value: DelayedOperation | _BySequence | None) -> list[DelayedOperation]:
    if value is None:
        return []
    return list(value.values()) if isinstance(value, dict) else [value]
