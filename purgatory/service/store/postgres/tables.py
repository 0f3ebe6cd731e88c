"""KeyedTable: a small table, written many rows to a statement. Makes statements only.

Thread with the store.
"""

from collections.abc import Sequence
from typing import Any, Final

from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.session import Rows, Statement, statement
from purgatory.service.store.postgres.sessions.wire_values import (
    Kind,
    array_parameters,
    column_type,
    wire_array,
)
from purgatory.service.store.table_store import TableShape


class KeyedTable:
    """A table of a `shape`; `columns`: with their kinds."""

    def __init__(
        self, namespace: Namespace, name: str, shape: TableShape, columns: dict[str, Kind]
    ) -> None:
        self.name: str = namespace.table(name)
        self.columns: dict[str, Kind] = columns
        #: Whether it may have a row: no statement looks in an empty table.
        self.is_used: bool = True
        self._kinds: list[Kind] = list(columns.values())
        self._keys: Final = shape.columns[: shape.keys]
        self._shape = shape
        names, self._row = ", ".join(columns), ", ".join(map("EXCLUDED.{}".format, columns))
        arrays = array_parameters(self._kinds)
        self._insert = f"INSERT INTO {self.name} ({names}) SELECT * FROM unnest({arrays})"
        if not shape.kept:
            sets = ", ".join(f"{column} = EXCLUDED.{column}" for column in columns)
            self._insert += f" ON CONFLICT ({', '.join(self._keys)}) DO UPDATE SET {sets}"
        condition = " AND ".join(f"t.{key} = d.{key}" for key in self._keys)
        arrays = array_parameters(self._kinds[: shape.keys])
        self._delete = (
            f"DELETE FROM {self.name} t USING unnest({arrays}) "
            f"AS d({', '.join(self._keys)}) WHERE {condition}"
        )

    def write(self, values: list[Any]) -> Statement:
        """Write rows, as a flat list of values."""
        self.is_used = True
        width = len(self._kinds)
        if not self._shape.kept and len(values) > width:
            values = self._latest(values)
        columns = [values[at::width] for at in range(width)]
        return statement(self._insert, *map(wire_array, self._kinds, columns))

    def _latest(self, values: list[Any]) -> list[Any]:
        """Return the last row of each key: a statement writes a row once."""
        width, keys = len(self._kinds), len(self._keys)
        rows = {
            tuple(values[at : at + keys]): values[at : at + width]
            for at in range(0, len(values), width)
        }
        if len(rows) * width == len(values):
            return values
        return [value for row in rows.values() for value in row]

    def delete(self, *keys: Sequence[Any]) -> Statement:
        """Delete rows by key, a list for each of its columns."""
        return statement(self._delete, *map(wire_array, self._kinds, keys))

    def delete_by_first(self, keys: Sequence[Any]) -> Statement:
        """Delete rows by values of the first column."""
        kind = self._kinds[0]
        condition = f"{self._keys[0]} = ANY($1::{column_type(kind)}[])"
        return statement(f"DELETE FROM {self.name} WHERE {condition}", wire_array(kind, keys))

    def select(self, rest: str = "", *values: bytes, columns: Sequence[str] = ()) -> Statement:
        """Read rows; `rest`: the statement's end."""
        names = ", ".join(columns or self.columns)
        return statement(f"SELECT {names} FROM {self.name} {rest}", *values)

    def select_keys(self, keys: Sequence[Any], columns: Sequence[str] = ()) -> Statement:
        """Read rows by values of the first column."""
        kind = self._kinds[0]
        rest = f"WHERE {self._keys[0]} = ANY($1::{column_type(kind)}[])"
        return self.select(rest, wire_array(kind, keys), columns=columns)

    def decoded(self, rows: Rows, columns: Sequence[str] = ()) -> Rows:
        """Return rows of `columns` with decoded texts."""
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
