"""Web servers with a page of a purgatory that has nothing to do."""

import contextlib
import http.client

from prometheus_client import CollectorRegistry

from purgatory.service.http.server import WebServer
from purgatory.service.http.snapshot import StatusReader
from tests.testing.purgatory_harness import HANG, PurgatoryHarness


@contextlib.contextmanager
def serve(bind="127.0.0.1:0", **others):
    """Run a web server of a purgatory that has nothing to do."""
    with contextlib.closing(PurgatoryHarness(registry=CollectorRegistry()).purgatory) as purgatory:
        with WebServer(
            bind,
            status=StatusReader(purgatory),
            registry=purgatory._registry,
            health=str,
            ready=str,
            **others,
        ) as web:
            yield web


def status(web, path="/healthz", host=None):
    """Return the status of a response; `host`: what the request calls the server."""
    connection = http.client.HTTPConnection(web.addr, web.port, timeout=HANG)
    with contextlib.closing(connection):
        connection.request("GET", path, headers={} if host is None else {"Host": host})
        return connection.getresponse().status
