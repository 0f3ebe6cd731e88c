"""Copies of a database: consistent, complete, on disk, and private, or not there at all."""

import sqlite3
from pathlib import Path

from purgatory.durable_files import fsync
from purgatory.errors import StoreError
from purgatory.service.store.private_files import make_database_private


def copy_database(connection: sqlite3.Connection, target: Path) -> None:
    """Copy the database of `connection`, as it is at one moment, to the file `target`.

    Other connections may write meanwhile. It is on disk when this returns; a file of that name is
    replaced. Raises StoreError, which names the file.
    """
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        make_database_private(unfinished)
        _copy(connection, unfinished)
        fsync(unfinished)
        unfinished.replace(target)
        fsync(target.parent)
    except (OSError, sqlite3.Error) as error:
        unfinished.unlink(missing_ok=True)
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"{target}: cannot copy the database there: {reason}") from error


def _copy(connection: sqlite3.Connection, target: Path) -> None:
    copy = sqlite3.connect(target, isolation_level=None)
    try:
        # All pages in one step: with several, SQLite begins anew whenever another connection has
        # written. A reader does not block the writer, whose log grows meanwhile.
        connection.backup(copy)
    finally:
        copy.close()
