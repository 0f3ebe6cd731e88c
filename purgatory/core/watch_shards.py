"""WatchShards: the parts that the watch lists of a purgatory are in.

Threads that change one dict wait for each other: while one of them is inside, and then for the
lines of memory that hold the lock, the dict and the counts, which go from one processor's cache to
the other's each time. So, compiled without the interpreter lock, the keys are spread by their hash
over several shards, each with all of these. A section enters the shards of its keys, in their
order. Any other change enters all of them: under the lock of one shard no foreign code runs, so no
thread waits for a second one but in that order.

Elsewhere there is one shard, for only one thread runs at a time. Worth it: see "Without the
interpreter lock" in docs/performance.md. Any thread.
"""

from collections.abc import Hashable
from types import TracebackType
from typing import Any, Final

from _purgatory_cpython.mypyc_types import i64
from purgatory.core.operations.operation import DelayedOperation
from purgatory.core.operations.operation_state import (
    CANCELLED,
    COMPLETED,
    COUNTED,
    EXPIRED,
    OperationState,
    Outcome,
)
from timingwheel.lowlevel import (
    LOCKED_SECTIONS,
    enter_section,
    leave_section,
    new_lock,
    part_of,
    sixteenth_of,
)

# Bound once: compiled, that saves a look into the module's dict for each operation.
_enter_section: Final = enter_section
_leave_section: Final = leave_section
_part_of: Final = part_of
_sixteenth_of: Final = sixteenth_of

# Most keys are watched by one operation, which then stands for its list: that saves a dict for each
# key. From the second on it is a dict by sequence number, in order of arrival: operations cannot be
# its keys, since user classes may define __eq__ as they like. An operation draws its number when it
# first needs one. (Ids are scattered in a dict, collide there, and are made anew at each look.)
BySequence = dict[object, DelayedOperation]

SHARDS: Final = 16 if LOCKED_SECTIONS else 1
# Each shard has sequence numbers of its own: so many. All of them are their own hashes.
_SEQUENCES: Final = 1 << 56


class WatchShard:
    """The watch lists of some keys, and counts. Its lock guards all of it.

    `pending` and the outcomes are of some operations, not only those that wait for its keys: only
    the sums over all shards tell something.
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
        self.lock: Final[Any] = new_lock()
        self.of_key: Final[dict[Hashable, DelayedOperation | BySequence]] = {}
        self.entries: int = 0
        self.pending: int = 0
        self.completed: int = 0
        self.failed: int = 0
        self.expired: int = 0
        self.cancelled: int = 0
        self._last_sequence = i64(number * _SEQUENCES)

    def sequence_of(self, operation: OperationState) -> object:
        """Return its number in lists of several. Locked, or in an atomic section."""
        if operation._op_sequence is None:
            self._last_sequence += 1
            operation._op_sequence = self._last_sequence
        return operation._op_sequence

    def count(self, operation: OperationState, outcome: Outcome) -> None:
        """Count an outcome, once. Locked, or in an atomic section."""
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


class WatchShards:
    """All shards of one purgatory. `lock`: that of all of them, for `with`; re-entrant."""

    __slots__ = ("_parts", "all", "first", "lock")

    def __init__(self) -> None:
        self.all: Final = [WatchShard(number) for number in range(SHARDS)]
        self.first: Final = self.all[0]
        self._parts: Final = tuple(self.all)
        self.lock: Final[Any] = LockOfAll(self.all) if LOCKED_SECTIONS else self.first.lock

    def of(self, key: Hashable) -> WatchShard:
        """Return the shard of a key. With several it calls the key's `__hash__`."""
        if not LOCKED_SECTIONS:
            return self.first
        return _part_of(self._parts, key)

    def of_maker(self, operation: OperationState) -> WatchShard:
        """Return a shard to count an operation without keys in, by the thread that made it."""
        return self.all[operation._tt_lane & (SHARDS - 1)]

    def enter(self, keys: tuple[Hashable, ...]) -> int:
        """Take the locks of the shards of built-in keys; a number for `leave`."""
        found = 0
        for key in keys:
            found |= 1 << _sixteenth_of(key)
        for number in range(SHARDS):
            if found >> number & 1:
                _enter_section(self.all[number].lock)
        return found

    def leave(self, entered: int) -> None:
        """Leave the locks that `enter` took."""
        number = 0
        while entered >> number:
            if entered >> number & 1:
                _leave_section(self.all[number].lock)
            number += 1

    def keys(self) -> int:
        """Return how many keys are watched."""
        return sum([len(shard.of_key) for shard in self.all])

    def values(self) -> list[DelayedOperation | BySequence]:
        """Return what is kept for each key. Locked."""
        if not LOCKED_SECTIONS:
            return list(self.first.of_key.values())  # one call: finalizers may run between two
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[Hashable, DelayedOperation | BySequence]]:
        """Return each key, and what is kept for it. Locked."""
        return [item for shard in self.all for item in list(shard.of_key.items())]

    def _check(self) -> None:
        """Assert that each key is in its shard. Locked."""
        for shard in self.all:
            assert all(self.of(key) is shard for key in shard.of_key), shard.of_key


class LockOfAll:
    """The locks of all shards, taken in their order, as one. Re-entrant."""

    __slots__ = ("_shards",)

    def __init__(self, shards: list[WatchShard]) -> None:
        self._shards: Final = shards

    def __enter__(self) -> None:
        for shard in self._shards:
            _enter_section(shard.lock)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for shard in self._shards:
            _leave_section(shard.lock)
