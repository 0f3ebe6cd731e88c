"""Groups: fenced, and never in doubt for the server, whatever becomes of the connection."""

import random
import threading
import time

import pytest
from msgspec import Raw

from purgatory.errors import NotReplicated, StoreError, StoreFenced
from purgatory.service.store.changes import Changes
from purgatory.service.store.postgres.sessions.postgres_errors import SessionLost
from purgatory.service.store.postgres.sessions.session import statement
from purgatory.service.store.rows import OperationBatch
from tests.postgres.proxy import Link, Proxy
from tests.testing.changes import changes_of
from tests.testing.eventually import eventually
from tests.testing.held_lease import open_store, take_over
from tests.testing.purgatory_harness import HANG


def batch(number):
    """Return a batch of one operation."""
    return [OperationBatch(number, "c", 1, [[f"op-{number}", ["k"], 999, 1, "", Raw(b"\xc0")]])]


def submit(number):
    """Return changes that submit one operation."""
    return changes_of(operations=batch(number))


def numbers(database, schema="purgatory"):
    """Return the numbers that the database has."""
    return [
        first for (first,) in database.execute(f"SELECT first FROM {schema}.batches ORDER BY 1")
    ]


def lease_row(database):
    """Return epoch, holder and count of groups."""
    return database.execute("SELECT epoch, holder, commits FROM purgatory.lease")[0]


@pytest.fixture
def store(postgres):
    """A store that has written one group."""
    opened = open_store(postgres.url)
    opened.commit(submit(1))
    yield opened
    opened.close()


#: Groups that give no new number: a row of the same key would not stop them.
LATE = {
    "an extension": changes_of(deadlines=[1, 5]),
    "a hold": changes_of(held=["k", 1, 5, 6, -1, b"v"]),
    "a delete": changes_of(delete_operations=[1]),
    "nothing": Changes(),
}


class TestFence:
    @pytest.mark.parametrize("changes", LATE.values(), ids=LATE)
    def test_a_late_group(self, postgres, store, changes):
        """Nothing of it is kept once another server has the lease, and the lease is told."""
        other = take_over(postgres.url)
        before = postgres.execute("SELECT * FROM purgatory.batches")
        with pytest.raises(StoreFenced, match="epoch 2 has taken over; this server has epoch 1"):
            store.commit(changes)
        assert postgres.execute("SELECT * FROM purgatory.batches") == before
        for table in ("deadlines", "held"):
            assert postgres.execute(f"SELECT * FROM purgatory.{table}") == []
        assert lease_row(postgres) == (2, other.holder, 1)
        assert len(store.lease.lost) == 1

    def test_a_number_that_was_given_again(self, postgres, store):
        """It is a fence, too, though the database refuses the row first."""
        other = open_store(postgres.url)
        other.commit(submit(2))
        with pytest.raises(StoreFenced, match="epoch 2 has taken over"):
            store.commit(submit(2))
        other.commit(submit(3))
        other.close()

    def test_late_metadata(self, postgres, store):
        """It is a group as well."""
        take_over(postgres.url)
        before = store.metadata()
        for write in (
            lambda: store.set_metadata({"a": 1}),
            lambda: store.check_room(5),
        ):
            with pytest.raises(StoreFenced):
                write()
        assert store.metadata() == before

    def test_an_epoch_that_was_lost(self, postgres, store):
        """A lower one does not fit either: only one's own does."""
        postgres.execute("UPDATE purgatory.lease SET epoch = 0")
        with pytest.raises(StoreFenced, match="epoch 0 has taken over"):
            store.commit(submit(2))

    def test_a_database_that_went_back(self, postgres, store):
        """One that has lost a group that was acknowledged: what is in memory is wrong."""
        postgres.execute("UPDATE purgatory.lease SET commits = commits - 1")
        with pytest.raises(StoreFenced, match="has 0 groups; expected 1: it was restored"):
            store.commit(submit(2))
        assert lease_row(postgres)[0] == 1  # no doubt: the epoch is not raised
        assert numbers(postgres) == [1]

    def test_without_its_row(self, postgres, store):
        """It is a fence, too."""
        postgres.execute("DELETE FROM purgatory.lease")
        with pytest.raises(StoreFenced, match="row of the lease is missing"):
            store.commit(submit(2))

    def test_another_holder_at_the_start(self, postgres):
        """A store is opened by the holder alone."""
        lease = take_over(postgres.url)
        take_over(postgres.url)
        with pytest.raises(StoreFenced, match="epoch 2"):
            open_store_of(postgres.url, lease)

    def test_each_group_renews_the_lease(self, store):
        """From a moment before it was sent."""
        renewals = store.lease.renewals
        before = time.monotonic_ns()
        store.commit(submit(2))
        assert len(renewals) == 2
        assert before <= renewals[-1] <= time.monotonic_ns()

    def test_the_clock_is_written(self, postgres, store):
        """With each group, so another server goes on from there."""
        store.lease.clock_ms = 123_456
        store.commit(submit(2))
        assert postgres.execute("SELECT clock_ms FROM purgatory.lease") == [(123_456,)]

    def test_the_clock_of_a_group_that_comes_late(self, postgres, store):
        """The database's time counts at which it was read."""
        store.lease.database_ms = 77_500
        store.commit(submit(2))
        [(at_s,)] = postgres.execute("SELECT extract(epoch FROM clock_at) FROM purgatory.lease")
        assert at_s == pytest.approx(77.5)


def open_store_of(url, lease, **options):
    """Open the store of a lease that was taken."""
    from purgatory.service.store.postgres.postgres_store import PostgresStore  # noqa: PLC0415

    return PostgresStore(url, "", lease, **options)


class TestRefusals:
    def test_a_group_that_the_database_refuses(self, postgres, store):
        """Nothing of it is kept, and the next one succeeds; nothing is in doubt."""
        with pytest.raises(StoreError, match="cannot write: duplicate key") as caught:
            store.commit(changes_of(operations=batch(1), deadlines=[1, 5]))
        assert not caught.value.fatal
        assert postgres.execute("SELECT * FROM purgatory.deadlines") == []
        store.commit(submit(2))
        assert numbers(postgres) == [1, 2]
        assert store.lease.raises == []

    def test_not_replicated(self, postgres):
        """It is refused where that is required, and rolled back."""
        store = open_store(postgres.url, require_replicated=True)
        with pytest.raises(NotReplicated, match="no synchronous standby"):
            store.commit(submit(1))
        assert numbers(postgres) == []
        assert store.is_replicated is False
        assert store.lease.lost == store.lease.raises == []
        store.close()

    def test_replicated(self, synchronous_cluster):
        """It is known of each group, also when that changes."""
        primary = synchronous_cluster.primary
        store = open_store(primary.url(), require_replicated=True)
        store.commit(submit(1))
        assert store.is_replicated is True
        primary.set("synchronous_commit", "local")
        eventually(lambda: primary.execute("SHOW synchronous_commit") == [("local",)])
        store.close()
        store = open_store(primary.url())
        store.commit(submit(2))
        assert store.is_replicated is False
        store.close()


def commit_error(store, changes):
    """Commit; returns the error, None if it succeeded."""
    try:
        store.commit(changes)
    except StoreError as error:
        return error
    return None


class Commit(threading.Thread):
    """A commit in a thread of its own."""

    def __init__(self, store, changes):
        super().__init__(daemon=True)
        self._store, self._changes = store, changes
        self.error = None
        self.start()

    def run(self):
        """Commit."""
        self.error = commit_error(self._store, self._changes)

    def result(self):
        """Return what it raised; None if it succeeded."""
        self.join(HANG)
        assert not self.is_alive()
        return self.error


@pytest.fixture
def proxy(postgres):
    """A link to the database that fails."""
    with Proxy(postgres.cluster.primary.port) as made:
        made.url = postgres.cluster.url_of(postgres.name, [made.port])
        yield made


class TestDoubt:
    def test_the_answer_was_lost(self, postgres, proxy):
        """The group is there: the server never learns of the doubt."""
        store = open_store(proxy.url)
        proxy.cut_at(b"COMMIT")
        commit = Commit(store, submit(1))
        eventually(lambda: proxy.swallowed)
        eventually(lambda: numbers(postgres) == [1])
        proxy.set(Link.FORWARD)
        assert commit.result() is None
        store.commit(submit(2))
        assert numbers(postgres) == [1, 2]
        assert store.lease.raises == [2]
        assert lease_row(postgres) == (2, store.lease.holder, 2)
        store.close()

    def test_the_group_was_lost(self, postgres, proxy):
        """It is sent once more, with the new epoch."""
        store = open_store(proxy.url)
        proxy.set(Link.SWALLOW_REQUESTS)
        commit = Commit(store, submit(1))
        eventually(lambda: proxy.swallowed)
        proxy.set(Link.FORWARD)
        assert commit.result() is None
        assert numbers(postgres) == [1]
        assert store.lease.raises == [2]
        store.commit(submit(2))
        assert lease_row(postgres) == (2, store.lease.holder, 2)
        store.close()

    def test_the_group_was_lost_twice(self, postgres, store, monkeypatch):
        """It is refused: the group may be what ends the sessions."""
        run, sent = store._database.run, []

        def lose(session, statements):
            if len(statements) > 4:  # not the raised epoch
                sent.append(statements)
                raise SessionLost("gone")
            return run(session, statements)

        monkeypatch.setattr(store._database, "run", lose)
        with pytest.raises(StoreError, match="a commit failed: gone") as caught:
            store.commit(changes_of(operations=batch(2), deadlines=[1, 5]))
        assert not caught.value.fatal
        assert (len(sent), store.lease.raises) == (2, [2, 3])
        monkeypatch.undo()
        store.commit(submit(2))
        assert numbers(postgres) == [1, 2]

    def test_no_answer_in_time(self, postgres, proxy):
        """A link that swallows all is given up after a time."""
        store = open_store(proxy.url, answer_s=0.2)
        proxy.set(Link.SWALLOW)
        assert store.waits_for() == ""
        commit = Commit(store, submit(1))
        eventually(lambda: proxy.connections > 1)  # it has given the first one up
        eventually(lambda: store.waits_for().endswith("no answer in time"))
        proxy.set(Link.FORWARD)
        assert commit.result() is None
        assert store.lease.raises
        assert store.waits_for() == ""
        store.close()

    def test_a_group_that_holds_the_row(self, postgres):
        """What this server left behind half sent is ended, and is not there."""
        primary = postgres.cluster.primary
        store = open_store(postgres.url, answer_s=0.5)
        with postgres.cluster.primary.connect(postgres.name) as blocker:
            # The old group stands before its fence when the row is free again.
            blocker.execute("BEGIN")
            blocker.execute("SELECT * FROM purgatory.lease FOR UPDATE")
            commit = Commit(store, submit(1))
            [old] = wait_for_rows(primary, "wait_event = 'transactionid'")
            # It has given the group up, and cannot raise its epoch: so it ends what it left behind.
            wait_for_rows(primary, f"pid <> {old} AND wait_event IN ('tuple', 'transactionid')")
            eventually(lambda: not rows_of(primary, f"pid = {old}"))
            blocker.execute("ROLLBACK")
        assert commit.result() is None
        assert numbers(postgres) == [1]
        store.commit(submit(2))
        store.close()

    def test_fenced_meanwhile(self, postgres, proxy):
        """Another server took over while the group was in doubt: it may be there."""
        store = open_store(proxy.url)
        proxy.cut_at(b"COMMIT")
        commit = Commit(store, submit(1))
        eventually(lambda: proxy.swallowed)
        take_over(postgres.url)
        proxy.set(Link.FORWARD)
        assert isinstance(commit.result(), StoreFenced)
        assert store.lease.lost
        store.close()

    def test_fenced_meanwhile_by_a_holder_that_cannot_be_read(self, postgres, proxy, monkeypatch):
        """The lease is lost all the same: the group may be there, so it is not refused."""
        store = open_store(proxy.url)
        look = statement("SELECT 1 FROM purgatory.no_such_table")
        monkeypatch.setattr(store._groups, "_look", lambda: look)
        proxy.cut_at(b"COMMIT")
        commit = Commit(store, submit(1))
        eventually(lambda: proxy.swallowed)
        take_over(postgres.url)
        proxy.set(Link.FORWARD)
        error = commit.result()
        assert isinstance(error, StoreFenced)
        assert "another server has the data" in str(error)
        assert store.lease.lost == [str(error)]
        store.close()

    def test_a_wait_for_the_standby_that_was_cancelled(self, synchronous_cluster):
        """It looks like success, with a notice: the group counts once the standby has it."""
        cluster = synchronous_cluster
        store = open_store(cluster.url)
        store.commit(submit(1))
        cluster.standby.pause()
        commit = Commit(store, submit(2))
        try:
            [pid] = wait_for_rows(cluster.primary, "wait_event = 'SyncRep'")
            assert numbers(cluster.primary) == [1]
            cluster.primary.execute("SELECT pg_cancel_backend(%s)", pid)
            # It is visible now. The epoch is raised by another session, which waits as well.
            [other] = wait_for_rows(cluster.primary, f"wait_event = 'SyncRep' AND pid <> {pid}")
            assert numbers(cluster.primary) == [1, 2]
            assert commit.is_alive()
            cluster.primary.execute("SELECT pg_cancel_backend(%s)", other)
            condition = f"wait_event = 'SyncRep' AND pid NOT IN ({pid}, {other})"
            assert wait_for_rows(cluster.primary, condition)
            assert commit.is_alive()
        finally:
            cluster.standby.resume()
        assert commit.result() is None
        assert len(store.lease.raises) == 1
        store.commit(submit(3))
        store.close()

    @pytest.mark.parametrize("seed", range(3))
    def test_backends_that_end_at_random(self, postgres, seed):
        """Of many groups none is decided wrong."""
        dice = random.Random(seed)
        store = open_store(postgres.url)
        ended = threading.Event()
        killer = threading.Thread(target=end_backends, args=(postgres, dice, ended), daemon=True)
        killer.start()
        kept = []
        doubts = number = 0
        # How often a session ends in a commit depends on how busy the machine is.
        while number < 100 or doubts <= 10:
            number += 1
            raises = len(store.lease.raises)
            error = commit_error(store, submit(number))
            assert error is None or not error.fatal
            if error is None:
                kept.append(number)
            doubts += len(store.lease.raises) > raises
        ended.set()
        killer.join()
        assert numbers(postgres) == kept
        store.close()


def rows_of(node, condition):
    """Return the sessions of stores that write groups, for which a condition holds."""
    sql = (
        "SELECT pid FROM pg_stat_activity WHERE application_name ~ '^purgatory:purgatory:[1-9]' "
        f"AND ({condition})"
    )
    return [pid for (pid,) in node.execute(sql)]


def wait_for_rows(node, condition):
    """Return these sessions, once there are any."""
    eventually(lambda: rows_of(node, condition))
    return rows_of(node, condition)


def end_backends(database, dice, ended):
    """End the sessions of stores, now and then."""
    sql = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
        "AND application_name LIKE 'purgatory:%'"
    )
    with database.cluster.primary.connect(database.name) as connection:
        while not ended.wait(dice.uniform(0, 0.02)):
            connection.execute(sql)


class TestAway:
    def test_a_session_that_ended_while_idle(self, postgres, store):
        """The next group is sent over a new one, without doubt."""
        postgres.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE application_name LIKE 'purgatory:purgatory:%%'"
        )
        eventually(lambda: store._database._session.is_lost())
        store.commit(submit(2))
        assert numbers(postgres) == [1, 2]
        assert store.lease.raises == []

    def test_a_database_that_comes_back(self, postgres_cluster):
        """A group and a read wait for it."""
        cluster = postgres_cluster
        store = open_store(cluster.url)
        store.commit(submit(1))
        cluster.stop()
        commit = Commit(store, submit(2))
        cluster.start()
        assert commit.result() is None
        cluster.kill()
        cluster.start()
        assert [row.number for row in store.operations()] == [1, 2]
        store.close()

    def test_stop(self, postgres_cluster):
        """What waits for a database that is away ends soon: the effect is not known."""
        cluster = postgres_cluster
        store = open_store(cluster.url)
        cluster.pause()
        commit = Commit(store, submit(1))
        eventually(lambda: store.lease.renewals == [] and commit.is_alive())
        store.stop()
        error = commit.result()
        assert error.fatal
        assert not isinstance(error, StoreFenced)
        with pytest.raises(StoreError, match="stopped"):
            store.metadata()
        store.close()
        cluster.resume()
