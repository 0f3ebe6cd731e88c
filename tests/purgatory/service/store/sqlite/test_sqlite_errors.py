"""What fails in a block that uses a database is told as a StoreError, which says if it is fatal."""

import sqlite3

import pytest

from purgatory.errors import StoreError
from purgatory.service.store.contract import DAMAGE
from purgatory.service.store.sqlite.sqlite_errors import store_errors


def sqlite_error(code):
    """Return an error with an extended code."""
    error = sqlite3.OperationalError("no")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "what", "message", "is_fatal"),
    [
        (sqlite_error(sqlite3.SQLITE_FULL), "write", "a.db: cannot write: no", False),
        (sqlite_error(sqlite3.SQLITE_IOERR | 3 << 8), "write", "a.db: cannot write: no", True),
        (sqlite_error(sqlite3.SQLITE_ERROR), "write", "a.db: cannot write: no", False),
        (sqlite_error(sqlite3.SQLITE_ERROR), "read", f"a.db: {DAMAGE}: no", True),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), "open", f"a.db: {DAMAGE}: no", True),
        (KeyError(7), "read", f"a.db: {DAMAGE}: KeyError(7)", True),
        (ValueError("x"), "write", f"a.db: {DAMAGE}: ValueError('x')", True),
    ],
)
def test_what_an_error_means(error, what, message, is_fatal):
    """A full disk may pass; a faulty one, a damaged database and impossible values do not."""
    with pytest.raises(StoreError) as raised, store_errors("a.db", what):
        raise error
    assert (str(raised.value), raised.value.fatal) == (message, is_fatal)


def test_other_errors_pass():
    """An error that says nothing of the database stays what it is, one of the store, too."""
    for error in (StoreError("x"), RuntimeError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as raised, store_errors("a.db", "read"):
            raise error
        assert raised.value is error
