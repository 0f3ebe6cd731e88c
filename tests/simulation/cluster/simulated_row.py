"""SimulatedRow: the row of the lease as one server of a world reaches it; see `LeaseRow`."""

from collections.abc import Callable
from typing import TypeVar

from purgatory.errors import StoreError
from purgatory.service.store.lease import ClockReading, LeaseLocked, SeenLease, SeenStandby
from purgatory.service.store.postgres.sessions.postgres_errors import SessionLost
from tests.simulation.cluster.database_link import DatabaseLink
from tests.simulation.cluster.database_machine import Session

_T = TypeVar("_T")
#: Seconds that a call may take.
TIMEOUT_S = 2.0


class SimulatedRow:
    """For the holder `holder`, which serves at `address`."""

    def __init__(
        self, link: DatabaseLink, holder: str, address: str, is_alive: Callable[[], bool]
    ) -> None:
        self._link = link
        self._database = link.database
        self._holder = holder
        self._address = address
        self._is_alive = is_alive
        self._session: Session | None = None

    def _call(self, do: Callable[[Session], _T]) -> _T:
        session = self._session
        if session is None or session.is_ended:
            session = self._database.open(self._link.machine.name, self._holder, 0)
            self._session = session
        link = self._link
        try:
            answer: _T = link.call(session, lambda: do(session), TIMEOUT_S, self._is_alive)
        except SessionLost as error:
            self._session = None
            raise StoreError(str(error)) from error
        return answer

    def set_up(self) -> None:
        """See `LeaseRow`, as all of these."""
        self._call(lambda _: None)

    def look(self, register: bool = False) -> SeenLease:
        del register
        return self._call(lambda _: self._database.seen())

    def raise_epoch(self, seen: SeenLease) -> SeenLease | None:
        def do(session: Session) -> SeenLease | None:
            database, row = self._database, self._database.row
            if not seen.is_same(database.seen()):
                return None
            if database.is_locked_for(session):
                raise LeaseLocked("the lease is locked")
            row.epoch, row.beat = row.epoch + 1, row.beat + 1
            row.holder, row.address, row.handover = self._holder, self._address, False
            return database.seen()

        return self._call(do)

    def end_sessions_of(self, seen: SeenLease) -> int:
        holder = seen.holder if seen.holder != self._holder else ""
        return self._call(lambda _: self._database.end_sessions(seen.epoch, holder))

    def _is_mine(self, session: Session) -> bool:
        if self._database.row.holder != self._holder:
            return False
        if self._database.is_locked_for(session):
            raise StoreError("the row is locked")
        return True

    def beat(self, reading: ClockReading) -> SeenLease | None:
        def do(session: Session) -> SeenLease | None:
            database, row = self._database, self._database.row
            if not self._is_mine(session):
                return None
            row.beat += 1
            database.set_clock(reading)
            return database.seen()

        return self._call(do)

    def release(self, reading: ClockReading) -> bool:
        def do(session: Session) -> bool:
            database, row = self._database, self._database.row
            if not self._is_mine(session):
                return False
            row.beat, row.holder, row.address = row.beat + 1, "", ""
            database.set_clock(reading)
            return True

        return self._call(do)

    def request_handover(self, seen: SeenLease) -> bool:
        def do(_: Session) -> bool:
            self._database.row.handover = self._database.row.holder == seen.holder
            return self._database.row.handover

        return self._call(do)

    def standbys(self) -> list[SeenStandby]:
        return []

    def server_keys(self) -> str:
        return ""

    def close(self) -> None:
        self._session = None
