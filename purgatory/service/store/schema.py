"""The schema of the store's database; older databases are brought up to it when they are opened."""

import secrets
import sqlite3
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.store import operation_batches

SCHEMA_VERSION: Final = 3
#: Key of the metadata that identifies the database.
DATABASE_ID: Final = "source"

_TABLES: Final = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE progress ( -- of operations that need several keys
    number INTEGER NOT NULL,
    key TEXT NOT NULL,
    value BLOB NOT NULL, -- MessagePack
    PRIMARY KEY (number, key)
) WITHOUT ROWID;
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

# Version 3 has these, too.
_ADDED_TABLES: Final = """
CREATE TABLE deadlines ( -- of operations that were extended
    number INTEGER PRIMARY KEY,
    deadline_ms INTEGER NOT NULL
);
CREATE TABLE held ( -- events that also count for operations submitted later
    key TEXT PRIMARY KEY,
    number INTEGER NOT NULL, -- in the order in which they came
    at_ms INTEGER NOT NULL,
    until_ms INTEGER NOT NULL,
    units INTEGER NOT NULL, -- for so many more operations; -1: for any number
    value BLOB NOT NULL -- MessagePack
) WITHOUT ROWID;
CREATE TABLE replies ( -- to the latest requests of a session, to repeat them
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    reply BLOB NOT NULL, -- its frame
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
CREATE TABLE queued_events ( -- until the journal has them
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    key TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    hold_ms INTEGER NOT NULL,
    failed INTEGER NOT NULL
);
CREATE TABLE queued_extensions ( -- until the journal has them
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    op_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    timeout_ms INTEGER NOT NULL
);
"""


def set_up_schema(connection: sqlite3.Connection, where: str) -> None:
    """Make the tables of a new database, or those that an older one lacks; nothing otherwise.

    Raises StoreError for a database of another program or of a version that is not known.
    """
    run = connection.execute
    version = run("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA_VERSION:
        return
    is_new = version == 0 and not run("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if not is_new and version != SCHEMA_VERSION - 1:
        raise StoreError(
            f"{where}: schema version is {version}; expected {SCHEMA_VERSION - 1} or "
            f"{SCHEMA_VERSION}"
        )
    run("BEGIN IMMEDIATE")
    if is_new:
        _run_all(connection, _TABLES + operation_batches.SCHEMA)
        # Identifies the database that gave a number: each counts for itself.
        run("INSERT INTO meta VALUES (?, ?)", (DATABASE_ID, secrets.token_hex(8)))
    _run_all(connection, _ADDED_TABLES)
    run(f"PRAGMA user_version={SCHEMA_VERSION}")
    run("COMMIT")


def _run_all(connection: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";\n"):
        connection.execute(statement)
