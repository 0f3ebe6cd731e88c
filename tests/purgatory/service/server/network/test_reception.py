"""Reception: what a message becomes, beside what the tests of the network show."""

from types import SimpleNamespace

import pytest
import zmq

from purgatory.service.auth.access import EVERYTHING
from purgatory.service.config import Config
from purgatory.service.encoding import decode_answer, encode
from purgatory.service.protocol import VERSION, Bye, Cancel, Hello, Query, Stats
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.network import reception as reception_module
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
    reception.on_frame(b"r", zmq.Frame(encode(Stats(7))), [b"", encode(Stats(8))], 0.0)
    answers = [decode_answer(frame) for frame in socket.sent]
    assert [answer.code for answer in answers] == ["malformed"] * 3 + ["hello"]
    take(reception, encode(Hello(9, VERSION, "c")))
    reception.on_frame(b"r", zmq.Frame(encode(Stats(7))), [b"", encode(Stats(8))], 0.0)
    answer = decode_answer(socket.sent[-1])
    assert (answer.seq, answer.code) == (8, "malformed")


def test_what_comes_to_a_server_that_closes(reception, socket):
    """It is refused, also a request for a change."""
    take(reception, encode(Hello(1, VERSION, "c")))
    reception.closing = True
    for request in (Stats(2), Cancel(3, ["a"])):
        take(reception, encode(request))
    answers = [decode_answer(frame) for frame in socket.sent]
    assert [(answer.seq, answer.code) for answer in answers] == [(2, "closing"), (3, "closing")]


class Posted:
    """A reception of a server that several clients use, and the requests that it has passed on."""

    def __init__(self, socket):
        self.requests = []
        self.connections = Connections(socket, [].append, lambda: 0.0)
        self.reception = Reception(
            RequestValidator(limits_of(Config())),
            self.connections,
            self.post,
            security=None,
            max_clients=9,
        )
        for name in ("bulk", "other"):
            self.take(name, Hello(1, VERSION, name))
        self.requests.clear()
        self.reception.waiting.begin(is_shared=True)

    def post(self, command):
        if isinstance(command, ClientRequest):
            self.requests.append((command.client, command.request.seq))

    def take(self, client, message):
        """Have a message of a client received."""
        self.reception.on_frame(client.encode(), zmq.Frame(encode(message), copy=True), [], 0.0)

    def take_waiting(self):
        """Have all taken that waits."""
        while self.reception.waiting.bytes:
            self.reception.take_waiting(0.0)


def large(seq):
    """Return a request that has to wait."""
    return Query(seq, ["a" * 100] * 100)


def test_a_small_request_overtakes_large_ones(socket):
    """Those of other clients; the requests of one client are passed on as they came."""
    posted = Posted(socket)
    for seq in (2, 3):
        posted.take("bulk", large(seq))
        posted.take("bulk", Stats(10 * seq))
    posted.take("other", Stats(2))
    assert posted.requests == [("other", 2)]
    posted.take_waiting()
    assert posted.requests[1:] == [("bulk", 2), ("bulk", 20), ("bulk", 3), ("bulk", 30)]


def test_what_waits_is_taken_as_if_it_came_then(socket):
    """It is refused if the client has gone, is refused as malformed, or if the server closes."""
    posted = Posted(socket)
    posted.take("other", large(2))
    posted.take("bulk", [99, 3, "x" * 5000])
    posted.take("bulk", large(4))
    posted.connections.drop(posted.connections.by_route.get(b"other"))
    posted.reception.closing = True
    posted.take_waiting()
    answers = [decode_answer(frame) for frame in socket.sent]
    assert {(one.seq, one.code) for one in answers} == {
        (2, "hello"),
        (3, "malformed"),
        (4, "closing"),
    }
    assert not posted.requests


def test_what_is_refused_by_its_size_does_not_wait(socket):
    """It would take more room than all else."""
    posted = Posted(socket)
    posted.take("bulk", Query(2, ["a"] * 1000))
    posted.take("bulk", Query(3, ["a" * 2_000_000]))
    codes = [decode_answer(frame).code for frame in socket.sent]
    assert codes == ["too-many-items", "too-large"]


def test_of_a_connection_that_came_anew_nothing_waits(socket):
    """What waits was of the one before, which had the same route: it is done no more."""
    posted = Posted(socket)
    posted.take("bulk", large(2))
    posted.connections.drop(posted.connections.by_route.get(b"bulk"))
    posted.take("bulk", Hello(3, VERSION, "new"))
    posted.take_waiting()
    assert not posted.requests
    assert not socket.sent


class UserFrame(zmq.Frame):
    """A frame of a user whose key is known."""

    user = ""

    def get(self, name):
        return self.user if name == "User-Id" else super().get(name)


def test_a_route_of_another_user(socket):
    """It is not that user's connection, which ends; a user without access is refused alike."""
    connections = Connections(socket, [].append, lambda: 0.0)
    security = SimpleNamespace(access_of={"ada": EVERYTHING, "bob": EVERYTHING}.get)
    validator = RequestValidator(limits_of(Config()))
    reception = Reception(validator, connections, [].append, security=security, max_clients=9)
    for user, message in (
        ("ada", Hello(1, VERSION, "c")),
        ("eve", Stats(2)),
        ("bob", Stats(3)),
        ("ada", Stats(4)),
    ):
        frame = UserFrame(encode(message))
        frame.user = user
        reception.on_frame(b"r", frame, [], 0.0)
    answers = [decode_answer(frame) for frame in socket.sent]
    assert [(answer.seq, answer.code) for answer in answers] == [(n, "hello") for n in (2, 3, 4)]
    assert (reception.messages, reception.refused) == (3, 3)
    assert not connections.by_route


def test_a_client_that_is_no_longer_allowed(socket):
    """It is to connect again, and the handshake tells it: without an answer it would wait."""
    connections = Connections(socket, [].append, lambda: 0.0)
    security = SimpleNamespace(access_of=lambda user: None)
    validator = RequestValidator(limits_of(Config()))
    reception = Reception(validator, connections, [].append, security=security, max_clients=9)
    for request in (Stats(3), Hello(4, VERSION, "c")):
        reception.on_frame(b"r", UserFrame(encode(request)), [], 0.0)
    answers = [decode_answer(frame) for frame in socket.sent]
    assert [(answer.seq, answer.code) for answer in answers] == [(3, "hello"), (4, "hello")]
    assert not connections.by_route


def test_a_peer_that_says_bye(reception, socket):
    """Its connection has gone, and gets no answer; what it sends then is a stranger's."""
    take(reception, encode(Hello(1, VERSION, "c")))
    take(reception, encode(Bye(2)))
    take(reception, encode(Stats(3)))
    answers = [decode_answer(frame) for frame in socket.sent]
    assert [(answer.seq, answer.code) for answer in answers] == [(3, "hello")]


def test_a_peer_that_goes_on_without_a_hello(reception, socket, monkeypatch):
    """Some of its requests are answered, then its connection is ended; others are answered."""
    ended = []
    monkeypatch.setattr(reception_module, "MAX_REFUSALS", 3)
    monkeypatch.setattr(reception_module, "end_connection", ended.append)
    for seq in range(6):
        take(reception, encode(Stats(seq)))
    # The last one shows whether the peer is there still.
    assert [decode_answer(frame).seq for frame in socket.sent] == [0, 1, 2, 3]
    assert len(ended) == 1
    reception.on_frame(b"other", zmq.Frame(encode(Stats(7))), [], 0.0)
    take(reception, encode(Hello(8, VERSION, "c")))
    take(reception, encode(Hello(9, VERSION, "c")))
    assert [decode_answer(frame).code for frame in socket.sent[4:]] == ["hello", "malformed"]


def test_peers_without_a_hello_are_forgotten(reception, monkeypatch):
    """Those that came first, of many: what is known of them takes no more memory than that."""
    monkeypatch.setattr(reception_module, "GONE_ROUTES", 3)
    for n in range(10):
        reception.on_frame(bytes([n]), zmq.Frame(encode(Stats(1))), [], 0.0)
    assert list(reception._strangers) == [b"\x07", b"\x08", b"\x09"]


def test_a_full_server_logs_that_it_refuses_clients(reception, caplog):
    """Clients only learn that they were sent away; a line a minute tells the operator why."""
    for n in range(12):
        hello = zmq.Frame(encode(Hello(1, VERSION, f"c{n}")))
        reception.on_frame(b"%d" % n, hello, [], 0.0)
    (line,) = caplog.messages
    assert "9 clients are connected, as many as max_clients allows" in line
