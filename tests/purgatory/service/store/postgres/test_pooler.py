"""A store through PgBouncer that gives each transaction another session."""

import os
import shutil
import socket
import subprocess

import psycopg
import pytest
from msgspec import Raw

from purgatory.errors import StoreFenced
from purgatory.service.store.lease import LeaseLocked
from purgatory.service.store.postgres.lease_row import PostgresLeaseRow
from purgatory.service.store.rows import OperationBatch
from tests.postgres.programs import identity, new_directory, own
from tests.testing.changes import changes_of
from tests.testing.eventually import eventually
from tests.testing.held_lease import open_store, take_over
from tests.testing.purgatory_harness import HANG, free_port

PROGRAM = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
SETTINGS = """\
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
logfile = {directory}/log
pidfile = {directory}/pid
"""


@pytest.fixture
def url(postgres):
    """The URL of the database behind a pooler of the test's own."""
    if PROGRAM is None:
        assert not os.environ.get("CI"), "no pgbouncer: install Debian's package"
        pytest.skip("no pgbouncer")
    directory, port = new_directory(), free_port()
    file = directory / "settings.ini"
    server = postgres.cluster.primary.port
    file.write_text(
        SETTINGS.format(server=server, port=port, directory=directory), encoding="utf-8"
    )
    own(directory)
    own(file)
    process = subprocess.Popen([PROGRAM, "-q", file], **identity())
    try:
        wait_for(process, port)
        yield f"postgresql://postgres@127.0.0.1:{port}/{postgres.name}"
    finally:
        process.kill()
        process.wait(HANG)
        shutil.rmtree(directory)


def wait_for(process, port):
    """Wait until a port is listened at."""

    def listens():
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            assert process.poll() is None
            return False
        return True

    eventually(listens)


def submit(number):
    """Return changes that submit one operation."""
    items = [[f"op-{number}", ["k"], 999, 1, "", Raw(b"\xc0")]]
    return changes_of(operations=[OperationBatch(number, "c", 1, items)])


def test_groups_and_reads(url, postgres):
    """They work as over a session of one's own, also after the pool's sessions were ended."""
    store = open_store(url)
    for number in range(1, 21):
        store.commit(submit(number))
        if number % 5 == 0:
            assert len(list(store.operations())) == number
    postgres.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    assert len(list(store.operations())) == 20
    take_over(url)
    with pytest.raises(StoreFenced):
        store.commit(changes_of(delete_operations=[1]))
    assert len(list(store.operations())) == 20
    store.close()


def test_a_group_half_sent(url):
    """Names reach the database, so its session is found and ended there."""
    lease = take_over(url)
    row = PostgresLeaseRow(url, "", "b", "tcp://b:1", timeout_s=30)
    seen = row.look()
    name = f"purgatory:purgatory:1:{lease.holder}"
    half_sent = psycopg.connect(url, application_name=name, prepare_threshold=None)
    half_sent.execute("UPDATE purgatory.lease SET commits = commits + 1")
    with pytest.raises(LeaseLocked):
        row.raise_epoch(seen)
    assert row.end_sessions_of(seen) >= 1
    taken = row.raise_epoch(seen)
    assert (taken.epoch, taken.commits) == (2, 0)
    half_sent.close()
    row.close()
