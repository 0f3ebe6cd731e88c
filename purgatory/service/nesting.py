"""The depth of a MessagePack value, without decoding. Any thread.

Decoders recurse: below 1,000 levels on Python 3.11, several thousand later. An undecodable value
makes the frame around it unreadable, so client and server refuse more than MAX_LEVELS. Formats:
https://github.com/msgpack/msgpack/blob/master/spec.md.
"""

from typing import Final

from msgspec import Raw

MAX_LEVELS: Final = 500

# By an item's first byte: bytes of the length field, a number to add to the length, and items for
# each unit of length: 1 in arrays, 2 in maps, else 0.
_Format = tuple[int, int, int]
_BYTES: Final[dict[int, _Format]] = (
    dict.fromkeys((*range(0x80), *range(0xC0, 0xC4), *range(0xE0, 0x100)), (0, 0, 0))
    | {0xA0 + length: (0, length, 0) for length in range(32)}
    | {first + power: (1 << power, 0, 0) for first in (0xC4, 0xD9) for power in range(3)}
    | {0xC7 + power: (1 << power, 1, 0) for power in range(3)}  # an extension has a type, too
    | {0xD4 + power: (0, 1 + (1 << power), 0) for power in range(5)}
    | {first + power: (0, 1 << power, 0) for first in (0xCC, 0xD0) for power in range(4)}
    | {0xCA: (0, 4, 0), 0xCB: (0, 8, 0)}
)
_CONTAINERS: Final[dict[int, _Format]] = (
    {0x80 + count: (0, count, 2) for count in range(16)}
    | {0x90 + count: (0, count, 1) for count in range(16)}
    | {0xDC: (2, 0, 1), 0xDD: (4, 0, 1), 0xDE: (2, 0, 2), 0xDF: (4, 0, 2)}
)
_FORMATS: Final[dict[int, _Format]] = _BYTES | _CONTAINERS
_NO_HEADERS: Final = bytes(_BYTES)
_NO_MAPS: Final = bytes(first for first in range(256) if _FORMATS[first][2] != 2)


def is_too_deep(value: Raw | bytes) -> bool:
    """Return whether a complete value has more than MAX_LEVELS levels of arrays and maps."""
    if len(value) <= MAX_LEVELS:
        return False
    data = bytes(value)
    # Few values have so many bytes that may be a container's header.
    return len(data.translate(None, _NO_HEADERS)) > MAX_LEVELS and _levels(data) > MAX_LEVELS


def may_have_map_as_key(value: bytes) -> bool:
    """Whether a value has bytes like two maps' headers. No decoder takes a map as a key."""
    return len(value.translate(None, _NO_MAPS)) > 1


def _levels(data: bytes) -> int:
    open_items: list[int] = []  # items left in each container around this place
    numbers = list(data)  # an index into bytes is a call where compiled
    deepest = at = 0
    while at < len(numbers):
        length_bytes, count, items = _FORMATS[numbers[at]]
        at += 1 + length_bytes
        count += int.from_bytes(data[at - length_bytes : at])
        if open_items:
            open_items[-1] -= 1
        if items:
            open_items.append(count * items)
            deepest = max(deepest, len(open_items))
        else:
            at += count
        while open_items and not open_items[-1]:
            open_items.pop()
    return deepest
