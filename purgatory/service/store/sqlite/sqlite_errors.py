"""StoreErrors for SQLite's errors and unreadable values. Any thread."""

import contextlib
import sqlite3
from collections.abc import Iterator
from typing import Final

import msgspec

from purgatory.errors import StoreError
from purgatory.service.store.contract import DAMAGE

# Then the content of the disk is unknown.
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_FATAL: Final = (sqlite3.SQLITE_IOERR, *_DAMAGED)
# No code: a text that is not UTF-8. Else the schema is damaged: statements do not change.
_UNREADABLE: Final = (0, sqlite3.SQLITE_ERROR)

# Of SQLite, and of unreadable values.
_ERRORS: Final = (sqlite3.Error, LookupError, TypeError, ValueError, msgspec.MsgspecError)


@contextlib.contextmanager
def store_errors(where: str, what: str = "read") -> Iterator[None]:
    """Raise StoreError if the block fails, which does `what` with the database `where`."""
    try:
        yield
    except _ERRORS as error:
        raise _store_error(where, what, error) from error


def _store_error(where: str, what: str, error: Exception) -> StoreError:
    if not isinstance(error, sqlite3.Error | UnicodeError):
        return StoreError(f"{where}: {DAMAGE}: {error!r}", fatal=True)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary code
    damaged = code in _DAMAGED or (what != "write" and code in _UNREADABLE)
    why = f"{DAMAGE}: {error}" if damaged else f"cannot {what}: {error}"
    return StoreError(f"{where}: {why}", fatal=damaged or code in _FATAL)
