"""The server for tests: it crashes, pauses, fails over, and loses what it would in earnest."""

import os
import signal
import threading
from pathlib import Path

import psycopg
import pytest

from tests.postgres.cluster import PostgresCluster
from tests.postgres.programs import server_user
from tests.testing.eventually import eventually
from tests.testing.frozen_process import freeze
from tests.testing.sockets import ThreadGroup


def fill(node):
    """Make a table with one row."""
    node.execute("CREATE TABLE rows (n int)")
    node.execute("INSERT INTO rows VALUES (1)")


def rows(node):
    """Return what is in the table."""
    return [row[0] for row in node.execute("SELECT n FROM rows ORDER BY n")]


def test_each_test_has_a_database_of_its_own(postgres):
    """Its URL leads there, and nothing is in it."""
    with psycopg.connect(postgres.url) as connection:
        assert connection.info.dbname == postgres.name
        tables = connection.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone()
    assert tables == (0,)


def test_a_crash_loses_nothing_that_was_committed(postgres_cluster):
    """All processes have gone at once, and the server starts again over what they wrote."""
    node = postgres_cluster.primary
    fill(node)
    children = node.children()
    node.kill()
    assert not any(map(_is_postgres, children))
    with pytest.raises(psycopg.OperationalError):
        node.connect()
    node.start()
    assert rows(node) == [1]


def _is_postgres(pid):
    try:
        return "postgres" in str(Path(f"/proc/{pid}/exe").readlink())
    except OSError:
        return False


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
def test_stopping(postgres_cluster, mode):
    """In each of the modes the server ends, and starts again."""
    fill(postgres_cluster.primary)
    postgres_cluster.stop(mode)
    assert not postgres_cluster.primary.is_running
    postgres_cluster.start()
    assert rows(postgres_cluster.primary) == [1]


def test_a_paused_server_says_nothing_until_it_goes_on(postgres_cluster):
    """A statement that it got meanwhile is answered afterwards."""
    answers = []
    with postgres_cluster.primary.connect() as connection:
        postgres_cluster.pause()
        threads = ThreadGroup()
        threads.start(lambda: answers.append(connection.execute("SELECT 1").fetchone()))
        threads.threads[0].join(0.05)
        assert answers == []
        postgres_cluster.resume()
        threads.join()
    assert answers == [(1,)]


def test_a_server_does_not_run_as_root(postgres_server):
    """PostgreSQL refuses that: as root, another user's."""
    uid = Path(f"/proc/{postgres_server.primary.pid}").stat().st_uid
    expected = os.getuid() if server_user() is None else server_user().pw_uid
    assert uid == expected
    assert uid != 0


def test_a_setting_can_be_changed_while_it_runs(postgres_cluster):
    """And is kept over a crash."""
    node = postgres_cluster.primary
    node.set("synchronous_commit", "off")
    eventually(lambda: node.execute("SHOW synchronous_commit") == [("off",)])
    node.kill()
    node.start()
    assert node.execute("SHOW synchronous_commit") == [("off",)]


def test_a_synchronous_standby_has_all_that_was_acknowledged(synchronous_cluster):
    """After a failover the URL leads to the promoted one, and the crashed one can come back."""
    cluster = synchronous_cluster
    fill(cluster.primary)
    url, ports = cluster.url, [node.port for node in cluster.nodes]
    crashed = cluster.fail_over()
    assert rows(cluster.primary) == [1]
    with psycopg.connect(url) as connection:
        assert connection.info.port == cluster.primary.port
    cluster.rejoin(crashed)
    assert [node.port for node in cluster.nodes] == ports
    cluster.primary.execute("INSERT INTO rows VALUES (2)")
    cluster.fail_over()
    assert rows(cluster.primary) == [1, 2]


def test_a_frozen_sender_holds_a_synchronous_commit(synchronous_cluster):
    """The commit waits until the sender goes on."""
    cluster, done = synchronous_cluster, threading.Event()
    fill(cluster.primary)
    (sender,) = cluster.walsenders()
    freeze(sender)
    threads = ThreadGroup()

    def insert():
        cluster.primary.execute("INSERT INTO rows VALUES (2)")
        done.set()

    threads.start(insert)
    assert not done.wait(0.1)
    os.kill(sender, signal.SIGCONT)
    threads.join()
    assert rows(cluster.primary) == [1, 2]


@pytest.mark.usefixtures("postgres_template")
def test_a_frozen_sender_loses_what_an_asynchronous_standby_did_not_get():
    """That is why a standby has to be synchronous: the row was acknowledged and has gone."""
    with PostgresCluster(standby="asynchronous") as cluster:
        fill(cluster.primary)
        eventually(lambda: _replayed(cluster))
        (sender,) = cluster.walsenders()
        freeze(sender)
        cluster.primary.execute("INSERT INTO rows VALUES (2)")
        cluster.fail_over()
        assert rows(cluster.primary) == [1]


def _replayed(cluster):
    lag = "SELECT pg_current_wal_lsn() = replay_lsn FROM pg_stat_replication"
    return cluster.primary.execute(lag) == [(True,)]


@pytest.mark.usefixtures("postgres_template")
def test_a_directory_has_gone_when_the_cluster_is_closed():
    """And its processes with it."""
    with PostgresCluster() as cluster:
        directory = cluster.directory
        assert directory.exists()
    assert not directory.exists()
