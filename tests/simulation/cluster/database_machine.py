"""DatabaseMachine: what all servers of a world share: the rows, the lease, and the sessions.

The rows are those of a real store over SQLite in memory. Of PostgreSQL it has what decides who may
write: groups that are done or not, the fence's condition, row locks and ended sessions.
"""

import operator
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from purgatory.errors import StoreError
from purgatory.service.store.lease import ClockReading, SeenLease
from purgatory.service.store.postgres.sessions.postgres_errors import (
    LOCK_TIMEOUT,
    REFUSED_BY_GROUP,
    SessionLost,
    StatementRefused,
)
from purgatory.service.store.postgres.sessions.session import Statement
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from purgatory.testing.world.machine import EPOCH_NS
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S, World

#: The statement that stands for the rows of a group; its value is a call.
APPLY: Final = b"-- apply"
_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
}
_CONDITION: Final = re.compile(r"(\w+) (=|>=|<=) \$(\d)::(int8|text)")


@dataclass(slots=True)
class Session:
    """A session with the database; `epoch` 0: it writes no groups."""

    host: str
    holder: str
    epoch: int
    is_ended: bool = False
    notices: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Result:
    """Of a statement."""

    rows: list[tuple[Any, ...]]
    command_status: bytes = b""

    @property
    def ntuples(self) -> int:
        """The number of rows."""
        return len(self.rows)


@dataclass(slots=True)
class LeaseRecord:
    """The row of the lease; `clock_at_ns`: by the database's clock."""

    clock_ms: int
    clock_at_ns: int
    epoch: int = 0
    beat: int = 0
    commits: int = 0
    holder: str = ""
    address: str = ""
    handover: bool = False


class DatabaseMachine:
    """The database of a world; `report` is told of a broken promise."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.report: Callable[[str], None] = lambda _: None
        #: Whether a pooler stands before it: what a server sends late arrives in a session that no
        #: takeover has ended, and only the fence keeps it out.
        self.is_pooled: bool = world.chance(0.3)
        self.store: SqliteStore = SqliteStore(None)
        #: By how much its clock is wrong, all the time.
        self.clock_error_ns: int = world.random.randint(-300, 300) * NS_PER_S
        self.row: LeaseRecord = LeaseRecord(self.now_ns() // NS_PER_MS, self.now_ns())
        self.is_away: bool = False
        #: So many of the next groups and reads an operator cancels.
        self.cancels: int = 0
        self.sessions: list[Session] = []
        #: The session that has the row of the lease locked: its group is sent in part.
        self.locked_by: Session | None = None

    def now_ns(self) -> int:
        """Return Unix time, by its clock."""
        return EPOCH_NS + self.world.now_ns + self.clock_error_ns

    def open(self, host: str, holder: str, epoch: int) -> Session:
        """Open a session."""
        session = Session(host, holder, epoch)
        self.sessions = [each for each in self.sessions if not each.is_ended]
        self.sessions.append(session)
        return session

    def end(self, session: Session) -> None:
        """End a session; a lock that it has is free."""
        session.is_ended = True
        if self.locked_by is session:
            self.locked_by = None

    def end_sessions(self, epoch: int, holder: str = "") -> int:
        """End the sessions that write groups of epochs up to this one, and those of a holder."""
        ended = [
            each
            for each in self.sessions
            if not each.is_ended
            and (1 <= each.epoch <= epoch or (holder and each.holder == holder))
            and (not self.is_pooled or each is self.locked_by)
        ]
        for each in ended:
            self.end(each)
        return len(ended)

    def lock(self, session: Session) -> None:
        """Let a session have the row of the lease locked, unless it has ended or another has."""
        if not session.is_ended and self.locked_by is None:
            self.locked_by = session

    def is_locked_for(self, session: Session) -> bool:
        """Tell whether another session has the row of the lease locked.

        As in PostgreSQL, only what would change the row waits: a condition is decided before.
        """
        return self.locked_by is not None and self.locked_by is not session

    def seen(self) -> SeenLease:
        """Return the row, as a look shows it."""
        row, now_ns = self.row, self.now_ns()
        clock_ms = row.clock_ms + max(0, now_ns - row.clock_at_ns) // NS_PER_MS
        return SeenLease(
            row.epoch,
            row.beat,
            row.commits,
            row.holder,
            row.address,
            clock_ms,
            handover=row.handover,
            replicated=True,
            drift_ms=clock_ms - now_ns // NS_PER_MS,
        )

    def set_clock(self, reading: ClockReading) -> None:
        """Write the service time of the moment at which it was read."""
        assert reading.database_ms is not None
        self.row.clock_ms = reading.clock_ms
        self.row.clock_at_ns = min(self.now_ns(), reading.database_ms * NS_PER_MS)

    def run(self, session: Session, statements: list[Statement]) -> list[Result]:
        """Do a group, all or nothing. Raises StatementRefused, SessionLost."""
        if session.is_ended:
            raise SessionLost("the session has ended")
        if self.cancels:
            self.cancels -= 1
            raise StatementRefused("canceling statement due to user request", "57014", 0)
        results: list[Result] = []
        changes: list[Callable[[], object]] = []
        applied: list[tuple[int, Callable[[], object]]] = []
        for index, (sql, values) in enumerate(statements):
            if sql == APPLY:
                applied.append((index, values[0]))  # type: ignore[arg-type]
                results.append(Result([(1, True)]))
            else:
                results.append(self._do(session, index, sql.decode(), values, changes))
        if applied and self.row.holder not in ("", session.holder):
            self.report(f"a group of {session.host} was kept after {self.row.address} took over")
        for index, apply in applied:
            try:
                apply()
            except StoreError as error:
                raise StatementRefused(str(error), "23505", index) from error
        for change in changes:
            change()
        if self.locked_by is session:
            self.locked_by = None
        return results

    def _do(
        self,
        session: Session,
        index: int,
        sql: str,
        values: tuple[bytes | None, ...],
        changes: list[Callable[[], object]],
    ) -> Result:
        row = self.row
        if sql.startswith("WITH fenced"):
            if not self._holds(sql, values):
                raise StatementRefused("division by zero", REFUSED_BY_GROUP, index)
            reading = ClockReading(_int(values[2]), _int(values[3]))
            changes.append(lambda: self._note_group(reading))
            return Result([(1, True)])
        if sql.startswith("UPDATE"):
            if not self._holds(sql, values):
                return Result([])
            if self.is_locked_for(session):
                raise StatementRefused("lock timeout", LOCK_TIMEOUT, index)
            row.epoch, row.beat = row.epoch + 1, row.beat + 1
            return Result([(row.epoch, row.commits)])
        if sql.startswith("SELECT holder"):
            return Result([(row.holder, row.epoch, row.commits)])
        if "pg_terminate_backend" in sql:
            return Result([(self.end_sessions(_int(values[2])),)])
        return Result([], sql.partition(" ")[0].encode())

    def _note_group(self, reading: ClockReading) -> None:
        row = self.row
        row.commits, row.beat = row.commits + 1, row.beat + 1
        self.set_clock(reading)

    def _holds(self, sql: str, values: tuple[bytes | None, ...]) -> bool:
        """Decide the condition of a statement on the row of the lease."""
        where = sql.partition(" WHERE ")[2].partition(" RETURNING")[0]
        for name, sign, number, kind in _CONDITION.findall(where):
            value = values[int(number) - 1]
            assert value is not None
            expected = _int(value) if kind == "int8" else value.decode()
            if not _OPERATORS[sign](getattr(self.row, name), expected):
                return False
        return True


def _int(value: bytes | None) -> int:
    assert value is not None
    (number,) = struct.unpack("!q", value)
    return int(number)
