"""SmallTables: the tables with a row for each thing. Makes statements only.

Thread with the store.
"""

from collections.abc import Iterable
from typing import Any, Final, Literal

from purgatory.service.store.changes import Changes
from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.session import Rows, Statement, statement
from purgatory.service.store.postgres.sessions.wire_values import Kind, wire_ints
from purgatory.service.store.postgres.tables import KeyedTable
from purgatory.service.store.rows import delete_early_attempts
from purgatory.service.store.table_store import QUEUES, TABLES, deleted_of

# Of columns without whole numbers.
_KINDS: Final[dict[str, Kind]] = {
    "client": "text",
    "counts": "bytea",
    "entries": "bytea",
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
    "status": "bytea",
    "value": "bytea",
    "worker": "text",
}
_SIZES: Final = {
    "progress": "SELECT key, octet_length(value)::int8, number FROM {}",
    "held": "SELECT key, octet_length(value)::int8 FROM {}",
    "replies": "SELECT session, octet_length(reply)::int8 FROM {}",
}


def _kind(column: str) -> Kind:
    return _KINDS.get(column, "int8")


class SmallTables:
    """The tables of a namespace. `is_used_up`: SQL of an unused spread `s`."""

    def __init__(self, namespace: Namespace, is_used_up: str) -> None:
        self._is_used_up = is_used_up
        self.by_name: dict[str, KeyedTable] = {
            name: KeyedTable(namespace, name, shape, {one: _kind(one) for one in shape.columns})
            for name, shape in TABLES.items()
        }
        self.progress: KeyedTable = self.by_name["progress"]

    def looks(self) -> list[Statement]:
        """Read a row of each table, for `note_use`."""
        return [statement(f"SELECT 1 FROM {table.name} LIMIT 1") for table in self.by_name.values()]

    def note_use(self, found: list[Rows]) -> None:
        """Note which tables are empty."""
        for table, rows in zip(self.by_name.values(), found, strict=True):
            table.is_used = bool(rows)

    def writing(self, rows: Iterable[tuple[str, list[Any]]], changes: Changes) -> list[Statement]:
        """Write rows, by table, then delete the named rows."""
        tables = self.by_name
        made = [tables[name].write(values) for name, values in rows]
        if changes.delete_queued is not None:
            made += [
                statement(f"DELETE FROM {tables[name].name} WHERE number <= {number:d}")
                for name, number in zip(QUEUES, changes.delete_queued, strict=True)
            ]
        if changes.trim_attempts:
            seqs = wire_ints(changes.trim_attempts)
            sql = delete_early_attempts(tables["attempts"].name)
            made.append(statement(f"{sql} AND seq = ANY($1::int8[])", seqs))
        made += [tables[name].delete(keys) for name, keys in deleted_of(changes)]
        if changes.delete_repeats:
            made.append(tables["repeats"].delete(*zip(*changes.delete_repeats, strict=True)))
        if changes.delete_replies:
            made.append(tables["replies"].delete(*zip(*changes.delete_replies, strict=True)))
        return made

    def deleting(self, changes: Changes) -> list[Statement]:
        """Delete what belongs to deleted operations and outcomes."""
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
        """Delete the spreads to which no outcome refers."""
        spreads = self.by_name["spreads"]
        if not spreads.is_used:
            return []
        return [statement(f"DELETE FROM {spreads.name} s WHERE {self._is_used_up}")]

    def sizes(self, table: Literal["progress", "held", "replies"]) -> Statement:
        """See `Store.sizes`."""
        return statement(_SIZES[table].format(self.by_name[table].name))
