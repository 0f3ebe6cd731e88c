"""Reception: what a message becomes, beside what the tests of the network show."""

import zmq

from purgatory.service.config import Config
from purgatory.service.protocol import VERSION, Hello, Stats, decode_answer, encode
from purgatory.service.server.network.connections import Connections
from purgatory.service.server.network.reception import Reception
from purgatory.service.server.validation import RequestValidator, limits_of
from tests.testing.fake_router import FakeRouter


def test_what_a_peer_had_sent_before_it_went_is_not_answered():
    """Only that shows that it has gone: its first message is answered, in vain."""
    socket = FakeRouter()
    connections = Connections(socket, [].append, lambda: 0.0)
    reception = Reception(
        RequestValidator(limits_of(Config())), connections, [].append, security=None, max_clients=9
    )

    def take(request):
        reception.on_frame(b"r", zmq.Frame(encode(request)), [], 0.0)

    take(Stats(1))
    assert [decode_answer(frame).code for frame in socket.sent] == ["hello"]
    socket.gone.add(b"r")
    take(Stats(2))
    assert reception.refused == 2
    take(Stats(3))
    assert reception.refused == 2
    socket.gone.clear()
    take(Hello(4, VERSION, "c"))
    take(Hello(5, VERSION, "c"))
    assert [decode_answer(frame).seq for frame in socket.sent] == [1, 5]
