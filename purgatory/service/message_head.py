"""What the beginning of a message says, without decoding the rest. Any thread.

A message is an array: its type, in most also `seq`, and in requests a list.
"""

from typing import Final

import msgspec

# MessagePack, by the first byte: how long the header of an array is, and how long the array if that
# byte says it; and how many bytes a number takes.
_LIST_HEADERS: Final = {0x90 + count: (1, count) for count in range(16)} | {
    0xDC: (3, 0),
    0xDD: (5, 0),
}
_NUMBER_BYTES: Final = dict.fromkeys((*range(0x80), *range(0xE0, 0x100)), 1) | {
    first + power: 1 + (1 << power) for first in (0xCC, 0xD0) for power in range(4)
}
_ints: Final = msgspec.msgpack.Decoder(int)


def type_of(frame: bytes) -> int | None:
    """Return the type of a message, None if it is none; what follows may be anything."""
    return _number(frame, 0)


def seq_of(frame: bytes) -> int | None:
    """Return the `seq` of a message, None if it has none; what follows may be anything."""
    return _number(frame, 1)


def _number(frame: bytes, index: int) -> int | None:
    try:
        at = _place(frame, index)
        return _ints.decode(frame[at : at + _NUMBER_BYTES[frame[at]]])
    except (LookupError, ValueError):  # msgspec's errors are ValueErrors
        return None


def _place(frame: bytes, index: int) -> int:
    """Return where an item begins that only numbers are before. Raises LookupError."""
    at = _LIST_HEADERS[frame[0]][0]
    for _ in range(index):
        at += _NUMBER_BYTES[frame[at]]
    return at


def count_items(frame: bytes) -> int:
    """Return how long a request says its list is; 0 if it has none."""
    try:
        at = _place(frame, 2)  # after type and seq
        header, count = _LIST_HEADERS[frame[at]]
    except LookupError:
        return 0
    return count if header == 1 else int.from_bytes(frame[at + 1 : at + header])
