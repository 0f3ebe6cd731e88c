"""How much memory what a store has will take; counted without keeping it.

Called by the thread that starts a server. Raises StoreError when the disk fails.
"""

from typing import Final

from purgatory.service.errors import ServerError
from purgatory.service.server.memory.estimate import (
    PROCESS_BYTES,
    held_bytes,
    operation_bytes,
    outcome_bytes,
    reply_bytes,
    session_bytes,
    value_bytes,
)
from purgatory.service.store.store import Store

# A server that was about to take too much may have been stopped while it took a little more: it
# starts again. In percent of what operations may take.
_TOLERANCE: Final = 10
# What an error asks for has so much room for new operations, in percent.
_ROOM: Final = 25


class StoredMemoryCheck:
    """Keeps a server from loading more than `max_memory` bytes of `store`; 0: any number."""

    def __init__(self, store: Store, max_memory: int) -> None:
        self._store = store
        self._max_memory = max_memory
        self._most = max_memory + (max_memory - PROCESS_BYTES) * _TOLERANCE // 100

    def check_before(self) -> None:
        """Raise ServerError if all but operations and outcomes takes too much."""
        if self._max_memory:
            self.check(PROCESS_BYTES + _others_bytes(self._store))

    def check(self, memory_bytes: int) -> None:
        """Raise ServerError if a server that takes so much takes too much."""
        if self._max_memory and memory_bytes > self._most:
            needed = PROCESS_BYTES + _others_bytes(self._store) + _operations_bytes(self._store)
            room = (needed - PROCESS_BYTES) * _ROOM // 100
            raise ServerError(
                f"what is stored takes about {needed} bytes of memory; max_memory is "
                f"{self._max_memory}: raise it to {needed + room}, or to 0 for any"
            )


def _operations_bytes(store: Store) -> int:
    ended = {outcome.number for outcome in store.outcomes_without_results()}
    return sum(
        outcome_bytes(row.op_id)
        if row.number in ended
        else operation_bytes(row.op_id, row.kind, row.keys)
        for row in store.submissions()
    )


def _others_bytes(store: Store) -> int:
    """Return the bytes of held events, of remembered replies, and of the values of keys."""
    held = sum(held_bytes(key, size) for key, size in store.held_sizes())
    values = sum(value_bytes(size) for (size,) in store.progress_sizes())
    replies = [(session, reply_bytes(size)) for session, size in store.reply_sizes()]
    sessions = sum(map(session_bytes, {session for session, _ in replies}))
    return held + values + sessions + sum(size for _, size in replies)
