"""Fixtures of the service's tests: servers and clients in this process, at free ports."""

import contextlib
import threading

import pytest
import zmq

from purgatory.service import Client, Config, Server
from purgatory.service.encoding import decode_answer, encode
from purgatory.service.protocol import VERSION, Hello, Welcome
from tests.testing.purgatory_harness import HANG

HANG_MS = int(HANG * 1000)


@pytest.fixture
def serve(tmp_path):
    """Make servers, closed at the end: `serve(**settings)`; `parts` are arguments of `Server`."""
    with contextlib.ExitStack() as stack:

        def make(parts=None, **settings):
            usual = {"data_dir": tmp_path / "data", "bind": "tcp://127.0.0.1:*", "http_bind": ""}
            return stack.enter_context(Server(Config(**usual | settings), **(parts or {})))

        yield make


@pytest.fixture
def server(serve):
    """A server that keeps nothing on disk."""
    return serve(memory=True)


@pytest.fixture
def connect():
    """Make clients, closed at the end: `connect(server)`, or `connect(address)`."""
    with contextlib.ExitStack() as stack:

        def make(server, **others):
            address = getattr(server, "address", server)
            return stack.enter_context(Client(address, **{"timeout": HANG} | others))

        yield make


class RawPeer:
    """A socket that sends a server any frames, valid or not."""

    def __init__(self, context, address, **options):
        self.socket = context.socket(zmq.DEALER)
        for name, value in {"LINGER": 0, **options}.items():
            self.socket.setsockopt(getattr(zmq, name), value)
        self.socket.connect(address)

    def send(self, *frames):
        """Send a message of some frames: bytes, or messages to encode."""
        self.socket.send_multipart(
            [frame if isinstance(frame, bytes) else encode(frame) for frame in frames]
        )

    def receive(self):
        """Return the next message."""
        assert self.socket.poll(HANG_MS), "no answer"
        return decode_answer(self.socket.recv())

    def ask(self, *frames):
        """Send, and return the answer."""
        self.send(*frames)
        return self.receive()

    def hello(self, name="peer"):
        """Say hello, and return the welcome."""
        answer = self.ask(Hello(1, VERSION, name))
        assert isinstance(answer, Welcome)
        return answer


@pytest.fixture
def peer():
    """Make raw peers, closed at the end: `peer(server)`."""
    context = zmq.Context()
    peers = []

    def make(server, **options):
        peers.append(RawPeer(context, server.address, **options))
        return peers[-1]

    yield make
    for one in peers:
        one.socket.close(0)
    context.term()


@pytest.fixture
def no_thread_is_left():
    """Check that the test ends with the threads that it began with."""
    before = set(threading.enumerate())
    yield
    left = [thread for thread in threading.enumerate() if thread not in before]
    assert not left, left
