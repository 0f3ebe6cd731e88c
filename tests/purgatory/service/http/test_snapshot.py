"""What the page is told of operations: those that are due next, and what failed last."""

import contextlib
import json
import urllib.request

import pytest

from purgatory import Worker
from purgatory.service import Client, Config
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.daemon import ServiceDaemon
from purgatory.service.server import server_health
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


@contextlib.contextmanager
def service(**options):
    """A server with a page, a client of it, and what reads the operations of the page."""
    usual = {"memory": True, "bind": "tcp://127.0.0.1:0", "http_bind": "127.0.0.1:0"}
    with ServiceDaemon(Config(**usual | options)) as daemon:

        def operations():
            with urllib.request.urlopen(f"{daemon.url}state.json", timeout=HANG) as answer:
                return json.load(answer)["operations"]

        yield daemon.server.address, operations


def test_due_next():
    """The first ten, in order, however many there are."""
    with service() as (address, operations), Client(address, name="shop") as client:
        assert operations()["next"] == []
        for n in range(500):
            client.submit_later(f"k{n}", timeout=3600 - n, op_id=f"o{n}", kind="order")
        client.schedule(60, job_id="job", kind="mail")
        found = operations()["next"]
        assert [row["op_id"] for row in found] == ["job", *(f"o{n}" for n in range(499, 490, -1))]
        assert (found[0]["kind"], found[0]["client"]) == ("mail", "shop")
        assert abs(found[0]["due_ms"] - operations()["now_ms"] - 60_000) < HANG * 1000


def test_failed_last(monkeypatch):
    """Operations that failed, and attempts at jobs; the latest first, and no more than are kept."""
    monkeypatch.setattr(server_health, "ERROR_LENGTH", 30)
    with service() as (address, operations), Client(address, name="shop") as client:
        for n in range(12):
            client.submit(f"k{n}", op_id=f"o{n}")
            client.fail(f"k{n}", ValueError("no" * 20 * (n > 10)))
        worker = Worker(address, name="shop", max_attempts=2, retry_delay=0)

        @worker.on("mail")
        def run(job):
            raise KeyError("never")

        with worker:
            client.schedule(0, kind="mail", job_id="job")
            eventually(lambda: client.jobs_page(state="dead").jobs)
        found = operations()["failures"]
    assert [row["op_id"] for row in found] == ["job", "job", *(f"o{n}" for n in range(11, 3, -1))]
    assert [(row["attempt"], row["is_dead"]) for row in found[:3]] == [
        (2, True),
        (1, False),
        (0, False),
    ]
    assert found[0]["error"] == "KeyError: 'never'"
    assert found[2]["error"] == "ValueError: nononononononononono"[:30]
    assert found[3]["error"] == "ValueError"


@pytest.mark.parametrize("how", ["a proxy", "keys"])
def test_not_to_everybody(how, tmp_path):
    """Where callers reach the page that may not list operations, it shows none."""
    options = {"http_hosts": "purgatory.example"}
    if how == "keys":
        KeyStore(tmp_path / "keys").new("server")
        options = {"memory": False, "data_dir": tmp_path}
    with service(**options) as (_, operations):
        assert operations() is None


def test_what_everybody_sees():
    """Of jobs their kinds; of operations neither ids nor clients, at any path."""
    options = {"memory": True, "bind": "tcp://127.0.0.1:0", "http_bind": "127.0.0.1:0"}
    with (
        ServiceDaemon(Config(**options, http_hosts="purgatory.example")) as daemon,
        Client(daemon.server.address, name="shop-client") as client,
    ):
        client.defer("key-1", timeout=60, op_id="operation-1", kind="order-kind")
        client.schedule(60, job_id="job-1", kind="mail-kind")
        client.flush()
        for path in ("state.json", "history.json", "metrics", "healthz", "readyz"):
            with urllib.request.urlopen(f"{daemon.url}{path}", timeout=HANG) as answer:
                text = answer.read().decode()
            assert ("mail-kind" in text) == (path in {"state.json", "metrics"})
            hidden = ("key-1", "operation-1", "job-1", "shop-client", "order-kind")
            assert [word for word in hidden if word in text] == []
