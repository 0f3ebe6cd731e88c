"""Completion of a watch key: what is done with the operations that the watch lists return.

Each is called under no lock, by the thread that completes the key. For `purgatory.core.purgatory`
and `submission`; any thread.

An event that is held is on view before the operations that wait are looked up, and an operation is
on the lists before its submission looks for held events. So no operation misses it; one that meets
it twice counts it once. While a limited event is being spread, a submission first offers it to the
operations that have waited longer.
"""

from collections.abc import Hashable
from typing import Final

from purgatory.core.held_events import UNLIMITED, HeldEvent, HeldEvents, Unit
from purgatory.core.lifecycle import finalize, finish, request_check
from purgatory.core.operation import DelayedOperation
from purgatory.core.operation_state import UNAFFECTED, WON
from purgatory.core.outcome import CANCELLED, COMPLETED
from purgatory.core.watch_lists import WatchLists
from timingwheel.lowlevel import COMPILED

# What `_offer` returns if all that an event has for operations is claimed.
_NONE_LEFT: Final = -1


def complete_key(lists: WatchLists, key: Hashable, value: object) -> int:
    """Complete a key for all its watchers; how many operations this call completed."""
    if COMPILED and (only := lists.sole_watcher(key)) is not None:
        return 1 if only._op_complete_key(key, value) else 0
    completed = 0
    for operation in lists.watchers_of(key):
        if operation._op_complete_key(key, value):
            completed += 1
    return completed


def complete(
    lists: WatchLists, held: HeldEvents, key: Hashable, value: object, limit: int, hold_ns: int
) -> int:
    """Complete a key, and replace what is held for it; how many operations this call completed.

    `limit`: for how many operations it counts, or UNLIMITED. `hold_ns`: how long it is held.
    """
    if limit == UNLIMITED and not hold_ns:
        if held.by_key:
            held.drop(key)
        return complete_key(lists, key, value)
    event = HeldEvent(held, key, value, limit)
    if hold_ns:
        held.hold(event, hold_ns)
    else:
        held.drop(key)
    try:
        return _spread(lists, held, event, None)
    finally:
        event.spreading = False


def _spread(
    lists: WatchLists, held: HeldEvents, event: HeldEvent, before: DelayedOperation | None
) -> int:
    """Offer an event to the operations that wait, the longest waiting first.

    `before`: only to those that have waited longer than this one. Returns how many it completed.
    """
    completed = 0
    while True:
        for operation in lists.watchers_of(event.key):
            if operation is before:
                break
            effect = _offer(lists, held, event, operation)
            if effect == _NONE_LEFT:
                break
            if effect >= WON:
                completed += 1
        if not held.is_wanted(event):
            return completed
        before = None


def _offer(
    lists: WatchLists, held: HeldEvents, event: HeldEvent, operation: DelayedOperation
) -> int:
    """Let an event count for an operation, if a unit is left; what it did, or _NONE_LEFT."""
    unit = Unit()
    effect = UNAFFECTED
    try:
        if not held.claim(event, unit):
            return _NONE_LEFT
        effect = operation._op_count_key(event.key, event.value)
        held.settle(event, unit, effect)
        if effect == WON:
            finalize(operation, COMPLETED)
    except BaseException:  # an interrupt, or a key that cannot be compared
        is_used = effect != UNAFFECTED or operation._op_outcome is not None
        held.settle(event, unit, WON if is_used else UNAFFECTED)
        if effect == WON:
            finalize(operation, COMPLETED)
        if held.is_wanted(event):
            _spread(lists, held, event, None)
        raise
    return effect


def count_held(
    lists: WatchLists, held: HeldEvents, operation: DelayedOperation, keys: tuple[Hashable, ...]
) -> bool:
    """Let what is held for its keys count for an operation that watches them.

    True if this call completed it.
    """
    completed = False
    for event in held.find(keys):
        if operation._op_outcome is not None:
            break
        if event.spreading:
            _spread(lists, held, event, operation)
        if _offer(lists, held, event, operation) >= WON:
            completed = True
        if held.is_wanted(event):
            _spread(lists, held, event, None)
    return completed


def fail_key(lists: WatchLists, key: Hashable, error: BaseException) -> int:
    """Fail a key for all its watchers; how many operations this call ended."""
    ended = 0
    for operation in lists.watchers_of(key):
        if operation._op_fail_key(key, error):
            ended += 1
    return ended


def check_key(lists: WatchLists, key: Hashable) -> int:
    """Call `try_complete` of all watchers of a key; how many operations this call completed."""
    if COMPILED and (only := lists.sole_watcher(key)) is not None:
        return 1 if request_check(only) else 0
    completed = 0
    for operation in lists.watchers_of(key):
        if request_check(operation):
            completed += 1
    return completed


def cancel_for_key(lists: WatchLists, key: Hashable) -> list[DelayedOperation]:
    """Cancel all watchers of a key, and return those that this call cancelled."""
    return [operation for operation in lists.watchers_of(key) if finish(operation, CANCELLED)]


class KeyCommandHandler:
    """Does what was posted to the loop; see `purgatory.bus.loop.CommandHandler`."""

    def __init__(self, lists: WatchLists, held: HeldEvents) -> None:
        self._lists = lists
        self._held = held

    def complete_posted(self, key: Hashable, value: object, limit: int, hold_ns: int) -> None:
        """Complete a key, also while the purgatory closes."""
        complete(self._lists, self._held, key, value, limit, hold_ns)

    def fail_posted(self, key: Hashable, error: BaseException) -> None:
        """Fail a key, also while the purgatory closes."""
        fail_key(self._lists, key, error)

    def cancel_posted(self, key: Hashable) -> None:
        """Cancel what waits for a key, also while the purgatory closes."""
        cancel_for_key(self._lists, key)
