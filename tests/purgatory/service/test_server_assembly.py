"""ServerAssembly: a server with its journal and its figures, without HTTP."""

import pytest

from purgatory.service import Client, Config
from purgatory.service.errors import ConfigError
from purgatory.service.server_assembly import ServerAssembly
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def settings(tmp_path):
    """Usual settings."""
    return {"data_dir": tmp_path / "data", "bind": "tcp://127.0.0.1:*", "http_bind": "127.0.0.1:0"}


def test_figures_without_http(settings):
    """The metrics and the page's data are those of the server, also of the others if told."""
    config = Config(**settings, memory=True)
    assembly = ServerAssembly(config, None, cluster=lambda: {"role": "active"})
    assembly.start()
    try:
        with Client(assembly.server.address, timeout=HANG) as client:
            client.defer("k", timeout=60)
            client.flush()
            state = assembly.status().read()
        assert (state["pending"], state["cluster"]) == (1, {"role": "active"})
        assert state["operations"]["next"][0]["client"]
        registry = assembly.server.registry
        assert registry.get_sample_value("purgatory_server_submitted_total") == 1
        assert registry.get_sample_value("purgatory_journal_failures_total") is None
    finally:
        assembly.server.close()


def test_the_journal(settings):
    """It is there unless the settings say otherwise, and has its figures."""
    assembly = ServerAssembly(Config(**settings), None)
    assembly.start()
    assembly.server.close()
    registry = assembly.server.registry
    assert registry.get_sample_value("purgatory_journal_failures_total") == 0
    with pytest.raises(ConfigError, match="journal_seconds is 0"):
        ServerAssembly(Config(**settings, journal_seconds=0), None)


def test_a_page_that_others_can_ask(settings):
    """It shows no operations."""
    config = Config(**settings | {"http_hosts": "purgatory.example"}, memory=True)
    assembly = ServerAssembly(config, None)
    assembly.start()
    assert assembly.status().read()["operations"] is None
    assembly.server.close()
