"""Opening: chooses a server's store. Any thread."""

import importlib
from pathlib import Path

from purgatory.service.store.contract import Store, StoreError
from purgatory.service.store.lease import HeldLease, LeaseRow
from purgatory.service.store.sqlite.migrations import Note, quiet
from purgatory.service.store.sqlite.sqlite_store import SqliteStore


def open_file(path: Path | None, note: Note = quiet) -> Store:
    """Open the store in the file `path`, made if needed, or in memory. Raises StoreError.

    `note` gets texts of the progress.
    """
    return SqliteStore(path, note=note)


def open_postgres(
    url: str, partition: str, lease: HeldLease, require_replicated: bool = False
) -> Store:
    """Open the store in PostgreSQL, for the holder of a lease. Raises StoreError."""
    _check_driver()
    from purgatory.service.store.postgres.postgres_store import PostgresStore  # noqa: PLC0415

    return PostgresStore(url, partition, lease, require_replicated=require_replicated)


def open_lease_row(
    url: str, partition: str, holder: str, address: str, *, timeout_s: float = 2.0
) -> LeaseRow:
    """Return the row of a lease in PostgreSQL. Raises StoreError."""
    _check_driver()
    from purgatory.service.store.postgres.lease_row import PostgresLeaseRow  # noqa: PLC0415

    return PostgresLeaseRow(url, partition, holder, address, timeout_s=timeout_s)


def _check_driver() -> None:
    try:
        importlib.import_module("psycopg")
    except ImportError as error:
        raise StoreError(
            "a store in PostgreSQL needs psycopg: pip install 'timer-purgatory[postgres]'"
        ) from error
