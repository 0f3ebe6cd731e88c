"""The database of the worlds: the fence's condition, locks and ended sessions are PostgreSQL's."""

import pytest

pytest.importorskip("psycopg")

from purgatory.errors import StoreError, StoreFenced
from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.store.changes import Changes
from purgatory.service.store.lease import LeaseLocked
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.world import World
from tests.simulation.cluster.database_link import DatabaseLink
from tests.simulation.cluster.database_machine import DatabaseMachine
from tests.simulation.cluster.shared_store import Group, SharedStore
from tests.simulation.cluster.simulated_row import SimulatedRow


class Host:
    """A server that has the lease from the beginning on."""

    def __init__(self, world, database, name):
        self.machine = Machine(world, name)
        self.link = DatabaseLink(self.machine, database)
        self.row = SimulatedRow(self.link, f"holder of {name}", name, lambda: True)
        self.world = world
        self.take_over()

    def take_over(self):
        """Become the holder, and open the store."""
        taken = self.row.raise_epoch(self.row.look())
        self.lease = StoreLease(
            taken,
            2.0,
            sent_ns=self.machine.boot_ns(),
            boot_ns=self.machine.boot_ns,
        )
        self.store = SharedStore(self.world, self.link, self.lease, lambda: True)


@pytest.fixture
def database():
    machine = DatabaseMachine(World(1))
    machine.is_pooled = False
    yield machine
    machine.store.close()


@pytest.fixture
def host(database):
    return Host(database.world, database, "a")


def test_a_group_is_kept_and_counted(host, database):
    """And renews the lease."""
    host.world.run(1.0)
    host.store.set_metadata({"key": 1})
    assert host.store.metadata()["key"] == 1
    assert database.row.commits == 1
    host.world.run(1.5)
    assert host.lease.is_valid()


def test_a_group_of_an_older_epoch_is_fenced(host, database):
    """Nothing of it is kept, and the lease is lost."""
    other = Host(database.world, database, "b")
    with pytest.raises(StoreFenced):
        host.store.set_metadata({"key": 1})
    assert host.lease.lost
    assert "key" not in other.store.metadata()


def test_a_late_group_that_is_kept_is_reported(host, database, monkeypatch):
    """A database without the fence keeps a group of a server that lost the lease."""
    reports = []
    database.report = reports.append
    Host(database.world, database, "b")
    monkeypatch.setattr(database, "_holds", lambda *_: True)
    host.store.set_metadata({"key": 1})
    assert reports == ["a group of a was kept after b took over"]


def test_a_group_that_is_kept_after_its_refusal_is_reported():
    """The server was told that nothing was kept."""
    reports = []
    group = Group(lambda: None, reports.append)
    group()
    assert reports == []
    group.is_refused = True
    group()
    assert reports == ["a group was kept of which the server was told that it was not"]


def test_no_takeover_ends_the_sessions_behind_a_pooler(host, database):
    """But for one that has the lease locked."""
    database.is_pooled = True
    other = DatabaseLink(Machine(database.world, "b"), database)
    row = SimulatedRow(other, "other", "b", lambda: True)
    host.store.set_metadata({"key": 1})
    assert row.end_sessions_of(row.look()) == 0
    database.locked_by = database.sessions[-2]
    assert database.locked_by.host == "a"
    assert row.end_sessions_of(row.look()) == 1


def test_a_lost_answer_is_a_doubt_that_the_own_epoch_resolves(host, database):
    """The group is there, and is kept once."""
    epoch = database.row.epoch
    host.link.lose_answer = True
    host.store.set_metadata({"key": 1})
    assert database.row.epoch == epoch + 1 == host.lease.epoch
    assert database.row.commits == 1
    host.store.set_metadata({"key": 2})


def test_a_group_that_never_arrived_is_sent_again(host, database):
    """A doubt of which nothing is there: the database was away."""
    database.is_away = True

    def come_back():
        database.is_away = False

    host.world.after(6_000_000_000, come_back)
    host.store.set_metadata({"key": 1})
    assert host.store.metadata()["key"] == 1
    assert database.row.commits == 1


def test_a_half_sent_group_holds_the_lease_until_its_session_is_ended(host, database):
    """The new holder ends it."""
    other = DatabaseLink(Machine(database.world, "b"), database)
    row = SimulatedRow(other, "other", "b", lambda: True)
    seen = row.look()
    host.link.send_half = True
    errors = []

    def take():
        try:
            row.raise_epoch(seen)
        except LeaseLocked as error:
            errors.append(error)
            row.end_sessions_of(seen)
        assert row.raise_epoch(row.look()) is not None

    host.world.after(1_000_000_000, take)
    host.world.after(9_000_000_000, host.link.mend)
    with pytest.raises(StoreFenced):
        host.store.commit(Changes())
    assert errors


def test_the_clock_goes_on_by_the_database(host, database):
    """Also while no server runs."""
    host.store.set_metadata({"key": 1})
    before = host.lease.now_ms()
    database.world.run(600.0)
    assert database.seen().clock_ms - before == pytest.approx(600_000, abs=20)


def test_a_group_that_arrives_late_sets_no_clock_back(host, database):
    """Whoever takes over then has lost no time, also if nobody has written since."""
    drift_ms = database.seen().drift_ms
    host.link.hangs = True
    host.world.after(60_000_000_000, host.link.mend)
    host.store.commit(Changes())
    assert host.world.now_ns >= 60_000_000_000
    assert database.row.commits == 1
    assert database.seen().drift_ms == pytest.approx(drift_ms, abs=5)


def test_reads_that_are_cancelled(host, database):
    """Each is done again, as often as needed: a read has no effect."""
    host.store.set_metadata({"key": 1})
    database.cancels = 5
    assert host.store.metadata()["key"] == 1
    assert database.cancels == 0
    assert database.row.commits == 1


def test_a_group_that_is_cancelled(host, database):
    """It is refused: nothing of it is kept, and the next one is."""
    host.store.set_metadata({"key": 1})
    database.cancels = 1
    with pytest.raises(StoreError, match="cannot write: canceling statement") as caught:
        host.store.set_metadata({"key": 2})
    assert not caught.value.fatal
    assert host.store.metadata()["key"] == 1
    host.store.set_metadata({"key": 3})
    assert database.row.commits == 2


def test_a_session_that_ends_while_it_reads(host, database):
    """The read goes on in a new one."""
    host.store.set_metadata({"key": 1})
    (session,) = [one for one in database.sessions if one.epoch]
    host.world.after(1, lambda: database.end(session))
    assert host.store.metadata()["key"] == 1
    assert session.is_ended
    assert [one is session for one in database.sessions if one.epoch] == [False]


def test_a_stop_ends_reads_that_are_cancelled(host, database):
    """What they would have found is not known."""
    database.cancels = 1_000_000
    host.world.after(5_000_000_000, host.store.stop)
    with pytest.raises(StoreError, match="stopped before the database answered") as caught:
        host.store.metadata()
    assert caught.value.fatal


def test_a_session_that_has_ended_locks_nothing(host, database):
    """The first half of its group arrives nowhere: nobody would ever free the row."""
    (session,) = [one for one in database.sessions if one.epoch]
    database.end(session)
    database.lock(session)
    assert database.locked_by is None


def test_a_locked_row_holds_up_what_would_change_it(host, database):
    """A takeover that comes too late does not wait, as in PostgreSQL."""
    seen = host.row.look()
    host.take_over()
    (session,) = [one for one in database.sessions if one.epoch == host.lease.epoch]
    database.lock(session)
    assert host.row.raise_epoch(seen) is None
    with pytest.raises(LeaseLocked):
        host.row.raise_epoch(host.row.look())


def test_a_session_is_known_until_it_ends(host, database):
    """However many were opened since: a takeover has to end the one that has the row locked."""
    (session,) = [one for one in database.sessions if one.epoch]
    database.lock(session)
    for _ in range(100):
        database.open("b", "holder of b", 0)
    assert host.row.end_sessions_of(database.seen())
    assert database.locked_by is None
