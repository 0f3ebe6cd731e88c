"""Fixtures for the tests of the commands: servers in this process."""

import socket

import pytest

from purgatory.service import Config
from purgatory.service.daemon import ServiceDaemon
from tests.testing.purgatory_harness import HANG
from tests.testing.servers import connect, no_thread_is_left, peer, serve, server

__all__ = ["connect", "no_thread_is_left", "peer", "serve", "server"]


@pytest.fixture
def service(tmp_path):
    """A service on free ports, with its data on disk."""
    config = Config(data_dir=tmp_path / "data", bind="tcp://127.0.0.1:0", http_bind="127.0.0.1:0")
    with ServiceDaemon(config) as service:
        yield service


@pytest.fixture
def at(service, monkeypatch):
    """Make the service the default of all commands; the terminal is wide enough for tables."""
    monkeypatch.setenv("PURGATORY_ADDRESS", service.server.address)
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def service_manager(tmp_path, monkeypatch):
    """The socket on which systemd hears of the states of programs that start meanwhile."""
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(HANG)
        yield manager
