"""The metrics of a worker, while it runs."""

import threading
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from purgatory.metrics import MetricsError
from purgatory.service import Client
from purgatory.service.worker.lease_returns import WorkerCounts
from purgatory.service.worker.worker import Worker
from purgatory.service.worker.worker_metrics import WorkerCollector, checked_port
from tests.testing.eventually import eventually
from tests.testing.odd_numbers import LyingInt
from tests.testing.purgatory_harness import HANG


def scrape(port):
    """Return the samples at a port, by name and label values."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {
            (sample.name, *sample.labels.values()): sample.value
            for family in families
            for sample in family.samples
        }


def test_while_it_runs(serve):
    """Attempts by outcome, handlers that run, and the process; nothing answers afterwards."""
    server = serve()
    go = threading.Event()
    worker = Worker(server.address, name="shop", metrics_port=0, concurrency=3, max_attempts=1)

    @worker.on("mail")
    def mail(job):
        if job.payload == "bad":
            raise ValueError(job.payload)
        assert go.wait(HANG)

    with Client(server.address, name="shop", timeout=HANG) as client:
        client.schedule(0, kind="mail", payload="bad")
        client.schedule(0, kind="mail", payload="good")
        with worker:
            eventually(lambda: worker.counts.failed and worker.running)
            found = scrape(worker.metrics_port)
            assert found["purgatory_worker_running_handlers",] == 1
            assert found["purgatory_worker_concurrency",] == 3
            assert found["purgatory_worker_attempts_total", "failed"] == 1
            assert found["process_resident_memory_bytes",] > 0
            go.set()
            eventually(lambda: worker.counts.done)
            assert scrape(worker.metrics_port)["purgatory_worker_attempts_total", "done"] == 1
    with pytest.raises(urllib.error.URLError):
        scrape(worker.metrics_port)


def test_without_a_port_nothing_is_served(serve):
    """That is the default."""
    assert Worker(serve().address, name="shop").metrics_port is None


def test_a_port_that_is_set_later(serve):
    """The next run serves there, at an address that the worker checks."""
    worker = Worker(serve().address, name="shop")
    worker.on("mail")(print)
    with pytest.raises(TypeError, match="addr is 5"):
        worker.serve_metrics_at(0, 5)
    worker.serve_metrics_at(0)
    with worker:
        eventually(lambda: worker.metrics_port)
        assert scrape(worker.metrics_port)["purgatory_worker_running_handlers",] == 0


def test_a_port_that_is_taken(serve):
    """The worker does not run, and says so."""
    first = Worker(serve().address, name="shop", metrics_port=0)
    first.on("mail")(print)
    with first:
        eventually(lambda: first.metrics_port)
        second = Worker(first.address, name="shop", metrics_port=first.metrics_port)
        second.on("mail")(print)
        with pytest.raises(MetricsError, match=f":{first.metrics_port}"):
            second.run()


@pytest.mark.parametrize(
    ("port", "error"),
    [("80", TypeError), (True, TypeError), (-1, ValueError), (65_536, ValueError)],
)
def test_bad_ports(port, error):
    """They are refused with what is expected."""
    with pytest.raises(error, match=r"metrics_port is .*; expected"):
        checked_port(port)


def test_an_int_of_any_class():
    """A subclass of int may compare as it likes; the system takes its port as a plain int."""
    assert type(checked_port(LyingInt(80))) is int
    assert checked_port(LyingInt(80)) == 80


def test_help():
    """Each metric has a help text of its own."""
    found = list(WorkerCollector(WorkerCounts(), lambda: 2, 4).collect())
    assert [(family.name, family.type) for family in found] == [
        ("purgatory_worker_attempts", "counter"),
        ("purgatory_worker_running_handlers", "gauge"),
        ("purgatory_worker_concurrency", "gauge"),
    ]
    assert len({family.documentation for family in found} - {""}) == len(found)
