"""The proxy between a client and a server: it forwards, cuts, swallows and delays."""

import socket
import threading
import time

import psycopg
import pytest

from tests.postgres.proxy import Link, Proxy
from tests.testing.eventually import eventually


@pytest.fixture
def proxy(postgres):
    """A proxy before the server."""
    with Proxy(postgres.cluster.primary.port) as proxy:
        yield proxy


@pytest.fixture
def connect(postgres, proxy):
    """Open sessions through the proxy."""
    opened = []

    def connect(**options):
        url = postgres.cluster.url_of(postgres.name, [proxy.port])
        opened.append(psycopg.connect(url, autocommit=True, **options))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


def test_forwarding(connect, proxy):
    """Large answers come whole; ended connections are forgotten."""
    connection = connect()
    assert len(connection.execute("SELECT repeat('x', 1000000)").fetchone()[0]) == 1_000_000
    assert proxy.connections == 1
    connection.close()
    eventually(lambda: proxy.connections == 0)
    assert proxy.resets == proxy.swallowed == 0


def test_a_cut_ends_connections_and_refuses_new_ones(connect, proxy):
    """Until it forwards again."""
    connection = connect()
    proxy.set(Link.CUT)
    with pytest.raises(psycopg.OperationalError):
        connection.execute("SELECT 1")
    with pytest.raises(psycopg.OperationalError):
        connect()
    proxy.set(Link.FORWARD)
    assert connect().execute("SELECT 1").fetchone() == (1,)
    assert proxy.resets >= 2


def test_what_is_swallowed_never_arrives(connect, proxy, postgres):
    """The kernel confirms it; the connection is reset when the link forwards again."""
    connection, errors = connect(), []

    def insert():
        with pytest.raises(psycopg.OperationalError) as caught:
            connection.execute("CREATE TABLE lost (n int)")
        errors.append(caught.value)

    proxy.set(Link.SWALLOW)
    thread = threading.Thread(target=insert)
    thread.start()
    eventually(lambda: proxy.swallowed)
    proxy.set(Link.FORWARD)
    thread.join()
    assert errors
    assert postgres.execute("SELECT to_regclass('lost')") == [(None,)]


def test_nobody_answers_a_new_connection_behind_a_link_that_swallows(connect, proxy):
    """The handshake is the proxy's; the session's is not."""
    proxy.set(Link.SWALLOW)
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        connect(connect_timeout=2)


def test_a_commit_whose_answer_is_swallowed_has_happened(connect, proxy, postgres):
    """The case of doubt: the request arrives, the answer does not."""
    postgres.execute("CREATE TABLE doubt (n int)")
    connection = connect()
    proxy.cut_at(b"INSERT INTO doubt", Link.SWALLOW_ANSWERS)
    thread = threading.Thread(target=_insert, args=(connection,))
    thread.start()
    eventually(lambda: postgres.execute("SELECT n FROM doubt") == [(1,)])
    eventually(lambda: proxy.swallowed)
    assert proxy.link is Link.SWALLOW_ANSWERS
    assert thread.is_alive()
    proxy.set(Link.FORWARD)
    thread.join()


def _insert(connection):
    with pytest.raises(psycopg.OperationalError):
        connection.execute("INSERT INTO doubt VALUES (1)")


def test_a_delay_holds_each_chunk(connect, proxy):
    """There and back: twice the delay at least."""
    connection = connect()
    proxy.set(Link.FORWARD, delay_s=0.05)
    start = time.monotonic()
    connection.execute("SELECT 1")
    assert time.monotonic() - start >= 0.1


def test_a_server_that_is_away(proxy):
    """A connection to nothing is reset."""
    proxy.port_of_server = 1
    with (
        socket.create_connection(("127.0.0.1", proxy.port)) as client,
        pytest.raises(ConnectionResetError),
    ):
        client.recv(1)
