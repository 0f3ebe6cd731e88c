"""A hostile client, to be run in a process of its own:

    python -m tests.testing.hostile_client ADDRESS

It attacks the server until its standard input ends, then prints how much it has sent, as JSON.
"""

import contextlib
import json
import random
import socket
import sys
import threading
from itertools import count, cycle

import zmq

from purgatory.service.encoding import encode
from purgatory.service.protocol import (
    VERSION,
    Acknowledge,
    Complete,
    Completion,
    Hello,
    Query,
    Raw,
    Stats,
    Submit,
)
from tests.testing.floods import stranger
from tests.testing.purgatory_harness import HANG
from tests.testing.raw_connections import dealer, frame
from tests.testing.servers import RawPeer
from tests.testing.step_server import operation

CONNECTIONS = 200
#: Operations that wait for one event.
CROWD = 2000


class Attack:
    """The threads of a hostile client; none of them ever reads more than it must."""

    def __init__(self, address):
        self.address = address
        self.context = zmq.Context()
        self.stop = threading.Event()
        works = (
            self.queries,
            self.lists,
            self.again,
            self.unread,
            self.connections,
            self.raw,
            self.crowds,
            self.endless,
            self.floods,
            self.integers,
        )
        self.sent = {work.__name__: 0 for work in works}
        self.threads = [
            threading.Thread(target=self.run, args=(work.__name__, work)) for work in works
        ]

    def run(self, name, work):
        with contextlib.suppress(zmq.ZMQError, OSError):
            for _ in work():
                self.sent[name] += 1
                if self.stop.is_set():
                    return

    def peer(self, name="hostile", **options):
        """Return a connection that has said hello, and blocks no thread for long."""
        peer = RawPeer(self.context, self.address, SNDTIMEO=200, **options)
        peer.send(Hello(1, VERSION, name))
        return peer

    def send(self, peer, *frames):
        with contextlib.suppress(zmq.Again):
            peer.send(*frames)

    def drain(self, peer):
        """Read what has come."""
        with contextlib.suppress(zmq.Again):
            while True:
                peer.socket.recv(zmq.NOBLOCK)

    def queries(self):
        """Ask for ended operations with large payloads, over and over."""
        peer = self.peer()
        payload = "x" * 30_000
        ids = [f"payload {n}" for n in range(200)]
        for n, op_id in enumerate(ids):
            self.send(peer, Submit(n, [operation(op_id, "hostile key", payload=payload)]))
        self.send(peer, Complete(1000, [Completion("hostile key")]))
        for n in count():
            self.send(peer, Query(n, ids * 2))
            self.drain(peer)
            yield

    def lists(self):
        """Send the longest lists that there may be, and longer ones."""
        peer = self.peer()
        small = [f"k{n}" for n in range(500)]
        for n in cycle(range(100)):
            self.send(peer, Submit(n, [operation(f"{n} {k}", k, timeout_ms=50) for k in small]))
            self.send(peer, Complete(n, [Completion(k, Raw(encode("v" * 900))) for k in small]))
            self.send(peer, Query(n, ["payload 1"] * 150_000))
            self.send(peer, Submit(n, [operation(f"many {n}", *["k"] * 300_000)]))
            keys = [f"{n} {k}".ljust(900, "x") for k in range(100)]
            self.send(peer, Submit(n, [operation(f"large {n}{k}", *keys) for k in range(10)]))
            self.send(peer, Acknowledge(n, list(range(1000))))
            self.drain(peer)
            yield

    def again(self):
        """Submit ended operations once more, and never read their outcomes."""
        peer = self.peer(RCVHWM=1)
        again = [operation(f"payload {n}", "hostile key") for n in range(200)]
        for n in count():
            self.send(peer, Submit(n, again * 2))
            yield

    def unread(self):
        """Ask for figures and read no answer."""
        peer = self.peer("deaf", RCVHWM=1)
        for n in count():
            self.send(
                peer,
                Stats(n),
            )
            if not n % 1000:
                peer.socket.close(0)
                peer = self.peer("deaf", RCVHWM=1)
            yield

    def connections(self):
        """Come with many names, and go without a word."""
        while True:
            peers = [self.peer(f"name {n}") for n in range(CONNECTIONS)]
            yield
            self.stop.wait(0.2)
            for peer in peers:
                peer.socket.close(0)

    def raw(self):
        """Send what is no message, and half of what might be one."""
        dice = random.Random(1)
        host, port = self.address.removeprefix("tcp://").split(":")
        garbage = self.peer("garbage")
        while True:
            self.send(garbage, dice.randbytes(1000))
            self.send(garbage, b"a", b"b", b"c")
            self.drain(garbage)
            beginning = dice.choice((b"\xff\0\0", b"GET / HT", dice.randbytes(300), b""))
            # While few connections are accepted, this one may have to wait.
            with (
                contextlib.suppress(OSError),
                socket.create_connection((host, int(port)), timeout=1) as half,
            ):
                half.sendall(beginning)
            yield

    def crowds(self):
        """Complete a key for many operations with a large value, and read no outcome."""
        peer = self.peer("crowd")
        value = Raw(encode("v" * 64_000))
        for n in count():
            for k in range(4):
                ids = range(CROWD // 4 * k, CROWD // 4 * (k + 1))
                crowd = [operation(f"crowd {n} {each}", "crowd") for each in ids]
                self.send(peer, Submit(k, crowd))
            self.send(peer, Complete(n, [Completion("crowd", value)]))
            self.stop.wait(0.1)
            yield

    def endless(self):
        """Send messages without an end, of small frames and of large ones, before a hello."""
        for size in cycle((0, 1000, 1 << 20)):
            block = frame(size) * max(1, 100_000 // (size + 2))
            with contextlib.suppress(OSError), self.dealer() as peer:
                for _ in range(2000):
                    if self.stop.is_set():
                        break
                    peer.sendall(block)
            yield

    def floods(self):
        """Send whole messages without a pause, and heartbeats, and reset the connection."""
        while True:
            stranger(self.address.rpartition(":")[2])
            yield

    def integers(self):
        """Send numbers that a database, or a C program, has no room for."""
        peer = self.peer()
        for n in cycle((2**63 - 1, 2**63, 2**64 - 1)):
            self.send(peer, Stats(n))
            self.send(peer, Submit(1, [operation("integer", "k", timeout_ms=n)]))
            self.send(peer, Complete(n, [Completion("k", limit=n, hold_ms=n)]))
            self.send(peer, Acknowledge(1, [n]))
            self.drain(peer)
            self.stop.wait(0.01)
            yield

    def dealer(self):
        """Return a plain connection; none is waited for long."""
        peer = dealer(self.address.rpartition(":")[2])
        peer.settimeout(1)
        return peer

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(HANG)
        self.context.destroy(0)


def main():
    """Attack until the standard input ends."""
    with Attack(sys.argv[1]) as attack:
        sys.stdin.read()
    sys.stdout.write(json.dumps(attack.sent))


if __name__ == "__main__":
    main()
