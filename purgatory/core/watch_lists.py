"""WatchLists: watch key -> its waiting operations.

Exact at any moment: an operation is in the lists of all its keys or of none, a key without
operations takes no memory, and the counts change together with the lists. Callers call the
operations, under no lock.

One lock guards all keys, held for a few dictionary steps. Kafka has 512; with the interpreter lock
a second lock costs more than the waiting it saves. A leaf lock: under it only `__hash__` and
`__eq__` of keys run. If these change, an entry stays behind, as in any dict.

Compiled, `section_lists` mostly skips the lock. Any thread.
"""

import threading
from collections.abc import Hashable
from typing import Any, Final, cast

from _purgatory_cpython.mypyc_types import i64
from _purgatory_cpython.sections import new_section_lock
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import (
    CANCELLED,
    COMPLETED,
    COUNTED,
    EXPIRED,
    OperationState,
    Outcome,
)
from purgatory.errors import PurgatoryClosed
from timingwheel.lowlevel import InterruptibleEvent, is_owned

# The operations of a key by sequence number, in order of arrival: user classes may define __eq__,
# and ids would collide in a dict. A sole operation stands in place of the dict.
BySequence = dict[object, DelayedOperation]

_SEQUENCES: Final = 1 << 56  # numbers of each shard. All of them are their own hashes.


class WatchShard:
    """The watch lists of some keys, or of all, and counts. Its lock guards all fields.

    `pending` and the outcomes count operations of any keys: only sums over all shards are true.
    """

    __slots__ = (
        "_last_sequence",
        "cancelled",
        "completed",
        "entries",
        "expired",
        "failed",
        "lock",
        "of_key",
        "pending",
    )

    def __init__(self, number: int) -> None:
        self.lock: Final[Any] = new_section_lock()
        self.of_key: Final[dict[Hashable, DelayedOperation | BySequence]] = {}
        self.entries: int = 0
        self.pending: int = 0
        self.completed: int = 0
        self.failed: int = 0
        self.expired: int = 0
        self.cancelled: int = 0
        self._last_sequence = i64(number * _SEQUENCES)

    def sequence_of(self, operation: OperationState) -> object:
        """Return its number, drawn on first need. Locked, or in an atomic section."""
        if operation._op_sequence is None:
            self._last_sequence += 1
            operation._op_sequence = self._last_sequence
        return operation._op_sequence

    def count(self, operation: OperationState, outcome: Outcome) -> None:
        """Count an outcome, once. Locked, or in an atomic section."""
        if operation._op_stage < COUNTED:
            # No call before the stage is marked, and no memory after: both are done or neither.
            if outcome is COMPLETED:
                self.completed += 1
            elif outcome is EXPIRED:
                self.expired += 1
            elif outcome is CANCELLED:
                self.cancelled += 1
            else:
                self.failed += 1
            operation._op_stage = COUNTED

    def append(self, key: Hashable, operation: DelayedOperation) -> None:
        """Put an operation on the list of a key. Locked."""
        entries = self.entries + 1  # first: this needs memory
        found = self.of_key.get(key)
        if found is None:
            self.of_key[key] = operation
        elif isinstance(found, dict):
            found[self.sequence_of(operation)] = operation
        else:
            first, second = self.sequence_of(found), self.sequence_of(operation)
            self.of_key[key] = {first: found, second: operation}
        self.entries = entries

    def remove(self, key: Hashable, operation: OperationState) -> None:
        """Remove an entry if present; count it without a call in between. Locked."""
        found = self.of_key.get(key)
        entries = self.entries - 1
        if found is operation:
            del self.of_key[key]
            self.entries = entries
        elif isinstance(found, dict):
            try:
                del found[operation._op_sequence]  # no call, if present
            except KeyError:
                return
            self.entries = entries
            if not found:
                del self.of_key[key]


class WatchLists:
    """The watch lists of a purgatory, and counts. Any thread.

    `closed`: nothing may be watched any more. `drained` is set, and `fully_drained` true, when
    nothing is watched any more either; reading `fully_drained` makes no call.
    """

    def __init__(self, name: str, shards: list[WatchShard] | None = None, lock: Any = None) -> None:
        self._name = name
        self._shards: Final = shards or [WatchShard(0)]
        self._first: Final = self._shards[0]
        # A key's __eq__, a finalizer or a signal handler may re-enter: their changes are deferred.
        self._lock: Final[Any] = lock or self._first.lock
        # Changed under the lock, and read in sections.
        self._changing = False  # a change that is not atomic is under way
        self._builtin_keys_only = True
        # No keys: remove the operation.
        self._deferred_changes: list[tuple[OperationState, tuple[Hashable, ...]]] = []
        self.closed: bool = False
        self.drained: threading.Event = InterruptibleEvent()
        self.fully_drained: bool = False

    def _shard_of(self, key: Hashable) -> WatchShard:
        del key
        return self._first

    def watch(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        """Put an operation on the lists of distinct keys. Raises PurgatoryClosed.

        An ended operation stays off: the ending thread has already passed.
        """
        operation._op_sequence = None
        with self._lock:
            self.check_open()
            if self._changing:
                self._deferred_changes.append((operation, keys))
            else:
                self._change(operation, keys)
                if self.closed:  # meanwhile, by a finalizer or signal handler: it saw no entry yet
                    self.check_open()

    def check_open(self) -> None:
        """Raise PurgatoryClosed if nothing may be watched any more."""
        if self.closed:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed")

    def _append_all(self, operation: DelayedOperation, keys: tuple[Hashable, ...]) -> None:
        first = self._first
        pending = first.pending + 1
        # First, so that `_unwatch` takes back each change.
        first.pending = pending
        operation._op_keys = keys
        try:
            for key in keys:
                self._shard_of(key).append(key, operation)
        except BaseException:  # a key's, no memory, or an interrupt
            self._unwatch(first, operation)
            raise

    def release(self, operation: OperationState, outcome: Outcome) -> Exception | None:
        """Count an outcome and `remove` the operation. Idempotent."""
        with self._lock:
            self._first.count(operation, outcome)
            return self._remove(operation)

    def remove(self, operation: OperationState) -> Exception | None:
        """Take an operation off its lists, if on any. Idempotent, even after an interrupt.

        Returns what a key's `__hash__` or `__eq__` raised; that key's entry stays behind. Raises
        MemoryError; callers may then retry.
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
            except BaseException:  # an interrupt; a closing thread may wait
                self._note_drained()
                raise
        return error

    def _unwatch(self, shard: WatchShard, operation: OperationState) -> Exception | None:
        """Take an operation off its lists. `shard`: a locked shard, which counts it."""
        first = None
        for key in operation._op_keys:
            try:
                self._shard_of(key).remove(key, operation)
            except MemoryError:
                raise
            except Exception as error:  # noqa: BLE001  # a key's, or a signal handler's
                first = first or error
                self._remove_again(key, operation)
        pending = shard.pending - 1
        if operation._op_keys:
            operation._op_keys = ()
            shard.pending = pending
            if not (self._builtin_keys_only or len(self)):
                self._builtin_keys_only = True
        return first

    def _remove_again(self, key: Hashable, operation: OperationState) -> None:
        """Remove an entry after an attempt that raised."""
        try:
            self._shard_of(key).remove(key, operation)
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001  # a key's
            pass

    def _change(self, operation: OperationState, keys: tuple[Hashable, ...]) -> Exception | None:
        """Watch `keys` for an operation, or remove it if empty; then apply deferred changes.

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
                except BaseException:  # an interrupt
                    self._apply_deferred()
                    raise

    def _watch_or_unwatch(
        self, operation: OperationState, keys: tuple[Hashable, ...]
    ) -> Exception | None:
        """Do all of it or nothing; if a removal raised, a second call does the rest."""
        if not keys:
            return self._unwatch(self._first, operation)
        if operation._op_outcome is None:
            self._append_all(cast("DelayedOperation", operation), keys)
        return None

    def _apply_deferred(self) -> None:
        """Make the changes that came while another was under way.

        A failed change stays for another attempt.
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
        """Return the operations watching a key now, first come first."""
        with self._lock:
            found = operations_of(self._shard_of(key).of_key.get(key))
            if self._deferred_changes:  # submitted in the middle of another change, as this look
                deferred = [each for each, keys in self._deferred_changes if key in keys]
                found += cast("list[DelayedOperation]", deferred)
            return found

    def sole_watcher(self, key: Hashable) -> DelayedOperation | None:
        """Return the only watcher of a key if an atomic look finds it, else None."""
        del key
        return None

    def close(self) -> None:
        """Refuse to watch anything from now on."""
        with self._lock:
            self.closed = True
            self._note_drained()

    def holds_lock(self) -> bool:
        """Return whether the calling thread is in the middle of a change or a look."""
        return any(is_owned(shard.lock) for shard in self._shards)

    def after_freeze(self) -> None:
        """Forget a change in which the interpreter's exit has frozen a thread."""
        self._changing = False

    def all(self) -> list[DelayedOperation]:
        """Return all pending operations, each once."""
        with self._lock:
            values = [value for shard in self._shards for value in list(shard.of_key.values())]
            deferred = [operation for operation, keys in self._deferred_changes if keys]
            values += cast("list[DelayedOperation]", deferred)
        found = {id(operation): operation for value in values for operation in operations_of(value)}
        return list(found.values())

    def __len__(self) -> int:
        return sum([len(shard.of_key) for shard in self._shards])

    # Read without the lock; with several shards, a moment old.

    @property
    def entries(self) -> int:
        """How many pairs of operation and key there are."""
        return sum([shard.entries for shard in self._shards])

    @property
    def pending(self) -> int:
        """How many operations are on the lists."""
        return sum([shard.pending for shard in self._shards])

    def outcomes(self) -> tuple[int, int, int, int]:
        """Return how many operations completed, failed, expired and were cancelled."""
        shards = self._shards
        return (
            sum([shard.completed for shard in shards]),
            sum([shard.failed for shard in shards]),
            sum([shard.expired for shard in shards]),
            sum([shard.cancelled for shard in shards]),
        )

    def uncount(self, outcome: Outcome) -> None:
        """Uncount an operation whose owner keeps no outcome."""
        with self._lock:
            first = self._shards[0]
            if outcome is COMPLETED:
                first.completed -= 1
            elif outcome is EXPIRED:
                first.expired -= 1
            elif outcome is CANCELLED:
                first.cancelled -= 1
            else:
                first.failed -= 1

    def _check(self) -> None:
        with self._lock:
            found = {}
            for shard in self._shards:
                assert all(self._shard_of(key) is shard for key in shard.of_key), shard.of_key
                found.update(shard.of_key)
            lists = {key: operations_of(value) for key, value in found.items()}
            assert len(found) == len(self), found
            assert all(lists.values()), found
            assert self.entries == sum(map(len, lists.values())), (self.entries, lists)
            assert self.pending == len(self.all()), (self.pending, lists)
            for key, operations in lists.items():
                assert all(key in operation._op_keys for operation in operations), (key, operations)
            assert self.entries == sum(len(operation._op_keys) for operation in self.all()), lists

    def __repr__(self) -> str:
        return f"<WatchLists {self.pending} operations, {self.entries} entries, {len(self)} keys>"


def operations_of(value: DelayedOperation | BySequence | None) -> list[DelayedOperation]:
    """Return the operations kept for a key, first come first."""
    if value is None:
        return []
    return list(value.values()) if isinstance(value, dict) else [value]
