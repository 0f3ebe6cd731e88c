"""Groups: what a store writes together, fenced, and the fate of a group in doubt.

A group is one round trip: BEGIN, its rows, the fence, COMMIT. The fence is last: it counts the
group in the row of the lease if the epoch is still this holder's and no other group was counted
since; otherwise it divides by zero, so COMMIT keeps nothing. So no group is written after another
server has raised the epoch.

**Doubt.** It is unknown whether the group is there if the connection breaks, an answer does not
come, or the database reports anything beside COMMIT (as when a wait for its standby was cancelled:
the group is visible and may yet be lost). Then the holder raises its own epoch, until that is done
without doubt. A group on its way meets the new epoch, and the count of groups shows whether this
group is there. A lost group is sent once more.

One thread at a time.
"""

import logging
from collections.abc import Sequence
from typing import Final

from purgatory.errors import NotReplicated, StoreError, StoreFenced
from purgatory.service.store.lease import ClockReading, HeldLease
from purgatory.service.store.postgres.namespace import Namespace
from purgatory.service.store.postgres.sessions.database import Database, one_row
from purgatory.service.store.postgres.sessions.postgres_errors import (
    LOCK_TIMEOUT,
    REFUSED_BY_GROUP,
    SessionLost,
    StatementRefused,
)
from purgatory.service.store.postgres.sessions.session import (
    DatabaseSession,
    Rows,
    Statement,
    statement,
)
from purgatory.service.store.postgres.sessions.session_ends import end_sessions
from purgatory.service.store.postgres.sessions.wire_values import wire_int
from purgatory.service.store.rows import JournalPosition

log: logging.Logger = logging.getLogger(__name__)

BEGIN: Final = Statement(b"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
COMMIT: Final = Statement(b"COMMIT")
#: Whether a commit waits for a synchronous standby.
IS_REPLICATED: Final = (
    "(current_setting('synchronous_standby_names') <> '' "
    "AND current_setting('synchronous_commit') IN ('on', 'remote_apply'))"
)
_REQUIRE_REPLICATED: Final = statement(f"SELECT 1 / {IS_REPLICATED}::int")
#: Of raising the epoch: a group half sent may hold the row.
SHORT_LOCK: Final = Statement(b"SELECT set_config('lock_timeout', '300ms', true)")
NO_NUMBERS: Final = JournalPosition(0, 0)


def set_clock(first: int) -> str:
    """Return SQL that writes a `ClockReading`; `first`: the number of its first value."""
    at = f"to_timestamp(${first + 1}::int8 / 1000.0)"  # NULL, which least() ignores: unknown
    return f"clock_ms = ${first}::int8, clock_at = least(statement_timestamp(), {at})"


def wire_reading(reading: ClockReading) -> list[bytes | None]:
    """Encode a `ClockReading`."""
    return [None if one is None else wire_int(one) for one in reading]


class _GroupLost(StoreError):
    """A group in doubt is not there, and cannot come."""


class Groups:
    """Writes the groups of the holder of `lease`.

    `require_replicated`: refuse groups that are not. Raises StoreFenced if another server is the
    holder, StoreError if the row cannot be read.
    """

    def __init__(
        self,
        database: Database,
        namespace: Namespace,
        lease: HeldLease,
        *,
        require_replicated: bool = False,
    ) -> None:
        self._database = database
        self._namespace = namespace
        self._lease = lease
        self._require_replicated = require_replicated
        self._row = namespace.table("lease")
        self._fence = self._fence_sql()
        #: Whether the last group was replicated; None: no group.
        self.is_replicated: bool | None = None
        self._commits = self._first_count()

    def _fence_sql(self) -> str:
        numbers = [f"last_{name}" for name in ("operation", "outcome", "event", "extension", "job")]
        sets = ", ".join(
            f"{name} = greatest({name}, ${at}::int8)" for at, name in enumerate(numbers, 5)
        )
        return (
            f"WITH fenced AS (UPDATE {self._row} SET commits = commits + 1, beat = beat + 1, "
            f"{set_clock(3)}, committed_at = clock_timestamp(), {sets} "
            "WHERE epoch = $1::int8 AND commits = $2::int8 RETURNING 1) "
            f"SELECT 1 / count(*), {IS_REPLICATED} FROM fenced"
        )

    def _first_count(self) -> int:
        [rows] = self._database.read(self._look())
        row = one_row(rows)
        if row is None or row[:2] != (self._lease.holder, self._lease.epoch):
            raise self._fenced(row)
        return int(row[2])

    def _look(self) -> Statement:
        return statement(f"SELECT holder, epoch, commits FROM {self._row}")

    def write(
        self, statements: Sequence[Statement], last: JournalPosition = NO_NUMBERS
    ) -> list[Rows]:
        """Write all or nothing. `last`: the last numbers given; 0: none.

        Returns the rows of each statement; nothing if the group was in doubt. Raises StoreError if
        nothing was kept, StoreFenced if nothing ever will be.
        """
        try:
            return self._write_once(statements, last)
        except _GroupLost:  # a second loss may be the group's fault
            return self._write_once(statements, last)

    def _write_once(self, statements: Sequence[Statement], last: JournalPosition) -> list[Rows]:
        before = [BEGIN, *statements]
        if self._require_replicated:
            before.append(_REQUIRE_REPLICATED)
        session = self._database.session()
        sent_ns = self._lease.boot_ns()
        fence = statement(
            self._fence,
            *map(wire_int, (self._lease.epoch, self._commits)),
            *wire_reading(self._lease.read_clock()),
            *map(wire_int, last),
        )
        try:
            results = self._database.run(session, [*before, fence, COMMIT])
        except StatementRefused as error:
            self._refuse(error, len(before))
            return []
        except SessionLost as error:
            self._resolve(str(error))
            return []
        if session.notices or results[-1].command_status != b"COMMIT":
            self._resolve(session.notices[0] if session.notices else "it was rolled back")
            return []
        self._commits += 1
        self.is_replicated = session.rows(results[-2])[0][1]
        self._lease.renewed(sent_ns)
        return [session.rows(one) if one.ntuples else [] for one in results[1 : len(before)]]

    def _refuse(self, error: StatementRefused, fence: int) -> None:
        """Raise the meaning of a refusal; a refused COMMIT is a doubt."""
        if error.index > fence:
            self._resolve(str(error))
            return
        if error.is_read_only:
            self._database.drop()
        is_required = self._require_replicated and error.index == fence - 1
        if is_required and error.code == REFUSED_BY_GROUP:
            self.is_replicated = False
            raise NotReplicated(
                f"{self._database.where}: it has no synchronous standby, or does not wait for it; "
                "expected synchronous_standby_names and synchronous_commit = on"
            ) from error
        # Numbers of another server are refused before the fence.
        row = one_row(self._database.rows(self._look()))
        if row != (self._lease.holder, self._lease.epoch, self._commits):
            raise self._lose(row)
        raise StoreError(f"{self._database.where}: cannot write: {error}") from error

    def _lose_to_other(self) -> StoreFenced:
        try:
            row = one_row(self._database.rows(self._look()))
        except StoreError as error:
            fenced = StoreFenced(f"{self._database.where}: another server has the data: {error}")
            self._lease.lose(str(fenced))
            return fenced
        return self._lose(row)

    def _lose(self, row: "tuple[object, ...] | None") -> StoreFenced:
        fenced = self._fenced(row)
        self._lease.lose(str(fenced))
        return fenced

    def _fenced(self, row: "tuple[object, ...] | None") -> StoreFenced:
        where, lease = self._database.where, self._lease
        if row is None:
            return StoreFenced(f"{where}: the row of the lease is missing")
        holder, epoch, commits = row
        if (holder, epoch) == (lease.holder, lease.epoch):
            return StoreFenced(
                f"{where}: the database has {commits} groups; expected {self._commits}: it was "
                "restored, or has lost some"
            )
        return StoreFenced(
            f"{where}: epoch {epoch} has taken over; this server has epoch {lease.epoch}"
        )

    # Doubt.

    def _resolve(self, why: str) -> None:
        """Find out whether the group is there. Raises _GroupLost."""
        log.warning("%s: it is unknown whether a commit succeeded: %s", self._database.where, why)
        commits = self._raise_epoch()
        if commits == self._commits + 1:
            self._commits = commits
            log.warning("%s: that commit succeeded", self._database.where)
            return
        raise _GroupLost(f"{self._database.where}: a commit failed: {why}")

    def _raise_epoch(self) -> int:
        """Raise the epoch, with retries; return the count of groups."""
        self._database.drop()
        while True:
            try:
                session = self._database.new_session()
                sent_ns = self._lease.boot_ns()
                row = self._try_to_raise(session)
            except (SessionLost, StatementRefused) as error:
                if self._database.interrupt.is_set:
                    raise self._database.stopped() from error
                self._database.pause()
                continue
            if row is None:
                raise self._lose_to_other()
            epoch, commits = row
            self._lease.raised(epoch)
            if commits not in (self._commits, self._commits + 1):
                raise self._lose((self._lease.holder, epoch, commits))
            self._lease.renewed(sent_ns)
            return commits

    def _try_to_raise(self, session: DatabaseSession) -> tuple[int, int] | None:
        """Return epoch and count of groups; None: another server is the holder."""
        sql = (
            f"UPDATE {self._row} SET epoch = epoch + 1, beat = beat + 1 "
            "WHERE holder = $1::text AND epoch >= $2::int8 RETURNING epoch, commits"
        )
        update = statement(sql, self._lease.holder.encode(), wire_int(self._lease.epoch))
        try:
            results = self._database.run(session, [BEGIN, SHORT_LOCK, update, COMMIT])
        except StatementRefused as error:
            if error.code == LOCK_TIMEOUT:
                self._end_own_sessions(session)
            raise
        if session.notices or results[-1].command_status != b"COMMIT":
            raise SessionLost("a notice")  # perhaps not replicated: once more
        return one_row(session.rows(results[2]))

    def _end_own_sessions(self, session: DatabaseSession) -> None:
        lease = self._lease
        ended = end_sessions(
            session, self._namespace, lease.epoch, lease.holder, self._database.answer_s
        )
        log.warning("%s: ended %d sessions of this server", self._database.where, ended)
