"""The connection of a frame: it is paused while much waits, and ended if its peer does not stop."""

import pytest
import zmq

from purgatory.service.protocol import VERSION, Hello, Stats
from purgatory.service.server.network import router_socket
from purgatory.service.server.network.router_socket import descriptor_of, end_connection
from purgatory.service.server.network.unread_connections import UnreadConnections
from purgatory.service.server.network.waiting_messages import FEW_WAITING, MAX_WAITING, ReadGate
from tests.testing.purgatory_harness import HANG

HANG_MS = int(1000 * HANG)


class Pair:
    """A router, and a dealer that is connected to it by `descriptor`."""

    def __init__(self, context, address="tcp://127.0.0.1:*"):
        self.router = context.socket(zmq.ROUTER)
        self.dealer = context.socket(zmq.DEALER)
        for socket in (self.router, self.dealer):
            socket.linger = 0
        self.router.bind(address)
        self.dealer.connect(self.router.getsockopt_string(zmq.LAST_ENDPOINT))
        self.dealer.send(b"first")
        self.descriptor = descriptor_of(self.receive())

    def receive(self):
        """Return the next frame."""
        assert self.router.poll(HANG_MS)
        self.route = self.router.recv()
        return self.router.recv(copy=False)


@pytest.fixture
def make():
    """Make pairs: `make()`, or `make(address)`."""
    context = zmq.Context()
    pairs = []

    def make(*address):
        pairs.append(Pair(context, *address))
        return pairs[-1]

    yield make
    for pair in pairs:
        pair.router.close()
        pair.dealer.close()
    context.term()


def test_a_connection_of_which_much_waits_is_not_read(make):
    """What its peer sends meanwhile comes later; other connections are read."""
    one, other = make(), make()
    gate = ReadGate(UnreadConnections(), one.descriptor)
    gate.add(MAX_WAITING)
    assert gate.is_open
    gate.add(1)
    assert not gate.is_open
    one.dealer.send(b"late")
    other.dealer.send(b"x")
    assert other.receive().bytes == b"x"
    assert not one.router.poll(50)
    gate.remove(1)
    assert not gate.is_open
    gate.remove(MAX_WAITING - FEW_WAITING + 1)
    assert gate.is_open
    assert one.receive().bytes == b"late"


def test_a_peer_whose_connection_is_ended(make):
    """It connects again, by another route."""
    pair = make()
    route = pair.route
    end_connection(pair.descriptor)
    pair.dealer.send(b"x")
    while pair.router.poll(100):
        pair.receive()
    pair.dealer.send(b"y")
    assert pair.receive().bytes in (b"x", b"y")
    assert pair.route != route


@pytest.mark.parametrize("descriptor", [-1, 10**6, 0])
def test_what_is_no_connection(descriptor, tmp_path):
    """None is known, it is closed meanwhile, or another file has the number: nothing happens."""
    with (tmp_path / "file").open("wb") as file:
        gate = ReadGate(UnreadConnections(), descriptor or file.fileno())
        gate.add(MAX_WAITING + 1)
        gate.remove(MAX_WAITING + 1)
        end_connection(descriptor or file.fileno())
        file.write(b"x")
    assert (tmp_path / "file").read_bytes() == b"x"


def test_a_system_without_filters(make, monkeypatch):
    """All is read, as it was before there were gates."""
    monkeypatch.setattr(router_socket, "_SO_ATTACH_FILTER", 9999)
    pair = make()
    ReadGate(UnreadConnections(), pair.descriptor).add(MAX_WAITING + 1)
    pair.dealer.send(b"x")
    assert pair.receive().bytes == b"x"


def test_local_sockets_are_left_alone(make, tmp_path):
    """What is dropped there would be lost."""
    pair = make(f"ipc://{tmp_path / 'socket'}")
    assert pair.descriptor >= 0
    ReadGate(UnreadConnections(), pair.descriptor).add(MAX_WAITING + 1)
    pair.dealer.send(b"x")
    assert pair.receive().bytes == b"x"


def test_a_frame_of_no_connection():
    """It has no descriptor."""
    assert descriptor_of(zmq.Frame(b"x")) == -1


def test_a_peer_with_the_routing_id_of_another(serve, peer):
    """It is not answered; once the other has gone, it is taken for that one."""
    server = serve(memory=True)
    first = peer(server, ROUTING_ID=b"same")
    first.hello("first")
    second = peer(server, ROUTING_ID=b"same")
    second.send(Hello(1, VERSION, "second"))
    assert first.ask(Stats(2)).seq == 2
    assert not second.socket.poll(200)
    for each in (first, second):
        each.socket.close(0)
    answer = None
    while answer is None:  # until the sockets of before are gone
        third = peer(server, ROUTING_ID=b"same")
        third.send(Hello(3, VERSION, "third"))
        answer = third.receive() if third.socket.poll(200) else None
        third.socket.close(0)
    assert (answer.seq, answer.code) == (3, "malformed")
    assert "client 'first' sent a second hello" in answer.message
