"""Completion of a watch key: what is done with the operations that the watch lists return.

Each is called under no lock, by the thread that completes the key. For `purgatory.core.purgatory`;
any thread.
"""

from collections.abc import Hashable

from purgatory.core.lifecycle import finish, request_check
from purgatory.core.operation import DelayedOperation
from purgatory.core.outcome import CANCELLED
from purgatory.core.watch_lists import WatchLists
from timingwheel.lowlevel import ATOMIC_SECTIONS


def complete_key(lists: WatchLists, key: Hashable, value: object) -> int:
    """Complete a key for all its watchers; how many operations this call completed."""
    if ATOMIC_SECTIONS and (only := lists.sole_watcher(key)) is not None:
        return 1 if only._op_complete_key(key, value) else 0
    completed = 0
    for operation in lists.watchers_of(key):
        if operation._op_complete_key(key, value):
            completed += 1
    return completed


def check_key(lists: WatchLists, key: Hashable) -> int:
    """Call `try_complete` of all watchers of a key; how many operations this call completed."""
    if ATOMIC_SECTIONS and (only := lists.sole_watcher(key)) is not None:
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

    def __init__(self, lists: WatchLists) -> None:
        self._lists = lists

    def complete_posted(self, key: Hashable, value: object) -> None:
        """Complete a key, also while the purgatory closes."""
        complete_key(self._lists, key, value)

    def cancel_posted(self, key: Hashable) -> None:
        """Cancel what waits for a key, also while the purgatory closes."""
        cancel_for_key(self._lists, key)
