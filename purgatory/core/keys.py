"""Watch keys: valid keys, and keys of built-in types.

Keys of built-in types are hashed and compared without foreign code. So, compiled, a look into a
dict of such keys can be part of an atomic section. Any thread.
"""

import sys
from collections.abc import Hashable
from typing import Final

from timingwheel.lowlevel import COMPILED, plain_int

_MANY: Final = 5  # from here on a dict finds equal keys sooner than comparing each with each

# With the option -b, comparing bytes with a str warns, which runs code.
_BYTES_ARE_BUILTIN: Final[bool] = not sys.flags.bytes_warning


def is_builtin_key(key: object) -> bool:
    """Whether a key is exactly a str, bytes or int, or a tuple of these."""
    if type(key) is not tuple:
        return _is_builtin_scalar(key)
    assert isinstance(key, tuple)
    for part in key:  # noqa: SIM110  # compiled, this is the quick way
        if not _is_builtin_scalar(part):
            return False
    return True


def _is_builtin_scalar(key: object) -> bool:
    # A subclass of these types may define __hash__ and __eq__.
    kind = type(key)
    return kind is str or kind is int or (kind is bytes and _BYTES_ARE_BUILTIN)


def are_builtin_keys(keys: tuple[Hashable, ...]) -> bool:
    """Whether all keys are of built-in types."""
    for key in keys:  # noqa: SIM110  # compiled, this is the quick way
        if not is_builtin_key(key):
            return False
    return True


def distinct_keys(keys: object) -> tuple[Hashable, ...]:
    """Return watch keys without duplicates, in order.

    TypeError for anything but a collection, for a single str, bytes or the like, and for unhashable
    keys; ValueError for no keys.
    """
    # Mostly a tuple: compiled, four more types take a tenth of a submission.
    if type(keys) is not tuple and isinstance(keys, (str, bytes, bytearray, memoryview)):
        raise TypeError(f"keys is {keys!r}; expected a collection of keys, such as [{keys!r}]")
    try:
        if type(keys) is tuple:
            if len(keys) == 1:
                hash(keys[0])
                return keys
            if (
                COMPILED
                and 1 < len(keys) < _MANY
                and are_builtin_keys(keys)
                and _all_distinct(keys)
            ):
                return keys
        distinct = tuple(dict.fromkeys(keys))  # type: ignore[call-overload]
    except TypeError as error:
        raise TypeError(f"keys is {keys!r}; expected a collection of hashable keys") from error
    if not distinct:
        raise ValueError("keys is empty; expected at least one watch key")
    return distinct


def _all_distinct(keys: tuple[Hashable, ...]) -> bool:
    for n in range(1, len(keys)):
        for m in range(n):
            if keys[n] == keys[m]:
                return False
    return True


def check_need(need: object, keys: int) -> int:
    """Return `need` as an int; TypeError, ValueError if `keys` distinct keys cannot meet it."""
    count = plain_int("need", need)
    if not 1 <= count <= keys:
        raise ValueError(f"need is {need!r}; expected 1 to {keys}, the number of distinct keys")
    return count
