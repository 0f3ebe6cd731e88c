"""Database: a store's reads, over sessions reopened after a loss.

Interrupted reads are done again. No transaction outlasts a round trip: long tables are read in
pages, by number. One thread at a time; any may set `interrupt`.
"""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from psycopg.pq.abc import PGresult

from purgatory.errors import StoreError
from purgatory.service.store.postgres.sessions.interrupt import Interrupt
from purgatory.service.store.postgres.sessions.postgres_errors import SessionLost, StatementRefused
from purgatory.service.store.postgres.sessions.server_addresses import shown_url
from purgatory.service.store.postgres.sessions.session import (
    DatabaseSession,
    Rows,
    Statement,
    open_session,
)

log: logging.Logger = logging.getLogger(__name__)

ANSWER_S: Final = 15.0
CONNECT_S: Final = 5.0
_PAUSE_S: Final = 0.1  # between attempts to connect
# Rows of a page, at first, at least and at most; the wanted bytes.
_PAGE, _LEAST_PAGE, _MOST_PAGE = 500, 16, 8000
_PAGE_BYTES: Final = 4 << 20


class Database:
    """The database of `url`; `name` returns the next session's name.

    `connect_s`, `answer_s`: seconds of an attempt to connect, and of a group.
    """

    def __init__(
        self,
        url: str,
        name: Callable[[], str],
        *,
        connect_s: float = CONNECT_S,
        answer_s: float = ANSWER_S,
        interrupt: Interrupt | None = None,
    ) -> None:
        self._url = url
        self._connect_s = connect_s
        self.answer_s: float = answer_s
        self._name = name
        self._session: DatabaseSession | None = None
        self.where: str = shown_url(url)
        self.interrupt: Interrupt = interrupt or Interrupt()
        #: Whether to wait for a lost database; not at a start.
        self.is_patient: bool = False
        #: Why the database could not answer; empty after its next answer; for any thread.
        self.waits_for: str = ""

    def session(self) -> DatabaseSession:
        """Return a session that was just open. Raises StoreError: see `is_patient`."""
        session = self._session
        if session is not None:
            if not session.is_lost():
                return session
            self.drop()
        return self._connect()

    def _connect(self) -> DatabaseSession:
        since_s, is_noted = time.monotonic(), False
        while True:
            try:
                self._session = self.new_session()
            except SessionLost as error:
                if not self.is_patient:
                    raise StoreError(f"{self.where}: cannot connect: {error}") from error
                if self.interrupt.is_set:
                    raise self.stopped() from error
                if not is_noted:
                    is_noted = True
                    log.warning("%s: cannot connect, trying on: %s", self.where, error)
                self.pause()
                continue
            if is_noted:
                log.warning("%s: connected after %.1f s", self.where, time.monotonic() - since_s)
            return self._session

    def new_session(self) -> DatabaseSession:
        """Replace the session, in one attempt. Raises SessionLost."""
        self.drop()
        with self._noted_silence():
            self._session = open_session(self._url, self._name(), self.interrupt, self._connect_s)
        return self._session

    def run(self, session: DatabaseSession, statements: Sequence[Statement]) -> list[PGresult]:
        """See `DatabaseSession.run`."""
        with self._noted_silence():
            results = session.run(statements, self.answer_s)
        self.waits_for = ""
        return results

    @contextmanager
    def _noted_silence(self) -> Iterator[None]:
        try:
            yield
        except SessionLost as error:
            self.waits_for = f"{self.where}: {error}"
            raise
        except StatementRefused as error:
            if error.is_passing or error.is_read_only:
                self.waits_for = f"{self.where}: {error}"
            raise

    def stopped(self) -> StoreError:
        """Return the error of an unanswered write after a stop."""
        return StoreError(f"{self.where}: stopped before the database answered", fatal=True)

    def pause(self) -> None:
        """Wait before the next attempt, unless stopped."""
        self.interrupt.wait(_PAUSE_S)

    def drop(self) -> None:
        """Close the session. Idempotent."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def read(self, *statements: Statement) -> list[Rows]:
        """Return the rows of each statement, with retries.

        Raises StoreError: see `is_patient`; or for a lasting refusal.
        """
        is_noted = False
        while True:
            session = self.session()
            try:
                results = self.run(session, statements)
                return [session.rows(result) for result in results]
            except SessionLost as error:
                self.drop()
                self._check_patience(error)
            except StatementRefused as error:
                if error.is_read_only:
                    self.drop()
                    continue
                if not error.is_passing:
                    raise StoreError(f"{self.where}: cannot read: {error}") from error
                self._check_patience(error)
                if not is_noted:
                    is_noted = True
                    log.warning("%s: cannot read, trying on: %s", self.where, error)
                self.pause()

    def _check_patience(self, error: StoreError) -> None:
        if not self.is_patient:
            raise StoreError(f"{self.where}: cannot read: {error}") from error
        if self.interrupt.is_set:
            raise self.stopped() from error

    def rows(self, statement: Statement) -> Rows:
        """Return the rows of a statement. Raises StoreError."""
        return self.read(statement)[0]

    def pages(
        self, after: int, page: Callable[[int, int], Statement], *, key: int = 0
    ) -> Iterator[Rows]:
        """Yield pages of a table; `page` reads at most so many rows after a number.

        `key`: the number's column.
        """
        limit = _PAGE
        while found := self.rows(page(after, limit)):
            yield found
            if len(found) < limit:
                return
            after = found[-1][key]
            limit = _next_limit(limit, found)

    def close(self) -> None:
        """Close the session and the interrupt. Idempotent."""
        self.drop()
        self.interrupt.close()


def _next_limit(limit: int, rows: Rows) -> int:
    """Return how many rows the next page has, by the bytes of some rows."""
    some = rows[:: max(1, len(rows) // 16)]
    size = sum(len(value) for row in some for value in row if isinstance(value, bytes))
    fitting = _PAGE_BYTES * len(some) // max(1, size)
    return max(_LEAST_PAGE, min(_MOST_PAGE, 2 * limit, fitting))


def one_row(rows: Rows) -> tuple[Any, ...] | None:
    """Return the only row, if any."""
    return rows[0] if rows else None
