"""The fixtures of the tests of repeats."""

import pytest

from tests.testing.repeat_server import DAY, RepeatServer


@pytest.fixture
def make_server(tmp_path):
    """Return a function that makes a server on disk with a client and a worker."""
    servers = []

    def make(start=None, **others):
        server = RepeatServer(tmp_path / f"{len(servers)}.db", start, **others)
        servers.append(server)
        server.hello()
        server.work(room=100, lease_ms=DAY)
        return server

    yield make
    for server in servers:
        server.store.close()


@pytest.fixture
def server(make_server):
    """A server that starts at the usual time."""
    return make_server()
