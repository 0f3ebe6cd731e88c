"""ServiceDaemon: the server with its journal, page and metrics."""

import json
import socket
import threading
import urllib.error
import urllib.request

import pyarrow.dataset
import pytest

from purgatory.service import Client, Config
from purgatory.service.daemon import ServiceDaemon
from purgatory.service.errors import StoreFailed
from purgatory.service.server import server_health
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.failing_disk import DiskFaults
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def service(tmp_path):
    """A service on free ports, with its data on disk."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
    with ServiceDaemon(config) as service:
        yield service


def test_bad_arguments():
    """They raise before anything is opened."""
    with pytest.raises(TypeError, match="config is 5; expected a Config"):
        ServiceDaemon(5)
    with pytest.raises(TypeError, match="announce is 5; expected a function"):
        ServiceDaemon(Config(memory=True), 5)


def read(url):
    """Return the page at a URL."""
    with urllib.request.urlopen(url, timeout=HANG) as answer:
        return answer.read().decode()


def ids(config, table):
    """Return the operation ids in a table of the journal."""
    found = pyarrow.dataset.dataset(
        config.journal_dir / table, format="parquet", partitioning="hive"
    )
    return found.to_table().column("op_id").to_pylist()


def test_page_and_metrics(service):
    """The page shows the server's figures; `/metrics` has those of purgatory and server."""
    with Client(service.server.address) as client:
        client.defer("k", timeout=60)
        client.flush()
        state = json.loads(read(service.url + "state.json"))
        assert (state["name"], state["pending"]) == ("service", 1)
        assert state["service"]["connections"] == 1
        assert abs(state["now_ms"] - service.server.now_ms()) < 60_000
    text = read(service.url + "metrics")
    assert 'purgatory_operations_pending{name="service"} 1.0' in text
    assert "purgatory_server_submitted_total 1.0" in text
    assert read(service.url + "readyz") == "ok\n"


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
@pytest.mark.parametrize("host", ["[::1]", "[::]"])
def test_addresses_of_ipv6(host):
    """Server, page and client take an IPv6 address in brackets; `[::]` is for IPv4, too."""
    config = Config(memory=True, bind=f"tcp://{host}:0", http_bind=f"{host}:0", insecure=True)
    with ServiceDaemon(config) as service:
        port = service.server.address.rpartition(":")[2]
        for each in ["[::1]"] if host == "[::1]" else ["[::1]", "127.0.0.1"]:
            with Client(f"tcp://{each}:{port}", timeout=HANG) as client:
                assert client.complete("k") == 0
        assert read(service.url.replace("[::]", "[::1]") + "readyz") == "ok\n"


def test_the_journal_is_complete_in_the_end(tmp_path):
    """Over several restarts each operation and each outcome is written once."""
    config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="")
    for run in range(3):
        with ServiceDaemon(config) as service, Client(service.server.address) as client:
            futures = [client.defer(f"{run}-{n}", timeout=HANG) for n in range(20)]
            assert service.url == ""
            for n in range(run, 20):
                client.complete(f"{run}-{n}")
            for future in futures[run:]:
                future.result(HANG)
    assert len(ids(config, "operations")) == 60
    assert len(set(ids(config, "operations"))) == 60
    assert len(set(ids(config, "outcomes"))) == len(ids(config, "outcomes")) == 57


def test_nothing_on_disk(tmp_path):
    """With `memory` there is no journal either."""
    config = Config(data_dir=tmp_path / "x", memory=True, bind="tcp://127.0.0.1:0",
                    http_bind="")  # fmt: skip
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        client.defer("k").cancel()
    assert not (tmp_path / "x").exists()


def test_a_start_that_fails_leaves_nothing(tmp_path):
    """It leaves neither threads nor locks: the next start succeeds."""
    before = set(threading.enumerate())
    config = Config(data_dir=tmp_path, bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for options in (
            {"http_bind": f"127.0.0.1:{port}"},
            {"bind": f"tcp://127.0.0.1:{port}"},
        ):
            broken = Config(data_dir=tmp_path, **{"bind": "tcp://127.0.0.1:0"} | options)
            with pytest.raises(Exception, match="in use"):
                ServiceDaemon(broken).start()
            assert set(threading.enumerate()) <= before
    ServiceDaemon(config).close()
    with ServiceDaemon(config):
        pass
    assert set(threading.enumerate()) <= before


class TestHealth:
    """What the disk does is in /readyz, the state and the metrics, while the process works."""

    @pytest.fixture
    def faults(self):
        """What the disk of the service does."""
        faults = DiskFaults()
        yield faults
        faults.clear()

    @pytest.fixture
    def service(self, tmp_path, faults):
        config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0",
                        http_bind="127.0.0.1:0")  # fmt: skip
        service = ServiceDaemon(config)
        service.server._open_store = lambda path: SqliteStore(path, connect=faults.connect)
        with service:
            yield service
            faults.clear()

    def test_a_full_disk(self, service, faults):
        """It shows with the first commit that fails, and passes though no client asks again."""
        with Client(service.server.address) as client:
            faults.fail()
            with pytest.raises(StoreFailed):
                client.defer("k").result(HANG)
            words = wait_for(service, lambda words: words != "ok\n")
            assert words.startswith("commits have failed for ")
            assert "database or disk is full" in words
            assert read(service.url + "healthz") == "ok\n"
            assert client.stats()["ready"] == 0
            assert json.loads(read(service.url + "state.json"))["health"]["not_ready"]
            assert "purgatory_server_ready 0.0" in read(service.url + "metrics")
            faults.clear()
            wait_for(service, lambda words: words == "ok\n")

    def test_a_disk_that_hangs(self, service, faults, monkeypatch):
        """A commit that does not return shows when the bound has passed; stats still answer."""
        monkeypatch.setattr(server_health, "READY_BOUND_S", 0.2)
        with Client(service.server.address) as client:
            faults.hang()
            future = client.defer("k", timeout=HANG)
            assert faults.hangs.wait(HANG)
            words = wait_for(service, lambda words: words != "ok\n")
            assert "the disk hangs" in words
            assert read(service.url + "healthz") == "ok\n"
            monkeypatch.setattr(server_health, "STUCK_S", 0.1)
            assert "a transaction has not ended" in words_of(service, "healthz")
            faults.clear()
            client.complete("k", 1)
            assert future.result(HANG) == 1
            wait_for(service, lambda words: words == "ok\n")


def words_of(service, path):
    """Return what a check answers, whatever its status."""
    try:
        return read(service.url + path)
    except urllib.error.HTTPError as error:
        with error:
            return error.read().decode()


def wait_for(service, fits):
    """Ask whether the service is ready until the answer fits; returns that."""
    while not fits(words := words_of(service, "readyz")):
        pass
    return words
