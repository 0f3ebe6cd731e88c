"""Wire values: Python values in PostgreSQL's binary protocol. Any thread.

Texts of clients are stored as `bytea`, in UTF-8: PostgreSQL's texts cannot have the character NUL,
and are ordered by a language's rules.
"""

import struct
from collections.abc import Sequence
from typing import Any, Final, Literal

#: Of a column; `text`: of clients.
Kind = Literal["int8", "text", "bytea", "float8"]

_OIDS: Final[dict[Kind, int]] = {"int8": 20, "text": 17, "bytea": 17, "float8": 701}
_ARRAY: Final = struct.Struct("!iIIiI")
_EMPTY_ARRAY: Final = struct.Struct("!iIi")
_INT: Final = struct.Struct("!q")
_LENGTH: Final = struct.Struct("!i")
_NULL: Final = _LENGTH.pack(-1)


def wire_int(value: int) -> bytes:
    """Encode an int8."""
    return _INT.pack(value)


def wire_ints(values: Sequence[int]) -> bytes:
    """Encode an int8[]."""
    return wire_array("int8", values)


def wire_array(kind: Kind, values: Sequence[Any]) -> bytes:
    """Encode an array; None is NULL, except among numbers."""
    if not values:
        return _EMPTY_ARRAY.pack(0, 0, _OIDS[kind])
    if kind in ("int8", "float8"):
        return _header(kind, len(values), 0) + _packed_numbers(kind, values)
    items: list[bytes] = []
    nulls = 0
    for value in values:
        if value is None:
            nulls = 1
            items.append(_NULL)
        else:
            data = value.encode() if isinstance(value, str) else value
            items += (_LENGTH.pack(len(data)), data)
    return _header(kind, len(values), nulls) + b"".join(items)


def _header(kind: Kind, count: int, nulls: int) -> bytes:
    return _ARRAY.pack(1, nulls, _OIDS[kind], count, 1)


def _packed_numbers(kind: Kind, values: Sequence[Any]) -> bytes:
    count = len(values)
    flat: list[Any] = [8] * (2 * count)
    flat[1::2] = values
    return struct.pack("!" + ("iq" if kind == "int8" else "id") * count, *flat)


def array_parameters(kinds: Sequence[Kind]) -> str:
    """Return a statement's parameters for an array of each kind."""
    return ", ".join(f"${at}::{column_type(kind)}[]" for at, kind in enumerate(kinds, 1))


def column_type(kind: Kind) -> str:
    """Return PostgreSQL's type of a kind."""
    return "bytea" if kind == "text" else kind
