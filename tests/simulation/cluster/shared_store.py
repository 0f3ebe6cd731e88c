"""SharedStore: the store of a simulated server, in the database that all servers of a world share.

Its groups, with fence and doubt, are the product's `Groups`. One thread at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from purgatory.errors import StoreError, StoreFenced
from purgatory.service.store.changes import Changes
from purgatory.service.store.contract import Store
from purgatory.service.store.lease import HeldLease
from purgatory.service.store.postgres.groups import NO_NUMBERS, Groups
from purgatory.service.store.postgres.namespace import namespace_of
from purgatory.service.store.postgres.sessions.postgres_errors import SessionLost
from purgatory.service.store.postgres.sessions.session import Rows, Statement
from purgatory.service.store.rows import JournalPosition
from purgatory.testing.world.world import World
from tests.simulation.cluster.database_link import DatabaseLink
from tests.simulation.cluster.database_machine import APPLY, DatabaseMachine, Result, Session

if TYPE_CHECKING:
    from purgatory.service.store.postgres.sessions.database import Database

#: Seconds after which a group without an answer is in doubt, and between attempts to connect.
ANSWER_S: Final = 5.0
PAUSE_S: Final = 0.1


class SimulatedSession:
    """A session as `Groups` uses it; `link` carries its groups."""

    def __init__(self, link: DatabaseLink, session: Session, is_alive: Callable[[], bool]) -> None:
        self._link = link
        self.session = session
        self._is_alive = is_alive
        self.notices: list[str] = []

    def run(self, statements: Sequence[Statement], timeout_s: float) -> list[Result]:
        """See `DatabaseSession`."""
        self.notices = []
        group = list(statements)
        run = self._link.database.run
        is_group = any(sql.startswith(b"WITH fenced") or sql == APPLY for sql, _ in group)
        answer = self._link.call(
            self.session,
            lambda: run(self.session, group),
            timeout_s,
            self._is_alive,
            is_group=is_group,
        )
        return cast("list[Result]", answer)

    def rows(self, result: Result) -> Rows:
        """See `DatabaseSession`."""
        return result.rows


class Group:
    """The rows of a group; `report` is told if the database keeps them after it refused them."""

    def __init__(self, apply: Callable[[], object], report: Callable[[str], None]) -> None:
        self._apply = apply
        self._report = report
        self.is_refused = False

    def __call__(self) -> None:
        """Write the rows."""
        if self.is_refused:
            self._report("a group was kept of which the server was told that it was not")
        self._apply()


class Interrupt:
    """Whether the store was stopped, as `Database.interrupt` tells."""

    is_set = False


class SimulatedDatabase:
    """What `Groups` needs of a `Database`."""

    where = "database"
    answer_s = ANSWER_S

    def __init__(
        self, world: World, link: DatabaseLink, lease: HeldLease, is_alive: Callable[[], bool]
    ) -> None:
        self._world = world
        self._link = link
        self._lease = lease
        self._is_alive = is_alive
        self._session: SimulatedSession | None = None
        self.interrupt = Interrupt()

    def session(self) -> SimulatedSession:
        """See `Database`; waits for a database that is away."""
        while True:
            session = self._session
            if session is not None and not session.session.is_ended and not self._link.is_cut:
                return session
            try:
                return self.new_session()
            except SessionLost as error:
                self.check_stopped(error)
                self.pause()

    def new_session(self) -> SimulatedSession:
        """See `Database`."""
        self._session = None
        made: DatabaseMachine = self._link.database
        session = made.open(self._link.machine.name, self._lease.holder, self._lease.epoch)
        self._link.call(session, lambda: None, ANSWER_S, self._is_alive)
        self._session = SimulatedSession(self._link, session, self._is_alive)
        return self._session

    def check_stopped(self, error: Exception) -> None:
        """Raise if the store was stopped."""
        if self.interrupt.is_set or not self._is_alive():
            raise self.stopped() from error

    def stopped(self) -> StoreError:
        """See `Database`."""
        return StoreError("stopped before the database answered", fatal=True)

    def pause(self) -> None:
        """See `Database`."""
        self._world.run(PAUSE_S)

    def drop(self) -> None:
        """See `Database`."""
        self._session = None

    def rows(self, statement: Statement) -> Rows:
        """See `Database`."""
        return self.read(statement)[0]

    def read(self, *statements: Statement) -> list[Rows]:
        """See `Database`."""
        while True:
            session = self.session()
            try:
                results = session.run(statements, ANSWER_S)
                return [session.rows(result) for result in results]
            except SessionLost as error:
                self.drop()
                self.check_stopped(error)


def _reading(name: str) -> Callable[..., Any]:
    def read(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._database.read()
        found = getattr(self._rows, name)(*args, **kwargs)
        return iter(list(found)) if isinstance(found, Iterator) else found

    return read


class SharedStore(Store):
    """The store of the holder of `lease`; reads see the shared rows, after a round trip."""

    def __init__(
        self, world: World, link: DatabaseLink, lease: HeldLease, is_alive: Callable[[], bool]
    ) -> None:
        self._rows = link.database.store
        self._report: Callable[[str], None] = lambda text: link.database.report(text)
        self._database = SimulatedDatabase(world, link, lease, is_alive)
        self.lost: StoreError | None = None
        self.is_closing = False
        self.clock_offset_ns: int | None = lease.clock_offset_ns
        self.remembered = self._rows.remembered
        self._groups = Groups(cast("Database", self._database), namespace_of(""), lease)

    def _write(self, apply: Callable[[], object], last: JournalPosition = NO_NUMBERS) -> None:
        if self.lost is not None:
            raise self.lost
        group = Group(apply, self._report)
        try:
            self._groups.write([Statement(APPLY, cast("Any", (group,)))], last)
        except StoreError as error:
            group.is_refused = not error.fatal and not isinstance(error, StoreFenced)
            raise

    def commit(self, changes: Changes) -> None:
        """See `Store`."""
        has_numbers = bool(changes.operations or changes.outcomes)
        last = JournalPosition(1, 1) if has_numbers else NO_NUMBERS
        self._write(lambda: self._rows.commit(changes), last)

    def set_metadata(self, metadata: dict[str, Any]) -> None:
        """See `Store`."""
        self._write(lambda: self._rows.set_metadata(metadata))

    def check_room(self, size: int) -> None:
        """See `Store`."""
        self._write(lambda: self._rows.check_room(size))

    def shift_times(self, by_ms: int, metadata: dict[str, Any]) -> None:
        """See `Store`."""
        self._write(lambda: self._rows.shift_times(by_ms, metadata))

    def trouble(self) -> str:
        """See `Store`."""
        return ""

    def stored_bytes(self) -> int:
        """See `Store`."""
        return 0

    def stop(self) -> None:
        """See `Store`."""
        self._database.interrupt.is_set = True

    def close(self) -> None:
        """See `Store`: the rows are others' as well."""
        self.is_closing = True

    # Reads.

    metadata = _reading("metadata")
    outcomes = _reading("outcomes")
    last_numbers = _reading("last_numbers")
    oldest_submission_ms = _reading("oldest_submission_ms")
    submissions = _reading("submissions")
    operations = _reading("operations")
    outcomes_without_results = _reading("outcomes_without_results")
    progress = _reading("progress")
    sizes = _reading("sizes")
    held_events = _reading("held_events")
    spreads = _reading("spreads")
    jobs = _reading("jobs")
    repeats = _reading("repeats")
    limits = _reading("limits")
    named_leases = _reading("named_leases")
    replies = _reading("replies")
    outcomes_by_seqs = _reading("outcomes_by_seqs")
    some_operations = _reading("some_operations")
    some_operations_before = _reading("some_operations_before")
    by_numbers = _reading("by_numbers")
    dead_jobs = _reading("dead_jobs")
    results = _reading("results")
    job_rows = _reading("job_rows")
    attempts = _reading("attempts")
    queued_events = _reading("queued_events")
    last_event_ms = _reading("last_event_ms")
    queued_extensions = _reading("queued_extensions")
    queued_jobs = _reading("queued_jobs")
    deleted_queued = _reading("deleted_queued")
