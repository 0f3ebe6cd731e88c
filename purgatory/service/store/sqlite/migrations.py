"""Migrations: bring a database of an earlier schema to the present one, a version at a time.

Each step is a transaction: a failed step leaves the version before. The SQL does not change when
the schema does. Used by the thread that opens the store.
"""

import sqlite3
from collections.abc import Callable
from itertools import count
from typing import Final

import msgspec
from msgspec import Raw

from purgatory.service.store.shared_tables import (
    ATTEMPTS,
    EXTENSIONS_AND_HELD_EVENTS,
    JOB_LIVES,
    JOBS,
    PROGRESS,
    SPREADS,
)

Note = Callable[[str], None]
"""Gets the progress of a long step, as a text for people."""


def quiet(_: str) -> None:
    """Ignore a text."""


_NOTED: Final = 1000  # rows between two notes

#: What remains of version 1, beside `PROGRESS`.
_FIRST_TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE outcomes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    number INTEGER NOT NULL, -- of the operation
    outcome TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    lateness_ms INTEGER NOT NULL,
    by_key TEXT,
    result BLOB -- MessagePack
);
"""

_BATCHES: Final = """
CREATE TABLE batches (
    first INTEGER PRIMARY KEY, -- number of the first operation ever in it
    last INTEGER NOT NULL, -- and of the last one
    size INTEGER NOT NULL, -- operations in it
    client TEXT NOT NULL,
    submitted_ms INTEGER NOT NULL, -- Unix
    numbers BLOB, -- MessagePack: array of their numbers; NULL: first to last
    operations BLOB NOT NULL -- MessagePack: an array of PackedOperation
);
CREATE TABLE forgotten ( -- deleted, of batches that have others
    number INTEGER PRIMARY KEY
);
"""

_MOVE_OPERATIONS: Final = """
INSERT INTO meta SELECT 'last', seq FROM sqlite_sequence WHERE name = 'operations';
INSERT INTO batches SELECT number, number, 1, client, submitted_ms, NULL,
    packed(op_id, keys, deadline_ms - submitted_ms, need, kind, payload) FROM operations;
DROP TABLE operations;
"""


def run_statements(connection: sqlite3.Connection, statements: str) -> None:
    """Run SQL statements, each ending with a semicolon and a line."""
    for statement in statements.split(";\n"):
        connection.execute(statement)


def _pack_operations(connection: sqlite3.Connection, note: Note) -> None:
    [(total,)] = connection.execute("SELECT count(*) FROM operations")
    done = count(1)

    def packed(
        op_id: str, keys: bytes, timeout_ms: int, need: int, kind: str, payload: bytes | None
    ) -> bytes:
        if (number := next(done)) % _NOTED == 0:
            note(f"{number:,} of {total:,} operations are converted")
        values = (op_id, Raw(keys), timeout_ms, need, kind, Raw(payload or b"\xc0"))
        return msgspec.msgpack.encode([values])

    connection.create_function("packed", 6, packed, deterministic=True)
    run_statements(connection, _BATCHES + _MOVE_OPERATIONS)


def _adding(tables: str) -> Callable[[sqlite3.Connection, Note], None]:
    return lambda connection, _: run_statements(connection, tables)


#: The tables that each version has added, in order.
_ADDED_TABLES: Final = {
    2: _BATCHES,
    3: EXTENSIONS_AND_HELD_EVENTS,
    4: JOBS,
    5: SPREADS,
    6: JOB_LIVES,
    7: ATTEMPTS,
}
#: Version -> the step that leads to it from the version before.
STEPS: Final[dict[int, Callable[[sqlite3.Connection, Note], None]]] = {
    version: _adding(tables) for version, tables in _ADDED_TABLES.items()
} | {2: _pack_operations}


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of a new database, as the steps would, in the caller's transaction."""
    run_statements(connection, _FIRST_TABLES + PROGRESS + "".join(_ADDED_TABLES.values()))


def migrate(connection: sqlite3.Connection, version: int, note: Note = quiet) -> int:
    """Run the steps that a database of `version` lacks; return its version then."""
    for target in sorted(STEPS):
        if target > version:
            connection.execute("BEGIN IMMEDIATE")
            STEPS[target](connection, note)
            connection.execute(f"PRAGMA user_version={target}")
            connection.execute("COMMIT")
    return max(STEPS)
