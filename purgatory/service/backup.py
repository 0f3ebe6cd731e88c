"""Backups: the database and the journal of a data directory, in a new directory.

A server may run meanwhile in another process: SQLite copies the database as of one moment. Keys are
secrets, and are not copied. Any thread.
"""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from purgatory.durable_files import fsync, make_directory
from purgatory.errors import StoreError
from purgatory.journal.files import journal_files_up_to
from purgatory.service.config import Config
from purgatory.service.store.contract import DATABASE_ID, SKIPPED
from purgatory.service.store.data_directory import PRIVATE_DIRECTORY, PRIVATE_FILE
from purgatory.service.store.sqlite.database_files import copy_database
from purgatory.service.store.sqlite.schema import SCHEMA_VERSION, schema_version
from purgatory.service.store.sqlite.sqlite_store import SqliteStore

# Seconds to wait for a server's lock.
_BUSY_S = 10.0


class Backup(NamedTuple):
    """The size of a backup: bytes of the database, files of the journal."""

    database_bytes: int
    journal_files: int


def back_up(config: Config, target: Path) -> Backup:
    """Copy the data of `config` to the new directory `target`, on disk.

    Raises StoreError for a missing database, for another version, and as `new_directory`.
    """
    with new_directory(target) as directory:
        return _copy_data(config, Config(data_dir=directory), "mode=rw")


def restore(backup: Path, target: Path) -> Backup:
    """Make the new data directory `target` from a backup. Raises StoreError likewise.

    A server there replaces the original: both would give the same numbers to different operations.
    The restored outcomes have higher numbers than the original can have delivered since.
    """
    with new_directory(target) as directory:
        config = Config(data_dir=directory)
        copied = _copy_data(Config(data_dir=backup), config, _mode(backup))
        assert config.database is not None
        with closing(SqliteStore(config.database)) as store:
            store.skip_outcome_numbers(SKIPPED)
    return copied


def _copy_data(source: Config, target: Config, mode: str) -> Backup:
    found, copy = source.database, target.database
    assert found is not None
    assert copy is not None
    if not found.is_file():
        raise StoreError(f"{found}: there is no such database")
    _copy_database(found, copy, mode)
    files = _copy_journal(source.journal_dir, target.journal_dir, copy)
    return Backup(copy.stat().st_size, files)


def _copy_database(source: Path, target: Path, mode: str) -> None:
    try:
        connection = sqlite3.connect(
            f"{source.resolve().as_uri()}?{mode}",
            uri=True,
            timeout=_BUSY_S,
            isolation_level=None,
        )
        with closing(connection):
            version = schema_version(connection)
            if version != SCHEMA_VERSION:
                is_later = version > SCHEMA_VERSION
                remedy = "use the later version" if is_later else "start a server to migrate it"
                raise StoreError(
                    f"{source}: schema version is {version}; expected {SCHEMA_VERSION}: {remedy}"
                )
            copy_database(connection, target)
    except sqlite3.Error as error:
        raise StoreError(f"{source}: cannot read: {error}") from error


def _mode(backup: Path) -> str:
    """Return how SQLite opens a backup: without locks if no log is beside it.

    So a backup can be restored from a read-only place. No server begins there meanwhile.
    """
    log = backup / "purgatory.db-wal"
    return "mode=rw" if log.exists() else "mode=ro&immutable=1"


def _copy_journal(source: Path, target: Path, database: Path) -> int:
    """Copy the files of a journal whose rows the copied database has, or had; return how many.

    A file with later rows is left out: the database has the earlier rows, and a server writes these
    again.
    """
    store = SqliteStore(database)  # which checks the copy
    try:
        database_id, last = str(store.metadata()[DATABASE_ID]), store.last_numbers()
    finally:
        store.close()
    count = 0
    for table, number in zip(last._fields, last, strict=True):
        for path in journal_files_up_to(source / table, database_id, number):
            copy_file(path, target / path.relative_to(source))
            count += 1
    return count


@contextmanager
def new_directory(target: Path) -> Iterator[Path]:
    """Yield a directory to fill; it gets the name `target` if the block raises nothing.

    Only its owner may read it. Raises StoreError unless `target` is new or empty and can be
    written.
    """
    target = target.resolve()  # a link stays a link
    unfinished = unfinished_name(target)
    try:
        _check_free(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished.mkdir(mode=PRIVATE_DIRECTORY)
        yield unfinished
        for name, _, _ in os.walk(unfinished):
            fsync(Path(name))
        unfinished.rename(target)  # fails if it has been filled meanwhile
        fsync(target.parent)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StoreError(f"{error.filename or target}: {reason}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def unfinished_name(target: Path) -> Path:
    """Return where this process fills `target`."""
    target = target.resolve()
    return target.with_name(f".{target.name}.unfinished-{os.getpid()}")


def _check_free(target: Path) -> None:
    if target == Path.cwd():  # its name would get another directory
        raise StoreError(f"{target}: is the working directory; expected a new or another directory")
    if target.is_dir():
        found = sorted(path.name for path in target.iterdir())
        if found:
            raise StoreError(f"{target}: has {found[0]!r} in it; expected a new or empty directory")
    elif target.exists():
        raise StoreError(f"{target}: is a file; expected a new or empty directory")


def copy_file(source: Path, target: Path) -> None:
    """Copy a file to disk, and make its directories. Raises OSError."""
    make_directory(target.parent, PRIVATE_DIRECTORY)
    with (
        source.open("rb") as reader,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE), "wb") as writer,  # noqa: PTH123  # a descriptor
    ):
        shutil.copyfileobj(reader, writer, 1 << 20)
        writer.flush()
        os.fsync(writer.fileno())
