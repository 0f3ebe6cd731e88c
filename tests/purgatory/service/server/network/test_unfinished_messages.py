"""UnfinishedMessages: a message without an end takes bounded memory; other peers go on."""

import contextlib
import ctypes
import socket
import threading
import time

import pytest
import zmq

from purgatory.service.encoding import encode
from purgatory.service.machine_memory import MIN_BYTES
from purgatory.service.machine_memory import resident_bytes as own_resident_bytes
from purgatory.service.protocol import VERSION, Bye, Hello, Submit, Submitted
from purgatory.service.server.network.flood_gates import FloodGates
from purgatory.service.server.network.unfinished_messages import (
    UnfinishedMessages,
    _received_bytes,
)
from purgatory.service.server.network.unread_connections import UnreadConnections
from tests.purgatory.service.test_memory import resident_bytes
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from tests.testing.raw_connections import dealer, frame
from tests.testing.server_processes import ServerProcess
from tests.testing.servers import HANG_MS, RawPeer
from tests.testing.step_server import operation

MIB = 1 << 20
MESSAGE = 1000
MOST = 4 * MESSAGE + 16 * MIB  # that one may have sent and not finished


def is_cut_off(peer):
    """Tell whether the other side has ended a connection; read what it has sent before."""
    peer.settimeout(0.2)
    try:
        while peer.recv(1 << 16):
            pass
    except TimeoutError:
        return False
    except OSError:
        return True
    return True


class Router:
    """A ROUTER, and what looks at its peers while the memory of the process grows."""

    def __init__(self, max_memory=0):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.ROUTER)
        self.socket.setsockopt(zmq.RCVTIMEO, int(HANG * 1000))
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.gates = FloodGates(UnreadConnections())
        self.resident = 100 * MIB
        self.is_crowded = False
        self.now = 0.0
        self.unfinished = UnfinishedMessages(
            self.port,
            self.gates,
            most=4,
            message_bytes=MESSAGE,
            max_memory=max_memory,
            is_crowded=lambda: self.is_crowded,
            now=lambda: self.now,
            resident=lambda: self.resident,
        )

    def read(self):
        """Read a message, and count it as the network thread does; returns it."""
        route, part = self.socket.recv(), self.socket.recv(copy=False)
        self.gates.note(route, part, [])
        return part.bytes

    def look(self):
        """Look, after the memory has grown."""
        self.resident += 8 * MIB
        self.unfinished.look()


@pytest.fixture
def router():
    with contextlib.ExitStack() as stack:

        def make(**options):
            made = Router(**options)
            stack.callback(made.context.destroy, 0)
            return made

        yield make


def test_only_a_message_without_an_end_is_cut_off(router):
    """However much comes in whole messages, read soon or late: its peer goes on."""
    made = router()
    with dealer(made.port) as honest, dealer(made.port) as endless:
        for n in range(3 * MOST // MIB):
            honest.sendall(frame(MIB, more=False))
            with contextlib.suppress(OSError):  # it was cut off
                endless.sendall(frame(MIB))
            made.read()
            if n % 3 == 0:
                made.look()
        assert is_cut_off(endless)
        assert not is_cut_off(honest)


def test_while_memory_is_short_the_largest_go(router):
    """Of those that finish nothing, the ones that have sent most; one that goes on is left."""
    made = router(max_memory=MIB)
    with contextlib.ExitStack() as stack:
        small, large, busy = (stack.enter_context(dealer(made.port)) for _ in range(3))
        small.sendall(frame(5000))
        large.sendall(frame(MIB))
        busy.sendall(frame(2 * MIB, more=False))
        made.read()
        eventually(lambda: sum(size for _, size in _received_bytes(made.port)) > 3 * MIB + 5000)
        made.look()
        assert [is_cut_off(each) for each in (small, large, busy)] == [False, True, False]


def test_while_memory_is_short_little_is_read_on(router):
    """Of a connection with much unread nothing more is read; another one does not notice."""
    made = router(max_memory=MIB)
    with dealer(made.port) as large, dealer(made.port) as small:
        for size in (10, MIB):
            for peer in (large, small):
                peer.sendall(frame(size if peer is large else 10, more=False))
                if size == 10:
                    made.read()
        eventually(lambda: sum(size for _, size in _received_bytes(made.port)) > MIB)
        made.look()
        assert made.gates.is_memory_full
        assert len(made.gates.closed) == 1
        small.sendall(frame(200, more=False))
        assert {len(made.read()) for _ in range(3)} == {10, 200, MIB}
        assert not is_cut_off(large)


def test_a_message_on_its_way(router):
    """While memory is short, and all that was complete is read: the connection is read on."""
    made = router(max_memory=MIB)
    with dealer(made.port) as peer:
        made.gates.open(is_drained=True)
        made.look()
        peer.sendall(frame(10, more=False) + frame(MIB, more=False)[: MIB // 2])
        made.read()
        eventually(lambda: sum(size for _, size in _received_bytes(made.port)) > MIB // 2)
        made.look()
        assert not made.gates.closed


def test_freed_memory_is_given_back(router):
    """While too much is taken: the C library keeps what lies below anything that is left."""
    made, c = router(max_memory=MIB), ctypes.CDLL(None)
    c.malloc.restype, c.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    *parts, last = [c.malloc(50_000) for _ in range(2000)]
    for part in parts:
        ctypes.memset(part, 1, 50_000)
        c.free(part)
    before = own_resident_bytes()
    made.look()
    assert before - own_resident_bytes() > 50 * MIB
    c.free(last)


def test_other_connections_of_the_process(router):
    """A program that has a server beside other connections keeps those."""
    made = router(max_memory=MIB)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as sender,
        listener.accept()[0] as taker,
    ):
        thread = threading.Thread(target=sender.sendall, args=(bytes(MOST + MIB),))
        thread.start()
        taken = 0
        while taken < MOST + MIB:
            received = taker.recv(1 << 16)
            assert received  # else the connection has ended
            taken += len(received)
            if taken % (1 << 20) < 1 << 16:
                made.look()
        thread.join()


def test_while_no_connection_is_let_in(router):
    """Those give way whose handshake is unfinished for a second; else they have their time."""
    made = router()
    with contextlib.ExitStack() as stack:
        peers = [socket.create_connection(("127.0.0.1", made.port), HANG) for _ in range(3)]
        peers.append(dealer(made.port))
        for peer in peers:
            stack.enter_context(peer)
        peers[1].sendall(b"\xff" + bytes(8) + b"\x7f")
        peers[3].sendall(frame(10, more=False))
        made.read()
        for made.is_crowded, seconds, ended in (
            (False, 5, 0), (True, 0.5, 0), (True, 0.5, 0), (True, 1, 3)
        ):  # fmt: skip
            made.now += seconds
            made.unfinished.look()
            assert [is_cut_off(each) for each in peers].count(True) == ended
        assert not is_cut_off(peers[3])


def test_a_new_client_beside_many_strangers(tmp_path):
    """It is let in soon, though connections that say nothing have taken all the room."""
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, 0)
        serve = stack.enter_context(ServerProcess(tmp_path / "data", "--max-clients", "50"))
        port = int(serve.address.rpartition(":")[2])
        for _ in range(400):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), HANG))
        end, longest = time.monotonic() + 3, 0.0
        while (began := time.monotonic()) < end:  # some come before the server has counted
            peer = RawPeer(context, serve.address)
            peer.hello()
            peer.send(Bye(2))
            peer.socket.close(HANG_MS)
            longest = max(longest, time.monotonic() - began)
        assert longest < 6  # where it took 11


@pytest.mark.parametrize(
    ("size", "peers", "greets"),
    [(MIB, 1, False), (30_000, 8, True), (0, 1, False), (0, 4, True)],
)
def test_a_server_keeps_its_bound(tmp_path, size, peers, greets):
    """Endless messages, of frames of any size, before a hello and after, take bounded memory."""
    context = zmq.Context()
    flags = ("--max-memory", str(MIN_BYTES))
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, 0)
        serve = stack.enter_context(ServerProcess(tmp_path / "data", *flags))
        honest = RawPeer(context, serve.address)
        honest.hello("honest")
        stop, cut_off = threading.Event(), threading.Event()
        attack = (serve.address.rpartition(":")[2], frame(size), greets, stop, cut_off)
        threads = [threading.Thread(target=_attack, args=attack) for _ in range(peers)]
        for thread in threads:
            thread.start()
        peak, least, most = 0, time.monotonic() + 3, time.monotonic() + HANG
        for number in range(10**6):
            honest.send(Submit(number, [operation(f"op {number}", f"key {number}")]))
            while not isinstance(honest.receive(), Submitted):
                pass
            peak = max(peak, resident_bytes(serve.process))
            if time.monotonic() > (least if cut_off.is_set() else most):
                break
        stop.set()
        code, errors = serve.end()
        for thread in threads:
            thread.join()
        # Without a bound these take gigabytes. On a busy machine the watchdog looks late.
        assert peak < MIN_BYTES * 150 // 100
        assert (code, "cut off a peer" in errors) == (0, True), errors


def _attack(port, part, greets, stop, cut_off):
    """Send one message that has no end, and begin another when the connection has ended."""
    hello = encode(Hello(1, VERSION, "endless"))
    block = part * max(1, 100_000 // len(part))
    while not stop.is_set():
        with contextlib.suppress(OSError), dealer(port) as peer:
            peer.settimeout(3)  # a server that has ended may leave it blocked
            if greets:
                peer.sendall(bytes([0, len(hello)]) + hello)
            try:
                while not stop.is_set():
                    peer.sendall(block)
            except OSError:
                cut_off.set()
