"""SharedStore: the store of a simulated server, in the database that all servers of a world share.

Its groups, with fence and doubt, are the product's `Groups`. One thread at a time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, cast

from purgatory.errors import StoreError, StoreFenced
from purgatory.service.store.changes import Changes
from purgatory.service.store.contract import Store
from purgatory.service.store.lease import HeldLease
from purgatory.service.store.postgres.groups import NO_NUMBERS, Groups
from purgatory.service.store.postgres.namespace import namespace_of
from purgatory.service.store.postgres.sessions.database import Database
from purgatory.service.store.postgres.sessions.interrupt import Interrupt
from purgatory.service.store.postgres.sessions.session import DatabaseSession, Rows, Statement
from purgatory.service.store.rows import JournalPosition
from purgatory.testing.world.world import World
from tests.simulation.cluster.database_link import DatabaseLink
from tests.simulation.cluster.database_machine import APPLY, DatabaseMachine, Result, Session

#: Seconds after which a group without an answer is in doubt.
ANSWER_S: Final = 5.0


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

    def is_lost(self) -> bool:
        """See `DatabaseSession`."""
        return self.session.is_ended or self._link.is_cut

    def close(self) -> None:
        """See `DatabaseSession`: the database does not learn of the end at once."""


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


class WorldInterrupt(Interrupt):
    """Set once the store was stopped, or its process is gone; waits let the world go on."""

    def __init__(self, world: World, is_alive: Callable[[], bool]) -> None:
        self._world = world
        self._is_alive = is_alive
        self._is_stopped = False

    @property
    def is_set(self) -> bool:
        """See `Interrupt`, as all of these."""
        return self._is_stopped or not self._is_alive()

    def set(self) -> None:
        self._is_stopped = True

    def wait(self, seconds: float) -> None:
        self._world.run(seconds)

    def close(self) -> None:
        pass


class SimulatedDatabase(Database):
    """The service's reads, over sessions of a world."""

    def __init__(
        self, world: World, link: DatabaseLink, lease: HeldLease, is_alive: Callable[[], bool]
    ) -> None:
        interrupt = WorldInterrupt(world, is_alive)
        super().__init__("host=database", lambda: "", answer_s=ANSWER_S, interrupt=interrupt)
        self._link = link
        self._lease = lease
        self._is_alive = is_alive
        self.is_patient = True

    def new_session(self) -> DatabaseSession:
        """See `Database`."""
        self.drop()
        made: DatabaseMachine = self._link.database
        session = made.open(self._link.machine.name, self._lease.holder, self._lease.epoch)
        self._link.call(session, lambda: None, ANSWER_S, self._is_alive)
        opened = SimulatedSession(self._link, session, self._is_alive)
        self._session = cast("DatabaseSession", opened)
        return self._session


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
        self._groups = Groups(self._database, namespace_of(""), lease)

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

    def skip_outcome_numbers(self, count: int) -> None:
        """See `Store`."""
        self._write(lambda: self._rows.skip_outcome_numbers(count))

    def check_room(self, size: int) -> None:
        """See `Store`."""
        self._write(lambda: self._rows.check_room(size))

    def trouble(self) -> str:
        """See `Store`."""
        return ""

    def stored_bytes(self) -> int:
        """See `Store`."""
        return 0

    def stop(self) -> None:
        """See `Store`."""
        self._database.interrupt.set()

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
    by_numbers = _reading("by_numbers")
    results = _reading("results")
    job_rows = _reading("job_rows")
    attempts = _reading("attempts")
    queued_events = _reading("queued_events")
    last_event_ms = _reading("last_event_ms")
    queued_extensions = _reading("queued_extensions")
    queued_jobs = _reading("queued_jobs")
    deleted_queued = _reading("deleted_queued")
