"""The figures of a server, its journal and its process, as Prometheus reads them."""

import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from purgatory.service import Client, Config
from purgatory.service.daemon import ServiceDaemon
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def service(tmp_path):
    """A service with its data on disk."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
    with ServiceDaemon(config) as service:
        yield service


def read(service):
    """Return the samples of a scrape by their name and the values of their labels."""
    with urllib.request.urlopen(service.url + "metrics", timeout=HANG) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *sample.labels.values()): sample
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_of_process_journal_and_clients(service):
    """There is what a dashboard needs besides the purgatory's own figures."""
    with (
        Client(service.server.address, name="a") as a,
        Client(service.server.address, name="b") as b,
    ):
        for n in range(3):
            a.defer(f"k{n}", timeout=60)
        b.defer("k", timeout=60)
        a.flush()
        b.flush()
        # The server answers first, then gives the journal its rows.
        eventually(lambda: read(service)["purgatory_journal_waiting_rows",].value == 4)
        samples = read(service)
    [build] = [sample for name, sample in samples.items() if name[0] == "purgatory_build_info"]
    assert build.labels.keys() == {"version", "protocol", "python"}
    assert samples["process_resident_memory_bytes",].value > 0
    assert samples["purgatory_server_clients",].value == 2
    assert samples["purgatory_server_largest_client",].value == 3
    commits = samples["purgatory_server_commits_total",].value
    assert samples["purgatory_server_commit_duration_seconds_bucket", "+Inf"].value == commits > 0
    assert samples["purgatory_server_commit_duration_seconds_count",].value == commits
