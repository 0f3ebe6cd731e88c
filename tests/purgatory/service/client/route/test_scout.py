"""Scout: it asks the others in turn, and tells which one would have the client."""

import pytest
import zmq

from purgatory.service.client.route.scout import ASK_S, Scout
from purgatory.service.encoding import encode
from purgatory.service.protocol import VERSION, Failure, Welcome
from tests.testing.step_server import limits

STANDBY = encode(Failure(1, "standby", "standby of tcp://a:7411"))
WELCOME = encode(Welcome(1, VERSION, "b", limits()))


class Socket:
    """Answers what a test tells it to, once it is connected."""

    def __init__(self):
        self.is_connected = True
        self.sent = []
        self.answers = []
        self.closed = False

    def send(self, frame, flags):
        """Take a frame, if there is a connection."""
        if not self.is_connected:
            raise zmq.Again
        self.sent.append(frame)

    def recv(self, flags):
        """Return the next answer."""
        if not self.answers:
            raise zmq.Again
        return self.answers.pop(0)

    def close(self, linger):
        """End it."""
        self.closed = True


@pytest.fixture
def sockets():
    return []


@pytest.fixture
def now():
    return [100.0]


@pytest.fixture
def look(sockets, now):
    def open_socket(address):
        sockets.append(Socket())
        return sockets[-1]

    scout = Scout(open_socket, lambda: now[0])

    def look(addresses=("b", "c")):
        return scout.look(addresses, lambda: b"hello")

    look.scout = scout
    return look


def test_one_that_would_have_us(look, sockets):
    """It says hello once, and knows a welcome, or any refusal but that of a standby."""
    assert not look()
    assert not look()
    assert (look.scout.address, sockets[0].sent) == ("b", [b"hello"])
    sockets[0].answers = [b"\xff", STANDBY, WELCOME]
    assert [look(), look(), look()] == [False, False, True]
    sockets[0].answers = [encode(Failure(1, "version", "another"))]
    assert look()


def test_each_in_turn(look, sockets, now):
    """One that says nothing, or is a standby, is left for the next; its socket is closed."""
    asked = []
    for _ in range(5):
        look()
        asked.append(look.scout.address)
        now[0] += ASK_S
    assert asked == ["b", "c", "b", "c", "b"]
    assert [socket.closed for socket in sockets] == [True] * 4 + [False]
    look.scout.close()
    look.scout.close()
    assert not look.scout.is_under_way
    assert sockets[-1].closed


def test_the_hello_waits_for_a_connection(look, sockets):
    """A socket that takes no frame yet gets it later."""
    look()
    sockets[0].sent.clear()
    sockets[0].is_connected = False
    look.scout._hello = b"hello"
    assert not look()
    sockets[0].is_connected = True
    assert not look()
    assert sockets[0].sent == [b"hello"]
