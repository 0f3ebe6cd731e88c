"""DatabaseSession: a connection to PostgreSQL that runs groups of statements, a round trip each.

All statements of a group are sent at once, in a pipeline, and each wait has an end: also for a
stopped database whose kernel still confirms. Groups share no state, so a pooler may give each
another connection. One thread at a time.
"""

import select
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from psycopg import Error, pq
from psycopg.adapt import Transformer

from purgatory.service.store.postgres.sessions.interrupt import Interrupt
from purgatory.service.store.postgres.sessions.postgres_errors import SessionLost, StatementRefused
from purgatory.service.store.postgres.sessions.server_addresses import addresses_of

OLDEST_SERVER: Final = 140_000
_BINARY: Final = 1
_READ: Final = select.POLLIN
_WRITE: Final = select.POLLOUT
_NO_OPTIONS: Final = "unsupported startup parameter"  # a pooler's error
_CODE: Final = pq.DiagnosticField.SQLSTATE
_TEXT: Final = pq.DiagnosticField.MESSAGE_PRIMARY


class Statement(NamedTuple):
    """A statement with its values in the binary protocol."""

    sql: bytes
    values: tuple[bytes | None, ...] = ()


def statement(sql: str, *values: bytes | None) -> Statement:
    """Make a statement of a text."""
    return Statement(sql.encode(), values)


Rows = list[tuple[Any, ...]]


class DatabaseSession:
    """An open connection. `notices`: of the last group."""

    def __init__(self, connection: pq.abc.PGconn, interrupt: Interrupt) -> None:
        self._connection = connection
        self._interrupt = interrupt
        self.notices: list[str] = []
        connection.notice_handler = self._note
        connection.nonblocking = 1
        connection.enter_pipeline_mode()
        self._poll = select.poll()
        self._poll.register(connection.socket, _READ)
        if not interrupt.is_set:
            self._poll.register(interrupt.fileno(), _READ)
        self._waits_for_write = False
        self._transformer = Transformer()

    @property
    def server_version(self) -> int:
        """The database's version, as 150018 is 15.18."""
        return self._connection.server_version

    def _note(self, result: pq.abc.PGresult) -> None:
        self.notices.append(_message(result, _TEXT))

    def is_lost(self) -> bool:
        """Whether the other end has closed the session; sends nothing."""
        try:
            if self._connection.status != pq.ConnStatus.OK:
                return True
            while self._is_readable():
                self._connection.consume_input()  # its last words, and then its end
        except (Error, OSError):
            return True
        return False

    def _is_readable(self) -> bool:
        return any(descriptor == self._connection.socket for descriptor, _ in self._poll.poll(0))

    def run(self, statements: Sequence[Statement], timeout_s: float) -> list[pq.abc.PGresult]:
        """Run statements in one round trip; return their results.

        Without BEGIN, they are one transaction. Raises StatementRefused: nothing was kept, and an
        open transaction is rolled back. Raises SessionLost without an answer: the session is then
        useless.
        """
        deadline_s = time.monotonic() + timeout_s
        self.notices = []
        try:
            results = self._run(statements, deadline_s)
        except (Error, OSError) as error:
            raise SessionLost(_line(error)) from error
        for index, result in enumerate(results):
            if result.status == pq.ExecStatus.FATAL_ERROR:
                self._roll_back(deadline_s)
                raise StatementRefused(_message(result, _TEXT), _message(result, _CODE), index)
        return results

    def _run(self, statements: Sequence[Statement], deadline_s: float) -> list[pq.abc.PGresult]:
        connection = self._connection
        for sql, values in statements:
            connection.send_query_params(
                sql, values, param_formats=[_BINARY] * len(values), result_format=_BINARY
            )
        connection.pipeline_sync()
        self._flush(deadline_s)
        results: list[pq.abc.PGresult] = []
        while True:
            while connection.is_busy():
                self._wait(_READ, deadline_s)
                connection.consume_input()
            result = connection.get_result()
            if result is None:
                if connection.status != pq.ConnStatus.OK:
                    raise SessionLost("the session has ended")
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            results.append(result)
            if connection.status != pq.ConnStatus.OK:
                raise SessionLost(_message(result, _TEXT) or "the session has ended")

    def _flush(self, deadline_s: float) -> None:
        while self._connection.flush():
            # The database may read no more before its answers are read.
            if self._wait(_READ | _WRITE, deadline_s) & ~_WRITE:
                self._connection.consume_input()

    def _wait(self, events: int, deadline_s: float) -> int:
        socket = self._connection.socket
        if bool(events & _WRITE) != self._waits_for_write:
            self._waits_for_write = not self._waits_for_write
            self._poll.modify(socket, events)
        while True:
            left_s = self._interrupt.deadline(deadline_s) - time.monotonic()
            if left_s <= 0:
                raise SessionLost("no answer in time")
            for descriptor, found in self._poll.poll(left_s * 1000 + 1):
                if descriptor == socket:
                    return found
                self._poll.unregister(self._interrupt.fileno())  # the deadline has changed

    def _roll_back(self, deadline_s: float) -> None:
        if self._connection.transaction_status == pq.TransactionStatus.IDLE:
            return
        try:
            self._run([Statement(b"ROLLBACK")], deadline_s)
        except (SessionLost, Error, OSError):
            self.close()  # ends the transaction as well

    def rows(self, result: pq.abc.PGresult) -> Rows:
        """Return a result's rows: whole numbers, bytes, texts, lists."""
        self._transformer.set_pgresult(result, format=pq.Format.BINARY)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._connection.finish()


def open_session(url: str, name: str, interrupt: Interrupt, timeout_s: float) -> DatabaseSession:
    """Connect to the first host that can write. Raises SessionLost."""
    try:
        return _open_first(addresses_of(url, name), interrupt, timeout_s)
    except SessionLost as error:
        if _NO_OPTIONS not in str(error):
            raise
    return _open_first(addresses_of(url, name, options=False), interrupt, timeout_s)


def _open_first(addresses: list[bytes], interrupt: Interrupt, timeout_s: float) -> DatabaseSession:
    deadline_s = time.monotonic() + timeout_s
    reasons: list[str] = []
    for at, address in enumerate(addresses):
        now_s = time.monotonic()
        try:
            share_s = (deadline_s - now_s) / (len(addresses) - at)
            return DatabaseSession(_connect(address, interrupt, now_s + share_s), interrupt)
        except (SessionLost, Error, OSError) as error:
            reasons.append(_line(error))
    raise SessionLost("; ".join(dict.fromkeys(reasons)))


def _connect(address: bytes, interrupt: Interrupt, deadline_s: float) -> pq.abc.PGconn:
    connection = pq.PGconn.connect_start(address)
    try:
        while (state := connection.connect_poll()) != pq.PollingStatus.OK:
            left_s = interrupt.deadline(deadline_s) - time.monotonic()
            _check_progress(connection, state, left_s)
            poll = select.poll()  # libpq may change the socket
            reads = state == pq.PollingStatus.READING
            poll.register(connection.socket, _READ if reads else _WRITE)
            if not interrupt.is_set:
                poll.register(interrupt.fileno(), _READ)
            poll.poll(left_s * 1000 + 1)
    except BaseException:
        connection.finish()
        raise
    return connection


def _check_progress(connection: pq.abc.PGconn, state: int, left_s: float) -> None:
    if state == pq.PollingStatus.FAILED:
        raise SessionLost(connection.get_error_message())
    if left_s <= 0:
        raise SessionLost("no answer in time")


def _message(result: pq.abc.PGresult, field: pq.DiagnosticField) -> str:
    return (result.error_field(field) or b"").decode("utf-8", "replace")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
