"""The fixtures of the client's tests."""

import threading
import time

import pytest
import zmq

from purgatory.service.encoding import decode_request, encode
from purgatory.service.protocol import VERSION, Hello, Welcome
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import limits


@pytest.fixture
def no_sleep(monkeypatch):
    """Make `time.sleep` fail, except in the threads that ran before: py4j has one that sleeps."""
    others = set(threading.enumerate()) - {threading.current_thread()}
    sleep = time.sleep

    def refuse(seconds):
        assert threading.current_thread() in others, f"slept for {seconds} s"
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", refuse)


class FakeServer:
    """Answers what a test tells it to."""

    def __init__(self):
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        port = self.router.bind_to_random_port("tcp://127.0.0.1")
        self.address = f"tcp://127.0.0.1:{port}"

    def restart(self):
        """End all connections, and accept new ones at the same address."""
        self.router.close(0)
        self.router = self.context.socket(zmq.ROUTER)
        eventually(self._bind)

    def _bind(self):
        """Bind the address, unless the old socket still has it."""
        try:
            self.router.bind(self.address)
        except zmq.ZMQError:
            return False
        return True

    def receive(self):
        """Return the next request; greets."""
        while True:
            assert self.router.poll(HANG * 1000)
            self.route, frame = self.router.recv_multipart()
            request = decode_request(frame)
            if not isinstance(request, Hello):
                return request
            self.greet(request)

    def greet(self, hello):
        """Welcome the client."""
        self.send(Welcome(hello.seq, VERSION, "fake", limits()))

    def send(self, message):
        """Send the client a message."""
        self.router.send_multipart([self.route, encode(message)])


@pytest.fixture
def fake():
    made = FakeServer()
    yield made
    made.router.close(0)
    made.context.term()
