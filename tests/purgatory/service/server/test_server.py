"""The server as a whole, in this process: start, close, and what may fail."""

import sqlite3
import threading

import pytest

from purgatory import StoreError
from purgatory.service import Client, Config, Server, ServerError, StoreFailed, Unavailable
from purgatory.service.server import server_health
from purgatory.service.server.commands import CloseServer
from purgatory.service.store.sqlite import migrations
from purgatory.service.store.sqlite.migrations import run_statements
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.purgatory.service.store.sqlite.test_schema import DUMPS
from tests.testing.eventually import eventually
from tests.testing.failing_disk import DiskFaults
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import RecordingSink


def failing(faults):
    """Return arguments of a server with the disk of `faults`."""
    return {"open_store": lambda path: SqliteStore(path, connect=faults.connect)}


def test_its_threads_have_names_and_an_end(serve):
    """`close` ends both threads, and is idempotent."""
    server = serve()
    names = {thread.name for thread in threading.enumerate()}
    assert {"service-network", "service-store"} <= names
    server.close()
    server.close()
    assert server.wait(0)
    assert server.failure is None
    assert not {"service-network", "service-store"} & {t.name for t in threading.enumerate()}


def test_a_store_that_does_not_end(serve, monkeypatch, caplog):
    """The server is not closed, and says so, while its store thread uses the database."""
    server = serve(memory=True)
    with monkeypatch.context() as hanging:
        hanging.setattr(server._store_thread, "ended", lambda: False)
        server.close()
        assert not server.is_closed
    assert "have not ended within" in caplog.text
    server.close()
    assert server.is_closed


def test_it_starts_once(serve):
    """Starting a server again is an error."""
    server = serve(memory=True)
    with pytest.raises(ServerError, match="was started before"):
        server.start()


def test_before_the_start(tmp_path):
    """Before the start there are no stats, and `close` does nothing."""
    server = Server(Config(data_dir=tmp_path))
    with pytest.raises(ServerError, match="was not started"):
        server.stats()
    server.close()


def test_how_far_a_start_is(tmp_path):
    """First the database is opened; then what is read is counted; at last there is no more."""
    server = Server(Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0"))
    assert server.start_progress().startswith("opening the database")
    with server:
        assert server.start_progress() == ""
        with Client(server.address, timeout=HANG) as client:
            for n in range(3):
                client.submit(f"k{n}", timeout=3600)
    late = Server(Config(data_dir=tmp_path, bind="nonsense"))
    expected = "cannot listen at nonsense: Invalid argument; expected tcp://HOST:PORT or ipc://"
    with pytest.raises(ServerError, match=expected):
        late.start()
    assert late.start_progress() == "3 operations and jobs are read"


def test_how_far_a_migration_is(tmp_path, monkeypatch):
    """A start on a database of an earlier version says how much of it is copied."""
    connection = sqlite3.connect(tmp_path / "purgatory.db")
    connection.executescript(DUMPS[1])
    connection.close()
    tmp_path.chmod(0o700)
    server, told = Server(Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0")), []

    def run(connection, statements):
        told.append(server.start_progress())
        run_statements(connection, statements)

    monkeypatch.setattr(migrations, "run_statements", run)
    with server:
        assert set(told) == {"0 of 0 MiB are copied, of a database of version 1"}


def test_two_servers_cannot_have_the_same_data(serve):
    """The second cannot start until the first is closed."""
    first = serve()
    with pytest.raises(ServerError, match="another server has its data there"):
        serve()
    first.close()
    serve()


def test_a_directory_that_cannot_be_written(serve, tmp_path):
    """The error names the directory."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file: cannot write there"):
        serve(data_dir=tmp_path / "file")


def test_a_damaged_database_is_not_served(serve, tmp_path):
    """The error names the file, which is left as it is."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "purgatory.db").write_bytes(b"rubbish" * 1000)
    with pytest.raises(StoreError, match=r"purgatory\.db.*not a database"):
        serve()


def test_in_memory_nothing_is_written(serve, tmp_path):
    """Not even a directory is made."""
    server = serve(memory=True)
    assert server.stats().store_bytes == 0
    assert not (tmp_path / "data").exists()


def test_a_full_disk_is_told_and_passes(serve, connect):
    """Requests are refused while the disk is full; nothing committed is lost."""
    faults = DiskFaults()
    server = serve(failing(faults))
    client = connect(server)
    kept = client.defer("kept", timeout=HANG)
    client.flush()
    faults.fail()
    with pytest.raises(StoreFailed, match="database or disk is full"):
        client.complete("kept", 1)
    assert isinstance(client.defer("lost").exception(HANG), StoreFailed)
    faults.clear()
    assert client.complete("lost") == 0
    assert client.complete("kept", 2) == 1
    assert kept.result(HANG) == 2
    assert server.stats().commit_failures >= 2


def test_a_disk_that_cannot_be_relied_on(serve, connect):
    """The server ends, with a reason, and does not answer; the client asks the next server."""
    faults = DiskFaults()
    server = serve(failing(faults))
    ended = threading.Event()
    server.on_end(ended.set)
    client = connect(server)
    client.stats()
    faults.fail(code=sqlite3.SQLITE_IOERR, message="disk I/O error")
    future = client.defer("k")
    assert server.wait(HANG)
    assert ended.wait(HANG)  # the server has ended before it says so to others
    assert "disk I/O error" in str(server.failure)
    faults.clear()
    server.close()
    bind = server.address
    serve(bind=bind)
    client.flush(HANG)
    assert client.complete("k", 7) == 1
    assert future.result(HANG) == 7


def test_ending_answers_what_is_in_flight(serve, connect):
    """What was answered is there after a restart; the client sends the rest again."""
    server = serve()
    client = connect(server, name="me")
    futures = [client.defer(f"k{n}", timeout=3600) for n in range(3000)]
    server.close()
    second = serve(bind=server.address)
    client.flush()
    assert all(future.acknowledged for future in futures)
    assert second.stats().pending == 3000
    client.close()
    assert all(isinstance(future.exception(0), Unavailable) for future in futures)


def test_reload(serve):
    """A reload calls the callbacks."""
    server = serve(memory=True)
    calls = []
    server.on_reload(lambda: calls.append(1))
    server.reload()
    assert calls == [1]


def test_the_journal_is_closed_after_the_last_row(serve, connect):
    """The journal gets each row before it is closed."""
    sink = RecordingSink()
    server = serve({"sink": sink})
    client = connect(server)
    future = client.defer("k", kind="pay")
    client.flush()
    client.complete("k")
    future.result(HANG)
    server.close()
    assert [row.kind for row in sink.operations + sink.outcomes] == ["pay", "pay"]
    assert sink.closed


def test_a_server_that_is_told_to_fail(serve):
    """It ends by itself, soon, and says why."""
    server = serve(memory=True)
    server.fail(StoreError("another server has the data", fatal=True))
    assert server.wait(HANG)
    assert "another server" in str(server.failure)
    assert "another server" in server.health().broken


def test_a_store_that_waits_for_its_database(serve, connect, monkeypatch):
    """The server works, and is not ready: whatever restarts servers cannot help."""
    faults = DiskFaults()
    server = serve(failing(faults))
    client = connect(server)
    monkeypatch.setattr(server_health, "STUCK_S", 0.0)
    monkeypatch.setattr(server_health, "READY_BOUND_S", 0.0)
    faults.hang()
    call = client.complete_later("key", hold=60)
    eventually(lambda: server.health().broken.startswith("a transaction has not ended"))
    monkeypatch.setattr(server._store, "waits_for", lambda: "db: refused")
    report = server.health()
    assert report.broken == ""
    assert "for the database db: refused" in report.not_ready
    faults.clear()
    assert call.result(HANG) == 0


def test_a_server_answers_nothing_while_its_guard_forbids_it(serve, connect):
    """A request is carried out, and answered once the guard allows it."""
    allowed = threading.Event()
    allowed.set()
    server = serve({"guard": allowed.is_set}, memory=True)
    client = connect(server)
    client.submit("key", timeout=60)
    allowed.clear()
    reply = client.complete_later("key")
    with pytest.raises(TimeoutError):
        reply.result(0.2)
    allowed.set()
    assert reply.result(HANG) == 1


def test_a_second_close_gives_no_more_time(serve, connect):
    """A frozen process may find both when it goes on; its guard lets no answer leave any more."""
    held, goes_on = threading.Event(), threading.Event()

    def guard():
        held.set()
        goes_on.wait(HANG)
        return not goes_on.is_set()

    server = serve({"guard": guard}, memory=True)
    connect(server)  # says hello
    assert held.wait(HANG)
    for seconds in (0, 10 * HANG):
        server._parts.network.mailbox.send(CloseServer(seconds))
    goes_on.set()
    assert server.wait(HANG)
