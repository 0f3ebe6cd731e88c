"""The server as a whole, in this process: start, end, and what may keep it from either."""

import sqlite3
import threading

import pytest
from prometheus_client import CollectorRegistry

from purgatory import StoreError
from purgatory.service import Config, Server, ServerError, StoreFailed, Unavailable
from purgatory.service.store.store import JournalPosition, Store
from tests.testing.failing_disk import DiskFaults
from tests.testing.purgatory_harness import HANG


def failing(faults):
    """Parts of a server whose disk obeys ``faults``."""
    return {"open_store": lambda path: Store(path, connect=faults.connect)}


def test_its_threads_have_names_and_an_end(serve):
    """And it may be closed twice."""
    server = serve()
    names = {thread.name for thread in threading.enumerate()}
    assert {"service-network", "service-store"} <= names
    server.close()
    server.close()
    assert server.wait(0)
    assert server.failure is None
    assert not {"service-network", "service-store"} & {t.name for t in threading.enumerate()}


def test_it_starts_once(serve):
    """Another one is to be made."""
    server = serve(memory=True)
    with pytest.raises(ServerError, match="was started before"):
        server.start()


def test_before_the_start(tmp_path):
    """There is nothing to be told, and nothing to close."""
    server = Server(Config(data_dir=tmp_path))
    with pytest.raises(ServerError, match="was not started"):
        server.stats()
    server.close()


def test_two_servers_cannot_have_the_same_data(serve):
    """The second is refused; when the first has ended it may start."""
    first = serve()
    with pytest.raises(ServerError, match="another server has its data there"):
        serve()
    first.close()
    serve()


def test_a_directory_that_cannot_be_written(serve, tmp_path):
    """Is named."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file: cannot write there"):
        serve(data_dir=tmp_path / "file")


def test_a_damaged_database_is_not_served(serve, tmp_path):
    """And is left for who may mend it."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "purgatory.db").write_bytes(b"rubbish" * 1000)
    with pytest.raises(StoreError, match=r"purgatory\.db.*not a database"):
        serve()


def test_in_memory_nothing_is_written(serve, tmp_path):
    """Not even a directory."""
    server = serve(memory=True)
    assert server.stats().store_bytes == 0
    assert not (tmp_path / "data").exists()


def test_figures(serve, connect):
    """Of the server and, in its registry, of its purgatory and timer."""
    registry = CollectorRegistry()
    server = serve({"registry": registry})
    client = connect(server, name="me")
    client.defer("a", timeout=60)
    client.defer("b", timeout=60)
    client.flush()
    client.complete("a")
    stats = server.stats()
    assert (stats.pending, stats.submitted, stats.completed, stats.connections) == (1, 2, 1, 1)
    assert stats.commits >= 2
    assert stats.commit_seconds > 0
    assert stats.store_bytes > 0
    assert client.stats()["submitted"] == 2
    assert registry.get_sample_value("purgatory_operations_pending", {"name": "service"}) == 1
    assert registry.get_sample_value("timingwheel_timers_pending", {"name": "service"}) == 1
    assert server.timer.stats().pending == server.purgatory.delayed == 1
    server.close()
    assert registry.get_sample_value("purgatory_operations_pending", {"name": "service"}) is None


def test_a_full_disk_is_told_and_passes(serve, connect):
    """Nothing was acknowledged, and nothing acknowledged is lost."""
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
    assert server.stats().commit_failures == 2


def test_a_disk_that_cannot_be_relied_on(serve, connect):
    """Ends the server, which says why; the client waits for the next one."""
    faults = DiskFaults()
    server = serve(failing(faults))
    ended = threading.Event()
    server.on_end(ended.set)
    client = connect(server)
    client.stats()
    faults.fail(code=sqlite3.SQLITE_IOERR, words="disk I/O error")
    with pytest.raises(StoreFailed, match="disk I/O error"):
        client.defer("k").result(HANG)
    assert server.wait(HANG)
    assert ended.is_set()
    assert "disk I/O error" in str(server.failure)
    faults.clear()
    server.close()
    bind = server.address
    serve(bind=bind)
    assert client.complete("k") == 0


def test_ending_answers_what_is_in_flight(serve, connect):
    """What was answered is there after a restart, all else is asked again."""
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
    """Calls whoever asked for it."""
    server = serve(memory=True)
    calls = []
    server.on_reload(lambda: calls.append(1))
    server.reload()
    assert calls == [1]


class Rows:
    """A sink that keeps what it is given."""

    def __init__(self, position):
        self.position = position
        self.rows = []
        self.closed = 0

    def start(self, source, confirm):
        return self.position

    def write(self, operations, outcomes):
        assert not self.closed
        self.rows += [*operations, *outcomes]

    def close(self):
        self.closed += 1


def test_the_journal_is_closed_after_the_last_row(serve, connect):
    """Perhaps twice, which does no harm; and never before."""
    sink = Rows(JournalPosition(0, 0))
    server = serve({"sink": sink})
    client = connect(server)
    future = client.defer("k", kind="pay")
    client.flush()
    client.complete("k")
    future.result(HANG)
    server.close()
    assert [kind for _, _, kind, *_ in sink.rows] == ["pay", "pay"]
    assert sink.closed
