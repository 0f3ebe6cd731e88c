"""UnreadConnections: a connection is read again when its last reason has gone."""

import itertools

import pytest
import zmq

from purgatory.service.server.network.flood_gates import CLOSED_S, FloodGates
from purgatory.service.server.network.unread_connections import UnreadConnections
from purgatory.service.server.network.waiting_messages import MAX_WAITING, ReadGate
from tests.testing.purgatory_harness import HANG
from tests.testing.raw_connections import dealer, frame

HANG_MS = int(1000 * HANG)


class Connection:
    """A connection of a ROUTER, by its descriptor, as two gates leave it unread."""

    def __init__(self, router, peer):
        self.router, self.peer = router, peer
        self.unread = UnreadConnections()
        self.now = 0.0
        self.floods = FloodGates(self.unread, now=lambda: self.now)
        peer.sendall(frame(1, more=False))
        assert router.poll(HANG_MS)
        route, part = router.recv(), router.recv(copy=False)
        self.floods.note(route, part, [])
        (self.descriptor,) = self.floods.taken()
        self.waiting = ReadGate(self.unread, self.descriptor)

    def leave(self, gate):
        """Leave the connection unread, for too many messages under way or too much that waits."""
        if gate == "floods":
            self.floods.close(self.descriptor, 0)
        else:
            self.waiting.add(MAX_WAITING + 1)

    def read(self, gate):
        """End what `leave` began."""
        if gate == "floods":
            self.now += CLOSED_S
            self.floods.open(is_drained=True)
        else:
            self.waiting.remove(MAX_WAITING + 1)

    def brings_a_message(self, ms):
        """Tell whether a message comes within so many milliseconds."""
        if not self.router.poll(ms):
            return False
        self.router.recv_multipart()
        return True


@pytest.fixture
def connection():
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    with dealer(router.bind_to_random_port("tcp://127.0.0.1")) as peer:
        yield Connection(router, peer)
    context.destroy(0)


GATES = list(itertools.permutations(["floods", "waiting"]))


@pytest.mark.parametrize("left", GATES)
@pytest.mark.parametrize("read", GATES)
def test_a_connection_that_two_gates_leave_unread(connection, left, read):
    """In any order, it stays unread until the last of them reads it."""
    for gate in left:
        connection.leave(gate)
    connection.peer.sendall(frame(2, more=False))
    first, last = read
    connection.read(first)
    assert not connection.brings_a_message(50)
    connection.read(last)
    assert connection.brings_a_message(HANG_MS)


def test_a_reason_of_an_earlier_connection(connection):
    """It does not keep a later one of the same descriptor from being left unread."""
    connection.unread._reasons[connection.descriptor] = {"of an earlier connection"}
    connection.leave("waiting")
    connection.peer.sendall(frame(2, more=False))
    assert not connection.brings_a_message(50)


def test_nothing_is_kept(connection):
    """Of a connection that is read, or that cannot be left unread; to read it twice is harmless."""
    connection.leave("waiting")
    for _ in range(2):
        connection.unread.read(connection.descriptor, connection.waiting)
    with pytest.raises(OSError, match="descriptor"):
        connection.unread.leave(10**6, "no connection")
    assert connection.unread._reasons == {}
