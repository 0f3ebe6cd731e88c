"""SmallTables: the tables with a row for each thing, written many rows to a statement; metadata.

Makes statements only. Parts of `PostgresStore`, for its thread.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from purgatory.service.store.changes import Changes
from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.session import Rows, Statement, statement
from purgatory.service.store.postgres.sessions.wire_values import (
    Kind,
    array_parameters,
    column_type,
    wire_array,
    wire_int,
    wire_ints,
)
from purgatory.service.store.rows import delete_early_attempts
from purgatory.service.store.table_store import QUEUES, SHAPES, SHIFTED, queued_of, rows_of

#: Columns of a table, with their kinds.
Columns = dict[str, Kind]


class KeyedTable:
    """A table; rows are written instead of those of the same key, the first `keys` columns.

    `times`: the columns that `shift_times` moves. `kept`: a row of a key that exists is an error,
    as for numbers given once.
    """

    def __init__(
        self,
        namespace: Namespace,
        name: str,
        columns: Columns,
        *,
        keys: int = 1,
        times: Sequence[str] = ("at_ms",),
        kept: bool = False,
    ) -> None:
        self.name: str = namespace.table(name)
        self.columns: Columns = columns
        #: Whether it has, or may have, a row: nothing is looked up or deleted in an empty one.
        self.is_used: bool = True
        self._kinds: list[Kind] = list(columns.values())
        self._keys: Final = list(columns)[:keys]
        self._times = times
        self._kept = kept
        names, self._row = ", ".join(columns), ", ".join(map("EXCLUDED.{}".format, columns))
        arrays = array_parameters(self._kinds)
        self._insert = f"INSERT INTO {self.name} ({names}) SELECT * FROM unnest({arrays})"
        if not kept:
            sets = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns)
            self._insert += f" ON CONFLICT ({', '.join(self._keys)}) DO UPDATE SET {sets}"
        condition = " AND ".join(f"t.{key} = d.{key}" for key in self._keys)
        self._delete = (
            f"DELETE FROM {self.name} t USING unnest({array_parameters(self._kinds[:keys])}) "
            f"AS d({', '.join(self._keys)}) WHERE {condition}"
        )

    def write(self, values: list[Any]) -> Statement:
        """Write rows, given as a flat list of their values."""
        self.is_used = True
        width = len(self._kinds)
        if not self._kept and len(values) > width:
            values = self._latest(values)
        columns = [values[at::width] for at in range(width)]
        return statement(self._insert, *map(wire_array, self._kinds, columns))

    def _latest(self, values: list[Any]) -> list[Any]:
        """Return the last row of each key: a statement cannot write a row twice."""
        width, keys = len(self._kinds), len(self._keys)
        rows = {
            tuple(values[at : at + keys]): values[at : at + width]
            for at in range(0, len(values), width)
        }
        if len(rows) * width == len(values):
            return values
        return [value for row in rows.values() for value in row]

    def delete(self, *keys: Sequence[Any]) -> Statement:
        """Delete the rows of some keys, given as a list for each of the key's columns."""
        return statement(self._delete, *map(wire_array, self._kinds, keys))

    def delete_by_first(self, keys: Sequence[Any]) -> Statement:
        """Delete the rows of some values of the first column."""
        kind = self._kinds[0]
        condition = f"{self._keys[0]} = ANY($1::{column_type(kind)}[])"
        return statement(f"DELETE FROM {self.name} WHERE {condition}", wire_array(kind, keys))

    def select(self, rest: str = "", *values: bytes, columns: Sequence[str] = ()) -> Statement:
        """Read rows; `rest`: what follows in the statement. `columns`: all by default."""
        names = ", ".join(columns or self.columns)
        return statement(f"SELECT {names} FROM {self.name} {rest}", *values)

    def select_keys(self, keys: Sequence[Any], columns: Sequence[str] = ()) -> Statement:
        """Read the rows of some keys, of the first column."""
        kind = self._kinds[0]
        rest = f"WHERE {self._keys[0]} = ANY($1::{column_type(kind)}[])"
        return self.select(rest, wire_array(kind, keys), columns=columns)

    def decoded(self, rows: Rows, columns: Sequence[str] = ()) -> Rows:
        """Return rows of `columns` with their texts decoded."""
        names = list(columns or self.columns)
        texts = [at for at, name in enumerate(names) if self.columns[name] == "text"]
        if not texts:
            return rows
        found: Rows = []
        for row in rows:
            values = list(row)
            for at in texts:
                values[at] = values[at].decode()
            found.append(tuple(values))
        return found

    def shift_times(self, by_ms: int, where: str = "") -> Statement:
        """Move the times of all rows, or of those of a condition."""
        moved = ", ".join(f"{time} = {time} + $1::int8" for time in self._times)
        return statement(f"UPDATE {self.name} SET {moved} {where}", wire_int(by_ms))


# The kinds of columns that are no whole numbers.
_KINDS: Final[dict[str, Kind]] = {
    "client": "text",
    "counts": "bytea",
    "error": "text",
    "holder": "text",
    "jobs": "bytea",
    "key": "text",
    "kind": "text",
    "name": "text",
    "op_id": "text",
    "per_second": "float8",
    "reply": "bytea",
    "result": "bytea",
    "session": "text",
    "settings": "bytea",
    "value": "bytea",
    "worker": "text",
}
_SIZES: Final = {
    "progress": "SELECT key, octet_length(value)::int8, number FROM {}",
    "held": "SELECT key, octet_length(value)::int8 FROM {}",
    "replies": "SELECT session, octet_length(reply)::int8 FROM {}",
}


def _columns(*names: str) -> Columns:
    return {name: _KINDS.get(name, "int8") for name in names}


class SmallTables:
    """The tables of a namespace. `is_used_up`: SQL of a spread to which no outcome refers."""

    def __init__(self, namespace: Namespace, is_used_up: str) -> None:
        self._is_used_up = is_used_up
        #: By name, also those of the journal's queue.
        self.by_name: dict[str, KeyedTable] = {
            name: KeyedTable(
                namespace, name, _columns(*shape.columns), keys=shape.keys, times=shape.times
            )
            for name, shape in SHAPES.items()
        } | {
            name: KeyedTable(namespace, name, _columns(*shape.columns), kept=True)
            for name, shape in QUEUES.items()
        }
        self.progress: KeyedTable = KeyedTable(
            namespace, "progress", _columns("number", "key", "value"), keys=2, kept=True
        )
        self._all = (self.progress, *self.by_name.values())

    def looks(self) -> list[Statement]:
        """Read a row of each table, for `note_use`."""
        return [statement(f"SELECT 1 FROM {table.name} LIMIT 1") for table in self._all]

    def note_use(self, found: list[Rows]) -> None:
        """Note which tables are empty."""
        for table, rows in zip(self._all, found, strict=True):
            table.is_used = bool(rows)

    def writing(self, changes: Changes) -> list[Statement]:
        """Write rows, then delete the named rows."""
        tables = self.by_name
        made = [
            tables[name].write(rows)
            for name, rows in itertools.chain(rows_of(changes), queued_of(changes))
        ]
        if changes.delete_queued is not None:
            made += [
                statement(f"DELETE FROM {tables[name].name} WHERE number <= {number:d}")
                for name, number in zip(QUEUES, changes.delete_queued, strict=True)
            ]
        if changes.trim_attempts:
            seqs = wire_ints(changes.trim_attempts)
            sql = delete_early_attempts(tables["attempts"].name)
            made.append(statement(f"{sql} AND seq = ANY($1::int8[])", seqs))
        for name, keys in (
            ("held", changes.delete_held),
            ("named_leases", changes.delete_named_leases),
            ("limits", changes.delete_limits),
        ):
            if keys:
                made.append(tables[name].delete(keys))
        if changes.delete_repeats:
            made.append(tables["repeats"].delete(*zip(*changes.delete_repeats, strict=True)))
        if changes.delete_replies:
            made.append(tables["replies"].delete(*zip(*changes.delete_replies, strict=True)))
        return made

    def deleting(self, changes: Changes) -> list[Statement]:
        """Delete the rows of operations and deleted outcomes."""
        made: list[Statement] = []
        deadlines, attempts = self.by_name["deadlines"], self.by_name["attempts"]
        if numbers := changes.delete_operations:
            if deadlines.is_used:
                made.append(deadlines.delete(numbers))
            if self.progress.is_used:
                made.append(self.progress.delete_by_first(numbers))
        if seqs := changes.delete_outcomes:
            tables = (self.by_name["jobs"], self.by_name["results"])
            made += [table.delete(seqs) for table in tables if table.is_used]
            if attempts.is_used:
                made.append(attempts.delete_by_first(seqs))
        return made

    def deleting_spreads(self) -> list[Statement]:
        """Delete the spreads to which no outcome refers any more."""
        spreads = self.by_name["spreads"]
        if not spreads.is_used:
            return []
        return [statement(f"DELETE FROM {spreads.name} s WHERE {self._is_used_up}")]

    def sizes(self, table: Literal["progress", "held", "replies"]) -> Statement:
        """Read the key, or the session, and the bytes of each value that a table has."""
        sized = self.progress if table == "progress" else self.by_name[table]
        return statement(_SIZES[table].format(sized.name))

    def shifting(self, by_ms: int, ended: Sequence[int]) -> Iterator[Statement]:
        """Move the times that still matter; `ended`: operations whose deadlines stay."""
        sql = (
            f"UPDATE {self.by_name['deadlines'].name} SET deadline_ms = deadline_ms + $1::int8 "
            "WHERE number <> ALL($2::int8[])"
        )
        yield statement(sql, wire_int(by_ms), wire_ints(ended))
        for name in SHIFTED:
            yield self.by_name[name].shift_times(by_ms, SHAPES[name].moved)


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder().decode
# For what `check_room` writes.
_ROOM: Final = "room"


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
        """Read all."""
        return statement(f"SELECT key, value FROM {self._name} WHERE key <> '{_ROOM}'")

    def read_one(self, key: str) -> Statement:
        """Read the value of a key."""
        return statement(f"SELECT value FROM {self._name} WHERE key = $1::text", key.encode())

    def fill_room(self, data: bytes) -> Statement:
        """Write bytes that are never read."""
        return self.write(_ROOM, data)

    def empty_room(self) -> Statement:
        """Delete these bytes."""
        return statement(f"DELETE FROM {self._name} WHERE key = '{_ROOM}'")


def metadata_of(rows: Rows) -> dict[str, Any]:
    """Decode metadata."""
    return {key: _decode(value) for key, value in rows}


def value_of(rows: Rows) -> Any:
    """Decode the text or number of `read_one`; None without a row."""
    return _decode(rows[0][0]) if rows else None
