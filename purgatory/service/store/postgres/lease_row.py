"""PostgresLeaseRow: the row of the lease, for a server that may become its holder.

By its own session no beat waits behind a large group. Each call is one round trip, connecting
included, and ends within `timeout_s`. One thread at a time.
"""

from collections.abc import Callable
from typing import Final, TypeVar

from purgatory.errors import StoreError
from purgatory.service.store.contract import SERVER_KEYS
from purgatory.service.store.lease import (
    ClockReading,
    LeaseLocked,
    LeaseRow,
    SeenLease,
    SeenStandby,
)
from purgatory.service.store.postgres.groups import (
    BEGIN,
    COMMIT,
    IS_REPLICATED,
    SHORT_LOCK,
    set_clock,
    wire_reading,
)
from purgatory.service.store.postgres.metadata_rows import MetadataRows, value_of
from purgatory.service.store.postgres.namespace import namespace_of
from purgatory.service.store.postgres.schema import set_up_schema
from purgatory.service.store.postgres.sessions.database import Database, one_row
from purgatory.service.store.postgres.sessions.postgres_errors import (
    LOCK_TIMEOUT,
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

_T = TypeVar("_T")

#: Seconds until a standby without looks is forgotten.
FORGOTTEN_S: Final = 60
# A note on a standby may be lost: it waits for no standby of the database.
_NOT_SYNCED: Final = Statement(b"SELECT set_config('synchronous_commit', 'off', true)")
# The service's clock follows the database's.
_CLOCK: Final = (
    "clock_ms + greatest(0, floor(extract(epoch FROM statement_timestamp() - clock_at) * 1000))"
    "::int8"
)
_FIELDS: Final = (  # as `SeenLease` has them
    f"epoch, beat, commits, holder, address, {_CLOCK}, "
    "coalesce(extract(epoch FROM clock_timestamp() - committed_at), -1)::float8, "
    f"handover, {IS_REPLICATED}, "
    f"{_CLOCK} - floor(extract(epoch FROM statement_timestamp()) * 1000)::int8"
)


class PostgresLeaseRow(LeaseRow):
    """The row of a namespace; `holder` and `address` are this server's."""

    def __init__(
        self, url: str, partition: str, holder: str, address: str, *, timeout_s: float = 2.0
    ) -> None:
        namespace = self._namespace = namespace_of(partition)
        self._holder = holder
        self._address = address
        self._timeout_s = timeout_s
        self._database = Database(
            url, lambda: namespace.session_name(0, holder), connect_s=timeout_s / 2
        )
        self._row = namespace.table("lease")
        self._members = namespace.table("members")

    def set_up(self) -> None:
        session = self._database.session()
        try:
            set_up_schema(session, self._namespace, self._timeout_s)
        except StoreError as error:
            self._database.drop()
            raise StoreError(f"{self._database.where}: {error}") from error

    def look(self, register: bool = False) -> SeenLease:
        read = statement(f"SELECT {_FIELDS} FROM {self._row}")
        if not register:
            [rows] = self._run(read)
            return self._seen(rows)
        note = statement(
            f"INSERT INTO {self._members} VALUES ($1::text, $2::text, clock_timestamp()) "
            "ON CONFLICT (holder) DO UPDATE SET address = EXCLUDED.address, seen = EXCLUDED.seen",
            self._holder.encode(),
            self._address.encode(),
        )
        forget = statement(
            f"DELETE FROM {self._members} "
            f"WHERE seen < clock_timestamp() - interval '{FORGOTTEN_S} s'"
        )
        return self._seen(self._run(read, _NOT_SYNCED, note, forget)[0])

    def raise_epoch(self, seen: SeenLease) -> SeenLease | None:
        sql = (
            f"UPDATE {self._row} SET epoch = epoch + 1, beat = beat + 1, holder = $4::text, "
            "address = $5::text, handover = false "
            "WHERE epoch = $1::int8 AND beat = $2::int8 AND commits = $3::int8 "
            f"RETURNING {_FIELDS}"
        )
        update = statement(
            sql,
            *map(wire_int, (seen.epoch, seen.beat, seen.commits)),
            self._holder.encode(),
            self._address.encode(),
        )
        leave = statement(
            f"DELETE FROM {self._members} WHERE holder = $1::text", self._holder.encode()
        )
        try:
            results = self._run(BEGIN, SHORT_LOCK, update, leave, COMMIT, is_write=True)
        except StatementRefused as error:
            if error.code == LOCK_TIMEOUT:
                raise LeaseLocked(f"{self._database.where}: the lease is locked") from error
            raise
        return self._maybe_seen(results[2])

    def end_sessions_of(self, seen: SeenLease) -> int:
        return self._with_session(
            lambda session: end_sessions(
                session,
                self._namespace,
                seen.epoch,
                seen.holder,
                self._timeout_s,
                all_of_holder=bool(seen.holder) and seen.holder != self._holder,
            )
        )

    def beat(self, reading: ClockReading) -> SeenLease | None:
        return self._maybe_seen(self._write_own("", reading))

    def release(self, reading: ClockReading) -> bool:
        return bool(self._write_own(", holder = '', address = '', handover = false", reading))

    def _write_own(self, sets: str, reading: ClockReading) -> Rows:
        sql = (
            f"UPDATE {self._row} SET beat = beat + 1, {set_clock(2)}{sets} "
            f"WHERE holder = $1::text RETURNING {_FIELDS}"
        )
        update = statement(sql, self._holder.encode(), *wire_reading(reading))
        return self._run(update, is_write=True)[0]

    def request_handover(self, seen: SeenLease) -> bool:
        sql = (
            f"UPDATE {self._row} SET handover = true "
            "WHERE holder = $1::text AND holder <> '' RETURNING true"
        )
        return bool(self._run(statement(sql, seen.holder.encode()), is_write=True)[0])

    def standbys(self) -> list[SeenStandby]:
        sql = (
            "SELECT holder, address, extract(epoch FROM clock_timestamp() - seen)::float8 "
            f"FROM {self._members} ORDER BY seen DESC"
        )
        return [SeenStandby(*row) for row in self._run(statement(sql))[0]]

    def server_keys(self) -> str:
        [rows] = self._run(MetadataRows(self._namespace).read_one(SERVER_KEYS))
        return str(value_of(rows) or "")

    def close(self) -> None:
        self._database.close()

    def _run(self, *statements: Statement, is_write: bool = False) -> list[Rows]:
        """Run statements. A notice beside a write is an error.

        A wait for the database's standby may be cancelled: the write may be lost.
        """

        def run(session: DatabaseSession) -> list[Rows]:
            results = session.run(statements, self._timeout_s / 2)
            if is_write and session.notices:
                raise SessionLost(session.notices[0])
            return [session.rows(one) if one.ntuples else [] for one in results]

        return self._with_session(run)

    def _with_session(self, call: Callable[[DatabaseSession], _T]) -> _T:
        session = self._database.session()
        try:
            return call(session)
        except StatementRefused as error:
            if error.is_read_only:
                self._database.drop()
            if error.is_for_missing:
                raise StoreError(
                    f"{self._database.where} has no tables in the schema "
                    f"{self._namespace.schema}; expected those that `purgatory serve --store` makes"
                ) from error
            raise
        except SessionLost as error:
            self._database.drop()
            raise StoreError(f"{self._database.where}: {error}") from error

    def _maybe_seen(self, rows: Rows) -> SeenLease | None:
        return self._seen(rows) if rows else None

    def _seen(self, rows: Rows) -> SeenLease:
        row = one_row(rows)
        if row is None:
            raise StoreError(f"{self._database.where}: the row of the lease is missing")
        return SeenLease(*row)
