"""Errors of a session with PostgreSQL, and their codes. Any thread."""

import contextlib
from collections.abc import Iterator
from typing import Final

import msgspec

from purgatory.errors import StoreError
from purgatory.service.store.contract import DAMAGE

LOCK_TIMEOUT: Final = "55P03"
#: A division by zero: the fence, or the look at the replication.
REFUSED_BY_GROUP: Final = "22012"
# Another session has made the same object: a unique violation, a duplicate schema or table.
_RACES: Final = ("23505", "42P06", "42P07", "40001", "40P01")
_READ_ONLY: Final = "25006"
_MISSING: Final = ("3F000", "42P01")  # a schema, a table
# What passes: an operator's intervention, as a cancelled statement (57014), a connection that a
# pooler lost, a rollback for other transactions, a lock.
_PASSING: Final = ("57", "08", "40", LOCK_TIMEOUT)


class SessionLost(StoreError):
    """Raised when a session ends or does not answer in time."""


class StatementRefused(StoreError):
    """Raised when the database refuses statement `index` of a group: nothing was kept."""

    def __init__(self, message: str, code: str, index: int) -> None:
        super().__init__(message)
        self.code = code
        self.index = index

    def __reduce__(self) -> tuple[type["StatementRefused"], tuple[str, str, int]]:
        return type(self), (str(self), self.code, self.index)

    @property
    def is_race(self) -> bool:
        """Whether another session was doing the same: a retry may succeed."""
        return self.code in _RACES

    @property
    def is_passing(self) -> bool:
        """Whether the statement may succeed a moment later."""
        return self.code.startswith(_PASSING)

    @property
    def is_for_missing(self) -> bool:
        """Whether the database has no such table."""
        return self.code in _MISSING

    @property
    def is_read_only(self) -> bool:
        """Whether to look for another server of the database."""
        return self.code == _READ_ONLY


@contextlib.contextmanager
def damage_refused(where: str) -> Iterator[None]:
    """Raise StoreError for values that no server writes to the database `where`."""
    try:
        yield
    except (LookupError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise StoreError(f"{where}: {DAMAGE}: {error!r}", fatal=True) from error
