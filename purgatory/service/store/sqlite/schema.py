"""The schema of the database: older databases are migrated, damage is found.

Before a migration, `purgatory.db` of version 2 is copied to `purgatory.db.version-2`. For the
thread that opens the store.
"""

import logging
import secrets
import sqlite3
from pathlib import Path
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.store.contract import COUNT, DATABASE_ID
from purgatory.service.store.sqlite.database_files import DatabaseFiles
from purgatory.service.store.sqlite.migrations import Note, create_tables, migrate

log: logging.Logger = logging.getLogger(__name__)

SCHEMA_VERSION: Final = 7
OLDEST_VERSION: Final = 1
_MIB: Final = 1 << 20
#: With more remembered ids, a start does not check their tables, of gigabytes.
MAX_CHECKED: Final = 100_000


def set_up_schema(
    connection: sqlite3.Connection, path: Path | None, files: DatabaseFiles, note: Note
) -> None:
    """Make the tables of a new database, or migrate an older one.

    `path`: None in memory; `files` makes the copy; `note` gets the progress. Raises StoreError for
    a database of another program or of a later version.
    """
    version = schema_version(connection)
    if version == SCHEMA_VERSION:
        return
    if version == 0 and not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        _create(connection)
        return
    if not OLDEST_VERSION <= version <= SCHEMA_VERSION:
        raise StoreError(
            f"{path}: schema version is {version}; expected {OLDEST_VERSION} to {SCHEMA_VERSION}"
        )
    assert path is not None
    kept = path.with_name(f"{path.name}.version-{version}")
    files.copy(
        connection,
        kept,
        lambda done, of: note(
            f"{done / _MIB:,.0f} of {of / _MIB:,.0f} MiB are copied, of a database of version "
            f"{version}"
        ),
    )
    migrate(connection, version, note)
    log.warning("%s: migrated from schema version %d to %d; copy of the earlier database: %s",
                path, version, SCHEMA_VERSION, kept)  # fmt: skip


def schema_version(connection: sqlite3.Connection) -> int:
    """Return a schema's version; 0 if new, or another program's."""
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    create_tables(connection)
    # Identifies the database that gave a number.
    connection.execute("INSERT INTO meta VALUES (?, ?)", (DATABASE_ID, secrets.token_hex(8)))
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.execute("COMMIT")


def number_of(connection: sqlite3.Connection, key: str) -> int:
    """Return a number of the metadata, or 0."""
    row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return row[0] if row else 0


def quick_checks(connection: sqlite3.Connection) -> list[str]:
    """Return the statements that find damage; without remembered ids, if many."""
    if number_of(connection, COUNT) <= MAX_CHECKED:
        return ["PRAGMA quick_check(1)"]
    sql = "SELECT name FROM sqlite_schema WHERE type = 'table'"
    tables = {name for (name,) in connection.execute(sql)} | {"sqlite_schema"}
    checked = sorted(tables - {"remembered", "remembered_shards"})
    return [f"PRAGMA quick_check('{name}')" for name in checked]
