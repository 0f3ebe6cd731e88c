"""Reception: what a message becomes, beside what the tests of the network show."""

import pytest
import zmq

from purgatory.service.config import Config
from purgatory.service.protocol import VERSION, Hello, Query, Stats, decode_answer, encode
from purgatory.service.server.network.connections import Connections
from purgatory.service.server.network.reception import Reception
from purgatory.service.server.validation import RequestValidator, limits_of
from tests.testing.fake_router import FakeRouter


@pytest.fixture
def socket():
    return FakeRouter()


@pytest.fixture
def reception(socket):
    connections = Connections(socket, [].append, lambda: 0.0)
    validator = RequestValidator(limits_of(Config()))
    return Reception(validator, connections, [].append, security=None, max_clients=9)


def take(reception, frame):
    """Have a message of the route `r` received."""
    reception.on_frame(b"r", zmq.Frame(frame), [], 0.0)


def test_what_a_peer_had_sent_before_it_went_is_not_answered(reception, socket):
    """Only that shows that it has gone: its first message is answered, in vain."""
    take(reception, encode(Stats(1)))
    assert [decode_answer(frame).code for frame in socket.sent] == ["hello"]
    socket.gone.add(b"r")
    take(reception, encode(Stats(2)))
    assert reception.refused == 2
    take(reception, encode(Stats(3)))
    assert reception.refused == 2
    socket.gone.clear()
    take(reception, encode(Hello(4, VERSION, "c")))
    take(reception, encode(Hello(5, VERSION, "c")))
    assert [decode_answer(frame).seq for frame in socket.sent] == [1, 5]


def test_what_a_stranger_sends_is_not_read(reception, socket):
    """A request without a hello is refused by its first bytes: the others cost nothing."""
    take(reception, encode(Stats(7)) + bytes(100))
    take(reception, encode(Query(8, ["a"] * 1000))[:20])
    answers = [decode_answer(frame) for frame in socket.sent]
    assert [(answer.seq, answer.code) for answer in answers] == [(7, "hello"), (8, "hello")]


def test_what_is_no_message_is_malformed(reception, socket):
    """Also without a hello, and a hello that is none."""
    for frame in (b"", b"\x05", b"\x92\x01\x02"):
        take(reception, frame)
    assert [decode_answer(frame).code for frame in socket.sent] == ["malformed"] * 3
