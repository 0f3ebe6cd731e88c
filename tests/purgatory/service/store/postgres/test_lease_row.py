"""The row of the lease: looks, takeovers, beats, and the sessions of a holder that is gone."""

import contextlib

import psycopg
import pytest

from purgatory.errors import StoreError
from purgatory.service.store.contract import SERVER_KEYS
from purgatory.service.store.lease import NEVER_COMMITTED, ClockReading, LeaseLocked
from purgatory.service.store.postgres.lease_row import PostgresLeaseRow
from tests.postgres.proxy import Link, Proxy
from tests.testing.changes import changes_of
from tests.testing.eventually import eventually
from tests.testing.held_lease import HeldForTests, open_store, take_over


@pytest.fixture
def make(postgres):
    """Make rows of servers, by their names."""
    rows = []

    def made(holder, partition="", url=postgres.url, **options):
        row = PostgresLeaseRow(url, partition, holder, f"tcp://{holder}:1", **options)
        rows.append(row)
        return row

    yield made
    for row in rows:
        row.close()


@pytest.fixture
def row(make):
    """The row of the server a, with its tables."""
    made = make("a")
    made.set_up()
    return made


def test_a_new_row(row):
    """Nobody has it; the service's clock is the database's."""
    seen = row.look()
    assert (seen.epoch, seen.beat, seen.commits, seen.holder, seen.address) == (0, 0, 0, "", "")
    assert seen.last_commit_s == NEVER_COMMITTED
    assert (seen.handover, seen.replicated) == (False, False)
    assert abs(seen.drift_ms) <= 1


@pytest.mark.parametrize("partition", ["", "orders"])
def test_a_database_without_tables(make, partition):
    """The error names the schema, as of a partition that was mistyped, and what would make it."""
    schema = f"purgatory{partition and '_'}{partition}"
    with pytest.raises(StoreError, match=rf"has no tables in the schema {schema}; expected"):
        make("", partition).look()


def test_a_row_that_is_gone(row, postgres):
    """The error names the database, and says what is missing."""
    postgres.execute("DELETE FROM purgatory.lease")
    with pytest.raises(StoreError, match=r"postgresql:.*: the row of the lease is missing"):
        row.look()


def test_one_takes_over(row, make):
    """The other one finds that the row has changed."""
    other = make("b")
    seen, same = row.look(), other.look()
    assert seen.is_same(same)
    taken = row.raise_epoch(seen)
    assert (taken.epoch, taken.holder, taken.address) == (1, "a", "tcp://a:1")
    assert other.raise_epoch(same) is None
    assert not seen.is_same(other.look())


def test_beats(row, make):
    """Only the holder's count; they carry the service's clock on."""
    row.raise_epoch(row.look())
    before = row.look()
    beaten = row.beat(ClockReading(before.clock_ms + 5000))
    assert beaten.beat == before.beat + 1
    assert before.clock_ms + 5000 <= make("b").look().clock_ms < before.clock_ms + 60_000
    assert make("b").beat(ClockReading(0)) is None
    make("c").raise_epoch(row.look())
    assert row.beat(ClockReading(0)) is None


def test_the_clock_never_goes_back(row, postgres):
    """Not with that of the database either."""
    postgres.execute("UPDATE purgatory.lease SET clock_ms = 77, clock_at = now() + interval '1 h'")
    assert row.look().clock_ms == 77


@pytest.mark.parametrize(("late_ms", "later_ms"), [(3_600_000, 3_600_000), (-3_600_000, 0)])
def test_a_beat_that_comes_late_sets_no_clock_back(row, late_ms, later_ms):
    """The time at which it was read counts, unless the database's clock was set back since."""
    row.raise_epoch(row.look())
    seen = row.look()
    database_ms = seen.clock_ms - seen.drift_ms
    beaten = row.beat(ClockReading(9_000, database_ms - late_ms))
    assert 9_000 + later_ms <= beaten.clock_ms < 9_000 + later_ms + 60_000
    assert beaten.clock_ms <= row.look().clock_ms


def test_release(row, make):
    """The next one need not wait."""
    row.raise_epoch(row.look())
    assert row.release(ClockReading(9_000))
    seen = make("b").look()
    assert (seen.holder, seen.address, seen.epoch) == ("", "", 1)
    assert seen.clock_ms >= 9_000
    assert not row.release(ClockReading(9_000))


def test_standbys(row, make, postgres):
    """Those that look are known, until they take over, or are not seen for a minute."""
    other = make("b")
    row.look(register=True)
    other.look(register=True)
    other.look(register=True)
    assert {(each.holder, each.address) for each in row.standbys()} == {
        ("a", "tcp://a:1"),
        ("b", "tcp://b:1"),
    }
    assert all(0 <= each.seen_s < 60 for each in row.standbys())
    row.raise_epoch(row.look())
    assert [each.holder for each in row.standbys()] == ["b"]
    postgres.execute("UPDATE purgatory.members SET seen = now() - interval '61 s'")
    make("c").look(register=True)
    assert [each.holder for each in row.standbys()] == ["c"]


def test_a_handover(row, make):
    """It is asked of the holder that was seen, and forgotten by the next one."""
    operator = make("operator")
    assert not operator.request_handover(operator.look())
    seen = row.raise_epoch(row.look())
    assert operator.request_handover(seen)
    assert row.look().handover
    assert not make("b").raise_epoch(row.look()).handover
    assert not operator.request_handover(seen)


def test_what_the_active_server_has_noted_of_its_keys(row, postgres):
    """Any server reads it, without the lease; it is nothing at first."""
    assert row.server_keys() == ""
    store = open_store(postgres.url)
    store.set_metadata({SERVER_KEYS: "key list"})
    store.close()
    assert row.server_keys() == "key list"


def test_a_group_half_sent_holds_the_row(row, make, postgres):
    """The new holder ends the sessions of the old one, and then raises the epoch."""
    seen = row.raise_epoch(row.look())
    name = "purgatory:purgatory:1:a"
    with psycopg.connect(postgres.url, application_name=name) as half_sent:
        half_sent.execute("UPDATE purgatory.lease SET commits = commits + 1")
        other = make("b")
        with pytest.raises(LeaseLocked):
            other.raise_epoch(other.look())
        assert other.end_sessions_of(seen) == 2  # that one, and where the holder beats
        taken = other.raise_epoch(other.look())
        assert (taken.epoch, taken.commits) == (2, 0)
        with pytest.raises(psycopg.OperationalError):
            half_sent.execute("SELECT 1")
    with contextlib.suppress(StoreError):  # the session may end while it beats
        row.beat(ClockReading(0))
    assert row.beat(ClockReading(0)) is None


@pytest.mark.parametrize(
    ("name", "is_ended"),
    [
        ("purgatory:purgatory:1:x", True),
        ("purgatory:purgatory:3:x", True),
        ("purgatory:purgatory:4:x", False),
        ("purgatory:purgatory:0:old", True),
        ("purgatory:purgatory:0:other", False),
        ("purgatory:purgatory_p:1:x", False),
        ("purgatory:purgatory:x", False),
        ("psql", False),
    ],
)
def test_whose_sessions_are_ended(row, postgres, name, is_ended):
    """Those of this namespace, of that holder or of no later epoch."""
    seen = row.look()._replace(epoch=3, holder="old")
    with psycopg.connect(postgres.url, application_name=name):
        assert row.end_sessions_of(seen) == is_ended


@pytest.mark.parametrize(("holder", "is_ended"), [("a", False), ("", False), ("b", True)])
def test_which_holders_lose_the_session_that_looks(row, postgres, holder, is_ended):
    """Another one; not this server itself, and not none."""
    name = f"purgatory:purgatory:0:{holder}"
    with psycopg.connect(postgres.url, application_name=name):
        assert row.end_sessions_of(row.look()._replace(epoch=3, holder=holder)) == is_ended


def test_partitions(row, make):
    """Each has a lease of its own."""
    other = make("b", "orders")
    other.set_up()
    other.raise_epoch(other.look())
    assert row.look().holder == ""
    assert other.look().holder == "b"
    with pytest.raises(StoreError, match="partition is 'A-b'"):
        make("c", "A-b")


def test_last_commit(row, postgres):
    """Of the store's groups; a beat is none."""
    store = open_store(postgres.url)
    store.commit(changes_of(deadlines=[1, 5]))
    assert 0 <= row.look().last_commit_s < 60
    assert row.look().commits == 1
    store.close()


def is_seen(row):
    """Tell whether the database answers."""
    with contextlib.suppress(StoreError):
        return row.look() is not None
    return False


def test_a_database_that_is_away(postgres, row, make):
    """Each call ends in time with an error that is not fatal, and a later one connects anew."""
    seen = row.look()
    with Proxy(postgres.cluster.primary.port) as proxy:
        url = postgres.cluster.url_of(postgres.name, [proxy.port])
        row = make("a", url=url, timeout_s=0.4)
        for link in (Link.SWALLOW, Link.CUT, Link.SWALLOW_ANSWERS):
            proxy.set(link)
            for call in (
                row.look,
                lambda: row.beat(ClockReading(1)),
                lambda: row.raise_epoch(seen),
                row.standbys,
            ):
                with pytest.raises(StoreError) as caught:
                    call()
                assert not caught.value.fatal
            proxy.set(Link.FORWARD)
        eventually(lambda: is_seen(row))  # on a busy machine, a time-out may be too short


def test_a_beat_that_was_not_replicated(synchronous_cluster):
    """It is an error: it may be lost with this database."""
    cluster = synchronous_cluster
    lease = take_over(cluster.url)
    row = PostgresLeaseRow(cluster.url, "", lease.holder, "tcp://a:1", timeout_s=1.0)
    assert row.beat(ClockReading(1)).replicated
    cluster.standby.pause()
    try:
        with pytest.raises(StoreError):
            row.beat(ClockReading(2))
        assert row.look(register=True).replicated  # looking does not wait
    finally:
        cluster.standby.resume()
    row.close()


def test_a_lease_for_tests_is_one():
    """The one of the tests of stores tells what it was told."""
    lease = HeldForTests("a", 1)
    lease.raised(2)
    lease.lose("why")
    assert (lease.epoch, lease.raises, lease.lost) == (2, [2], ["why"])
