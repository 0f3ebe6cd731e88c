"""FloodGates: a connection with too many messages under way is left unread; others are read."""

import contextlib
import fcntl
import functools
import sys
import termios
import threading
import time

import pytest
import zmq

from purgatory.service.encoding import encode
from purgatory.service.machine_memory import MIN_BYTES
from purgatory.service.protocol import VERSION, Hello, Submit, Submitted
from purgatory.service.server.network.flood_gates import (
    _ROUTES,
    _SLACK_BYTES,
    CLOSED_S,
    MOST_UNREAD,
    FloodGates,
)
from purgatory.service.server.network.router_socket import received_bytes
from purgatory.service.server.network.unread_connections import UnreadConnections
from tests.purgatory.service.test_memory import resident_bytes
from tests.testing.eventually import eventually
from tests.testing.floods import flood, flood_and_reset
from tests.testing.purgatory_harness import HANG
from tests.testing.raw_connections import PING, dealer, frame, read, reset
from tests.testing.server_processes import ServerProcess
from tests.testing.servers import RawPeer
from tests.testing.step_server import operation

ROUNDS = 200
SECONDS = 2.0
MESSAGE_BYTES = 10_000


class Gates:
    """Gates over a ROUTER; `connect` returns peers, `take` takes messages as the thread does."""

    def __init__(self, context):
        self.router = context.socket(zmq.ROUTER)
        self.router.setsockopt(zmq.RCVHWM, 0)
        self.router.setsockopt(zmq.RCVTIMEO, int(1000 * HANG))
        self.port = self.router.bind_to_random_port("tcp://127.0.0.1")
        self.now = 0.0
        self.gates = FloodGates(UnreadConnections(), now=lambda: self.now)

    def take(self, count=1):
        """Take so many messages; returns the last one's bytes."""
        for _ in range(count):
            route = self.router.recv()
            part = self.router.recv(copy=False)
            self.gates.note(route, part, self.router.recv_multipart() if part.more else [])
        return part.bytes


def unreceived(peer):
    """Return how many bytes the other side's kernel has not received."""
    return int.from_bytes(fcntl.ioctl(peer, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


@pytest.fixture
def gates():
    context = zmq.Context()
    yield Gates(context)
    context.destroy(0)


@pytest.fixture
def connect(gates):
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(dealer(gates.port))


def test_too_many_messages_under_way(gates, connect):
    """What comes meanwhile comes again when its messages are taken, and after a while."""
    flooding, other = connect(), connect()
    flooding.sendall(frame(MESSAGE_BYTES, more=False) * 3 * MOST_UNREAD)
    eventually(lambda: unreceived(flooding) == 0)
    gates.take(1 + MOST_UNREAD)
    assert gates.gates.closed
    flooding.sendall(frame(5, more=False))
    other.sendall(frame(7, more=False))
    gates.now += CLOSED_S
    gates.gates.open(is_drained=False)
    assert gates.gates.closed
    gates.take(2 * MOST_UNREAD)
    assert not gates.router.poll(50)
    gates.gates.open(is_drained=False)
    assert not gates.gates.closed
    assert gates.take() == b"a" * 5


def test_bytes_that_are_never_taken(gates, connect):
    """The gate is opened when the queues have been empty for a while."""
    peer = connect()
    peer.sendall(PING * (_SLACK_BYTES // len(PING) + 100) + frame(1, more=False))
    gates.take()
    (descriptor,) = gates.gates.taken()
    gates.gates.close(descriptor, received_bytes(descriptor))
    peer.sendall(frame(2, more=False))
    for is_drained, seconds, is_closed in (
        (True, 0, True), (False, CLOSED_S, True), (True, 0, False)
    ):  # fmt: skip
        gates.now += seconds
        gates.gates.open(is_drained=is_drained)
        assert bool(gates.gates.closed) is is_closed
    assert gates.take() == b"a" * 2


@pytest.mark.parametrize("size", [0, 200, 255, 256, MESSAGE_BYTES])
def test_as_many_as_a_client_may_have(gates, connect, size):
    """However large they are, and with heartbeats and frames between: the connection is read."""
    peer = connect()
    for _ in range(5):
        peer.sendall(frame(size, more=False) * (MOST_UNREAD - 2) + PING)
        peer.sendall(frame(size) + frame(size, more=False))
        gates.take(MOST_UNREAD - 1)
    assert not gates.gates.closed


def test_bytes_that_are_no_messages(gates, connect):
    """Many heartbeats close a gate once; their bytes are known from then on."""
    peer = connect()
    peer.sendall(PING * (_SLACK_BYTES // len(PING) + 100) + frame(1, more=False))
    gates.take()
    for closed in (True, False, False):
        peer.sendall(frame(1, more=False) * MOST_UNREAD)
        gates.take(MOST_UNREAD)
        assert bool(gates.gates.closed) is closed
        gates.now += CLOSED_S
        gates.gates.open(is_drained=True)


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_bytes_on_the_wire(is_encrypted):
    """All bytes of a message are counted, as the kernel counts them."""
    context = zmq.Context()
    router, dealer = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    if is_encrypted:
        dealer.curve_serverkey, router.curve_secretkey = zmq.curve_keypair()
        router.curve_server = True
        dealer.curve_publickey, dealer.curve_secretkey = zmq.curve_keypair()
    made, untold = FloodGates(UnreadConnections(), is_encrypted=is_encrypted), set()
    port = router.bind_to_random_port("tcp://127.0.0.1")
    dealer.connect(f"tcp://127.0.0.1:{port}")
    for size in (0, 1, 200, 222, 223, 255, 256, 1000, 100_000):
        dealer.send_multipart([bytes(size), b"x"])
        assert router.poll(int(1000 * HANG))
        made.note(router.recv(), router.recv(copy=False), router.recv_multipart())
        ((descriptor, taken),) = made.taken().items()
        untold.add(received_bytes(descriptor) - taken)
    assert len(untold) == 1  # those of the handshake
    context.destroy(0)


@pytest.mark.parametrize("descriptor", [-1, 0, 10**6])
def test_what_is_no_connection(descriptor):
    """Nothing happens."""
    made = FloodGates(UnreadConnections())
    made.close(descriptor, 1)
    made.open(is_drained=True)
    assert not made.closed


def test_connections_are_counted_and_forgotten():
    """However many routes there were, the latest are known."""
    made = FloodGates(UnreadConnections())
    part = zmq.Frame(b"x")
    for n in range(_ROUTES + 10):
        made.note(b"%d" % n, part, [])
        made.note(b"%d" % n, part, [])
    assert (len(made._routes), made.arrivals) == (_ROUTES, _ROUTES + 10)


def test_a_connection_that_is_older_than_thousands(gates, connect):
    """It is read, though its route is forgotten; a flood of it closes its gate as before."""
    peer = connect()
    for _ in range(2):
        for _ in range(_SLACK_BYTES // MESSAGE_BYTES + 1):
            peer.sendall(frame(MESSAGE_BYTES, more=False))
            gates.take()
        for n in range(_ROUTES):
            gates.gates.note(b"%d" % n, zmq.Frame(b"x"), [])
        for _ in range(3 * MOST_UNREAD):
            peer.sendall(frame(1, more=False))
            gates.take()
        assert not gates.gates.closed
    peer.sendall(frame(MESSAGE_BYTES, more=False) * 3 * MOST_UNREAD)
    eventually(lambda: unreceived(peer) == 0)
    gates.take(2 * MOST_UNREAD)
    assert gates.gates.closed


def test_a_connection_with_the_descriptor_of_an_earlier_one(gates, connect):
    """Neither has what the other sent: it is read, and its flood is noticed."""
    for _ in range(3):
        with dealer(gates.port) as peer:
            for _ in range(3 * MOST_UNREAD):
                peer.sendall(frame(MESSAGE_BYTES, more=False))
                gates.take()
            assert not gates.gates.closed
            peer.sendall(frame(MESSAGE_BYTES, more=False) * 3 * MOST_UNREAD)
            eventually(functools.partial(lambda one: unreceived(one) == 0, peer))
            gates.take(2 * MOST_UNREAD)
            assert gates.gates.closed
            gates.take(MOST_UNREAD)
            gates.now += 2 * CLOSED_S
            gates.gates.open(is_drained=True)
        (descriptor,) = gates.gates.taken()
        eventually(functools.partial(lambda one: received_bytes(one) < 0, descriptor))


def test_connections_that_break_behind_floods(tmp_path):
    """With a heartbeat among what is unread: libzmq would end a server whose queue has a bound."""
    with ServerProcess(tmp_path / "data") as serve:
        port = int(serve.address.rpartition(":")[2])
        for size in range(ROUNDS):
            peer = _connected(port)
            with contextlib.suppress(OSError):
                peer.sendall((frame(size, more=False) * 40 + PING) * 100)
            reset(peer)
        peer = _connected(port)
        hello = encode(Hello(1, VERSION, "late"))
        peer.sendall(bytes([0, len(hello)]) + hello)
        assert read(peer, 2)
        peer.close()
        assert serve.end() == (0, "")


def _connected(port):
    """Return a connection; the server may be busy with earlier ones at first."""
    end = time.monotonic() + HANG
    while True:
        with contextlib.suppress(OSError):
            return dealer(port)
        assert time.monotonic() < end


@pytest.mark.parametrize(
    ("flood", "peers"),
    [
        pytest.param(functools.partial(flood, 0), 4, id="empty"),
        pytest.param(functools.partial(flood, 100), 4, id="small"),
        pytest.param(functools.partial(flood, 100_000), 2, id="large"),
        pytest.param(flood_and_reset, 2, id="strangers"),
    ],
)
def test_a_server_beside_floods(tmp_path, flood, peers):
    """Complete messages without a pause take bounded memory; another client's requests go on."""
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, 0)
        flags = ("--max-memory", str(MIN_BYTES))
        serve = stack.enter_context(ServerProcess(tmp_path / "data", *flags))
        honest = RawPeer(context, serve.address)
        honest.hello("honest")
        stop = threading.Event()
        port = int(serve.address.rpartition(":")[2])
        threads = [threading.Thread(target=flood, args=(port, stop)) for _ in range(peers)]
        for thread in threads:
            thread.start()
        peak, end, number = 0, time.monotonic() + SECONDS, 0
        while time.monotonic() < end:
            honest.send(Submit(number, [operation(f"op {number}", f"key {number}")]))
            while not isinstance(honest.receive(), Submitted):
                pass
            peak = max(peak, resident_bytes(serve.process))
            number += 1
        stop.set()
        code, errors = serve.end()
        for thread in threads:
            thread.join()
        assert (code, "Traceback" in errors) == (0, False), errors
        assert peak < MIN_BYTES * 120 // 100  # as promised
        assert number > 10
