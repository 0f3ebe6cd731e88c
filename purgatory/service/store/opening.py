"""Opening: chooses the store of a server. The thread that starts the server."""

from pathlib import Path

from purgatory.service.store.contract import Store
from purgatory.service.store.sqlite.sqlite_store import SqliteStore


def open_file(path: Path | None) -> Store:
    """Open the store in the file `path`, made if needed, or in memory. Raises StoreError."""
    return SqliteStore(path)
