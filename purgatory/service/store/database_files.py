"""DatabaseFiles: what a store does to its files beside SQLite. The store thread alone."""

import sqlite3
from pathlib import Path
from typing import Final, Protocol

from purgatory.service.store.database_copy import copy_database
from purgatory.service.store.private_files import make_database_private
from purgatory.service.store.wal_preallocation import WalPreallocator


class DatabaseFiles(Protocol):
    """The files of a database; a simulation has its own."""

    def make_private(self, path: Path) -> None:
        """Make an empty database file, or make the files of one private. Raises StoreError."""

    def wal_preallocator(self, log: Path, enough: int) -> WalPreallocator:
        """Return what extends the write-ahead log `log` up to `enough` bytes."""

    def copy(self, connection: sqlite3.Connection, target: Path) -> None:
        """Copy the database of a connection to `target`. Raises StoreError; see `copy_database`."""


class RealFiles:
    """Files of the system."""

    def make_private(self, path: Path) -> None:
        """See `DatabaseFiles`."""
        make_database_private(path)

    def wal_preallocator(self, log: Path, enough: int) -> WalPreallocator:
        """See `DatabaseFiles`."""
        return WalPreallocator(log, enough)

    def copy(self, connection: sqlite3.Connection, target: Path) -> None:
        """See `DatabaseFiles`."""
        copy_database(connection, target)


REAL_FILES: Final = RealFiles()
