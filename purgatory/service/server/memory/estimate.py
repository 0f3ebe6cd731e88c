"""Estimates of the memory that a server's objects take, in bytes.

An estimate depends only on what does not change while the object is kept, or is adjusted with it:
what was added is exactly what is taken away later. The figures are from measurements of the
resident memory of servers, see tests/purgatory/service/test_memory.py. Pure functions; any thread.
"""

from collections.abc import Sequence
from typing import Final

# The process before its first operation: the interpreter, the libraries, the database's cache, and
# what is on its way between the threads.
PROCESS_BYTES: Final = 224 << 20
#: Remembered replies take no more than that share of the memory: then the oldest are forgotten.
REPLIES_SHARE: Final = 8
_OPERATION_BYTES: Final = 950  # with its timer, and its entries by id and by number
_KEY_BYTES: Final = 200  # with its entry in the watch lists
_VALUE_BYTES: Final = 200
_OUTCOME_BYTES: Final = 400
_JOB_BYTES: Final = 500
_HELD_BYTES: Final = 700
_REPLY_BYTES: Final = 200
_SESSION_BYTES: Final = 1000
_CLIENT_BYTES: Final = 700


def text_bytes(text: str) -> int:
    """Return the bytes of a text's characters: four each if any is not ASCII, and UTF-8 beside."""
    return len(text) if text.isascii() else 8 * len(text)


def operation_bytes(op_id: str, kind: str, keys: Sequence[str]) -> int:
    """Return the bytes of a pending operation, without the values of keys that were completed."""
    if len(keys) == 1 and op_id.isascii() and keys[0].isascii():  # the common case
        return _OPERATION_BYTES + _KEY_BYTES + len(op_id) + len(kind) + len(keys[0])
    size = _OPERATION_BYTES + text_bytes(op_id) + len(kind)
    for key in keys:
        size += _KEY_BYTES + text_bytes(key)
    return size


def value_bytes(length: int) -> int:
    """Return the bytes of the value of a key, in an operation that waits for others."""
    return _VALUE_BYTES + length


def outcome_bytes(op_id: str) -> int:
    """Return the bytes of an outcome that is kept."""
    return _OUTCOME_BYTES + text_bytes(op_id)


def job_bytes(count: int) -> int:
    """Return the bytes of so many jobs that are due, beside their outcomes."""
    return _JOB_BYTES * count


def held_bytes(key: str, length: int) -> int:
    """Return the bytes of an event that is held, with a value of `length` bytes."""
    return _HELD_BYTES + text_bytes(key) + length


def reply_bytes(length: int) -> int:
    """Return the bytes of a reply that is remembered, a frame of `length` bytes."""
    return _REPLY_BYTES + length


def session_bytes(name: str) -> int:
    """Return the bytes of a session, without its replies."""
    return _SESSION_BYTES + text_bytes(name)


def client_bytes(name: str) -> int:
    """Return the bytes of a client, without its operations and outcomes."""
    return _CLIENT_BYTES + text_bytes(name)
