"""Estimates, in bytes, of the memory of a server's objects.

An estimate depends only on constant properties of an object, or is adjusted with them: exactly the
added amount is removed later. tests/purgatory/service/test_memory.py measures the figures. Any
thread.
"""

from collections.abc import Sequence
from typing import Final

from purgatory.service.errors import ServerError
from purgatory.service.store.contract import Store

# Before the first operation: interpreter, libraries, cache of the database, messages.
PROCESS_BYTES: Final = 224 << 20
#: The share of the memory for remembered replies.
REPLIES_SHARE: Final = 8
#: A due job, besides its outcome.
JOB_BYTES: Final = 600
# A job from submission until forgotten, and its places in the orders.
_JOB_LIFE_BYTES: Final = 600
_TAG_BYTES: Final = 200
_OPERATION_BYTES: Final = 950  # with timer, and entries by id and number
_KEY_BYTES: Final = 200  # with its entry in the watch lists
_VALUE_BYTES: Final = 200
_OUTCOME_BYTES: Final = 400
_HELD_BYTES: Final = 700
_CAPTURED_BYTES: Final = 16
_REPLY_BYTES: Final = 200
_SESSION_BYTES: Final = 1000
_LIMIT_BYTES: Final = 600
_CLIENT_BYTES: Final = 700
REPEAT_BYTES: Final = 4000  # with its expression, and ids of jobs


def text_bytes(text: str) -> int:
    """Return the bytes of a text: four a character if not ASCII, and UTF-8 beside."""
    return len(text) if text.isascii() else 8 * len(text)


def operation_bytes(op_id: str, kind: str, keys: tuple[str, ...]) -> int:
    """Estimate a pending operation, without values of keys."""
    if len(keys) == 1 and op_id.isascii() and keys[0].isascii():  # the common case
        return _OPERATION_BYTES + _KEY_BYTES + len(op_id) + len(kind) + len(keys[0])
    size = _OPERATION_BYTES + text_bytes(op_id) + len(kind)
    for key in keys:
        size += _KEY_BYTES + text_bytes(key)
    return size


def job_bytes(tags: Sequence[str], keys: Sequence[str]) -> int:
    """Estimate a job, beside its operation or outcome."""
    if not tags and len(keys) == 1 and keys[0].isascii():  # the common case
        return _JOB_LIFE_BYTES + _TAG_BYTES + len(keys[0])
    size = _JOB_LIFE_BYTES
    for text in (*tags, *keys):
        size += _TAG_BYTES + text_bytes(text)
    return size


def value_bytes(length: int) -> int:
    """Estimate a key's value in a waiting operation."""
    return _VALUE_BYTES + length


def outcome_bytes(op_id: str) -> int:
    """Estimate a kept outcome."""
    return _OUTCOME_BYTES + text_bytes(op_id)


def held_bytes(key: str, length: int) -> int:
    """Estimate a held event."""
    return _HELD_BYTES + text_bytes(key) + length


def spread_bytes(count: int, length: int) -> int:
    """Estimate an event that waits for `count` operations."""
    return _CAPTURED_BYTES * count + length


def reply_bytes(length: int) -> int:
    """Estimate a remembered reply."""
    return _REPLY_BYTES + length


def session_bytes(name: str) -> int:
    """Estimate a session, without its replies."""
    return _SESSION_BYTES + text_bytes(name)


def limit_bytes(kind: str) -> int:
    """Estimate a kind's limits."""
    return _LIMIT_BYTES + text_bytes(kind)


def client_bytes(name: str) -> int:
    """Estimate a client, without operations and outcomes."""
    return _CLIENT_BYTES + text_bytes(name)


# The stored rows may take a little more; percent of the room for operations.
_TOLERANCE: Final = 10
# Room for new operations in the limit that an error names, in percent.
_ROOM: Final = 25


class StoredMemoryCheck:
    """Keeps a server from loading more than `max_memory` bytes; 0: no limit."""

    def __init__(self, store: Store, max_memory: int) -> None:
        self._store = store
        self._max_memory = max_memory
        self._most = max_memory + (max_memory - PROCESS_BYTES) * _TOLERANCE // 100

    def check_before(self) -> None:
        """Raise ServerError if all but operations and outcomes take too much."""
        if self._max_memory:
            self.check(PROCESS_BYTES + _others_bytes(self._store))

    def check(self, memory_bytes: int) -> None:
        """Raise ServerError for too many bytes."""
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
    held = sum(held_bytes(key, size) for key, size in store.sizes("held"))
    values = sum(value_bytes(size) for _, size in store.sizes("progress"))
    replies = [(session, reply_bytes(size)) for session, size in store.sizes("replies")]
    sessions = sum(map(session_bytes, {session for session, _ in replies}))
    return held + values + sessions + sum(size for _, size in replies)
