"""MetadataRows: the table of metadata, key -> text, whole number or bytes.

Makes statements only. Immutable; any thread.
"""

from typing import Any, Final

import msgspec

from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.session import Rows, Statement, statement

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
_ROOM: Final = "room"  # written by `check_room`


class MetadataRows:
    """The table of a namespace."""

    def __init__(self, namespace: Namespace) -> None:
        self._name = namespace.table("meta")

    def write(self, key: str, value: Any) -> Statement:
        """Write a value."""
        sql = (
            f"INSERT INTO {self._name} VALUES ($1::text, $2::bytea) "
            "ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
        )
        return statement(sql, key.encode(), _encode(value))

    def read(self) -> Statement:
        """Read all values."""
        return statement(f"SELECT key, value FROM {self._name} WHERE key <> '{_ROOM}'")

    def read_one(self, key: str) -> Statement:
        """Read the value of a key."""
        return statement(f"SELECT value FROM {self._name} WHERE key = $1::text", key.encode())

    def fill_room(self, data: bytes) -> Statement:
        """Write useless bytes."""
        return self.write(_ROOM, data)

    def empty_room(self) -> Statement:
        """Delete these bytes."""
        return statement(f"DELETE FROM {self._name} WHERE key = '{_ROOM}'")


def metadata_of(rows: Rows) -> dict[str, Any]:
    """Decode metadata."""
    return {key: _decode(value) for key, value in rows}


def value_of(rows: Rows) -> Any:
    """Decode the value of `read_one`; None without a row."""
    return _decode(rows[0][0]) if rows else None
