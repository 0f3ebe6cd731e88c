"""Gateways in this process, at free ports, before a server that keeps nothing on disk."""

import contextlib
import threading

import httpx
import pytest

from purgatory.service.auth.access import Access
from purgatory.service.auth.token_store import TokenStore
from purgatory.service.gateway.callers import Connector
from purgatory.service.gateway.server import Gateway, TLSFiles
from tests.testing.purgatory_harness import HANG


class RunningGateway:
    """A gateway in a thread, and what a program sends it."""

    def __init__(self, address, directory, **others):
        self.tokens = TokenStore(directory)
        self.gateway = Gateway(
            **{
                "bind": "127.0.0.1:0",
                "tokens": self.tokens,
                "connector": Connector(address, {"timeout": HANG}),
                "tls": TLSFiles(None, None),
            }
            | others,
        )
        self.url = self.gateway.url
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self.gateway.run, args=[self._listens.set])

    def __enter__(self):
        self._thread.start()
        assert self._listens.wait(HANG)
        return self

    def __exit__(self, *_):
        self.gateway.stop()
        self.wait()

    def wait(self):
        """Wait until it has ended."""
        self._thread.join(HANG)
        assert not self._thread.is_alive()

    def program(self, name="shop", rights=("submit", "complete", "read", "work"), **others):
        """Return what sends requests with a new token."""
        token = self.tokens.new(Access(name, rights=rights))
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=HANG, **others)


@pytest.fixture
def start(server, tmp_path):
    """Start gateways: `start(**arguments of Gateway)`."""
    with contextlib.ExitStack() as stack:

        def make(address=server.address, **others):
            return stack.enter_context(RunningGateway(address, tmp_path / "keys", **others))

        yield make


@pytest.fixture
def gateway(start):
    """A gateway."""
    return start()


@pytest.fixture
def shop(gateway):
    """A program with a token of the client "shop"."""
    with gateway.program() as program:
        yield program
