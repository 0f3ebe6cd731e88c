"""Sessions: groups in one round trip, and an end to each wait."""

import threading

import pytest

from purgatory.service.store.postgres.sessions import interrupt as interrupt_module
from purgatory.service.store.postgres.sessions import session as session_module
from purgatory.service.store.postgres.sessions.interrupt import Interrupt
from purgatory.service.store.postgres.sessions.postgres_errors import SessionLost, StatementRefused
from purgatory.service.store.postgres.sessions.session import open_session, statement
from tests.postgres.proxy import Link, Proxy
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def interrupt():
    """An interrupt."""
    made = Interrupt()
    yield made
    made.close()


@pytest.fixture
def session(postgres, interrupt):
    """A session named so."""
    opened = open_session(postgres.url, "purgatory:x", interrupt, 30)
    yield opened
    opened.close()


def values(session, sql):
    """Return the rows of a statement."""
    return session.rows(session.run([statement(sql)], 30)[0])


def test_its_name(session):
    """It is known to the database."""
    assert values(session, "SHOW application_name") == [("purgatory:x",)]
    assert session.server_version > 140_000


def test_the_database_limits_it(session):
    """So what a dead server left behind ends by itself."""
    assert values(session, "SHOW idle_in_transaction_session_timeout") == [("30s",)]


def test_a_group_that_is_refused(session):
    """By its place; nothing is kept, and the session goes on."""
    values(session, "CREATE TABLE a (x int8 PRIMARY KEY)")
    group = ["BEGIN", "INSERT INTO a VALUES (1)", "INSERT INTO a VALUES (1)", "COMMIT"]
    with pytest.raises(StatementRefused, match="duplicate key") as caught:
        session.run([statement(sql) for sql in group], 30)
    assert (caught.value.index, caught.value.code) == (2, "23505")
    assert caught.value.is_race
    assert values(session, "SELECT * FROM a") == []


def test_statements_without_begin(session):
    """They are one transaction as well."""
    values(session, "CREATE TABLE a (x int8 PRIMARY KEY)")
    group = ["INSERT INTO a VALUES (1)", "SELECT 1 / 0", "SELECT 1"]
    with pytest.raises(StatementRefused, match="division"):
        session.run([statement(sql) for sql in group], 30)
    assert values(session, "SELECT * FROM a") == []


def test_notices(session):
    """What the database says beside the results of the last group."""
    values(session, "DO $$ BEGIN RAISE WARNING 'careful'; END $$")
    assert session.notices == ["careful"]
    values(session, "SELECT 1")
    assert session.notices == []


def test_no_answer_in_time(session):
    """The session is lost."""
    with pytest.raises(SessionLost, match="no answer in time"):
        session.run([statement("SELECT pg_sleep(60)")], 0.05)


def test_an_interrupt(session, interrupt):
    """Nothing is waited for any more, but an answer that comes at once."""
    interrupt.set()
    assert values(session, "SELECT 1") == [(1,)]
    with pytest.raises(SessionLost):
        session.run([statement("SELECT pg_sleep(60)")], 30)


def test_a_session_that_was_ended(postgres, session):
    """It is known before anything is sent, and an error if it is."""
    assert not session.is_lost()
    sql = (
        "SELECT pg_terminate_backend(pid, 30000) FROM pg_stat_activity WHERE application_name = %s"
    )
    postgres.execute(sql, "purgatory:x")
    with pytest.raises(SessionLost):
        values(session, "SELECT 1")
    assert session.is_lost()


def test_large_groups(session):
    """Both ends have more to say than their buffers hold."""
    data = b"x" * (8 << 20)
    group = [statement("SELECT $1::bytea", data)] * 4
    results = session.run(group, 60)
    assert all(session.rows(one) == [(data,)] for one in results)


def test_hosts_in_turn(postgres, interrupt):
    """One that is away is passed over."""
    port = postgres.cluster.primary.port
    url = f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{port}/{postgres.name}"
    session = open_session(url, "purgatory:x", interrupt, 30)
    assert values(session, "SELECT 1") == [(1,)]
    session.close()


def test_a_replica(synchronous_cluster, interrupt):
    """It can be read, but is passed over."""
    standby, primary = synchronous_cluster.standby, synchronous_cluster.primary
    url = f"postgresql://postgres@127.0.0.1:{standby.port},127.0.0.1:{primary.port}/postgres"
    session = open_session(url, "purgatory:x", interrupt, 30)
    assert values(session, "SELECT pg_is_in_recovery()") == [(False,)]
    session.close()
    with pytest.raises(SessionLost, match="read-only"):
        open_session(standby.url(), "purgatory:x", interrupt, 30)


def test_a_host_that_swallows(postgres, interrupt):
    """It is given up after its share of the time."""
    with Proxy(postgres.cluster.primary.port) as proxy:
        proxy.set(Link.SWALLOW)
        ports = [proxy.port, postgres.cluster.primary.port]
        url = postgres.cluster.url_of(postgres.name, ports)
        session = open_session(url, "purgatory:x", interrupt, 4.0)
        assert values(session, "SELECT 1") == [(1,)]
        session.close()
        with pytest.raises(SessionLost, match="no answer in time"):
            open_session(postgres.cluster.url_of(ports=[proxy.port]), "x", interrupt, 0.2)


def test_an_interrupt_of_an_attempt_to_connect(postgres, interrupt, monkeypatch):
    """It ends soon, however much time it had."""
    monkeypatch.setattr(interrupt_module, "_GRACE_S", 0.01)
    with Proxy(postgres.cluster.primary.port) as proxy:
        proxy.set(Link.SWALLOW)
        timer = threading.Timer(0.02, interrupt.set)
        timer.start()
        with pytest.raises(SessionLost, match="no answer in time"):
            open_session(postgres.cluster.url_of(ports=[proxy.port]), "x", interrupt, 10 * HANG)
        timer.join()


@pytest.mark.parametrize("takes_options", [False, True])
def test_a_pooler_that_takes_no_options(monkeypatch, interrupt, takes_options):
    """The session is opened without them then; any other refusal comes out at once."""
    asked = []
    reason = "no such database" if takes_options else f"{session_module._NO_OPTIONS}: options"

    def open_first(addresses, *_):
        asked.append(b"statement_timeout" in addresses[0])
        if asked == [True]:
            raise SessionLost(reason)
        return "session"

    monkeypatch.setattr(session_module, "_open_first", open_first)
    if takes_options:
        with pytest.raises(SessionLost, match=reason):
            open_session("postgresql://a/d", "name", interrupt, 30)
    else:
        assert open_session("postgresql://a/d", "name", interrupt, 30) == "session"
    assert asked == ([True] if takes_options else [True, False])
