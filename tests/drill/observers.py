"""Observers: read from each server by itself, and compare with what was acknowledged before.

A server may refuse, or say nothing; what it says has to be what was acknowledged when it was asked.
An observer does not reconnect by itself as a client does: what it has asked stays in the sockets of
a server that is stopped, and is answered when the server goes on, unless the guard forbids it.
"""

import random
import threading
from collections import Counter

import zmq

from purgatory.service.encoding import decode_answer, encode
from purgatory.service.protocol import VERSION, Hello, Query, States
from tests.drill.books import Books
from tests.drill.clock import now

#: Seconds between two questions to a server.
ASK_EVERY_S = 0.01
_AN_END = ("completed", "failed", "expired", "cancelled")


class Observers:
    """Ask the servers at some addresses, in a thread, from `start` to `stop`."""

    def __init__(self, books: Books, addresses: list[str], seed: int) -> None:
        self._books = books
        self._addresses = addresses
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observers")
        #: How many answers of each server had what was asked for.
        self.answers: Counter[str] = Counter()
        self._seq = 0
        # Of each question: what was acknowledged before it was sent.
        self._asked: dict[tuple[str, int], dict[str, str]] = {}

    def start(self) -> None:
        """Begin to ask."""
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "the observers hang"

    def _run(self) -> None:
        context = zmq.Context()
        poller = zmq.Poller()
        sockets = {}
        for address in self._addresses:
            socket = context.socket(zmq.DEALER)
            socket.setsockopt(zmq.SNDHWM, 0)
            socket.setsockopt(zmq.RCVHWM, 0)
            socket.setsockopt(zmq.RECONNECT_IVL, 20)
            socket.setsockopt(zmq.RECONNECT_IVL_MAX, 100)
            socket.connect(address)
            poller.register(socket, zmq.POLLIN)
            sockets[socket] = address
        next_ask = now()
        while not self._stop.is_set():
            for socket, _ in poller.poll(max(1, int((next_ask - now()) * 1000))):
                self._receive(sockets[socket], socket)
            if now() >= next_ask:
                next_ask = now() + ASK_EVERY_S
                for socket, address in sockets.items():
                    self._ask(address, socket)
        context.destroy(0)

    def _ask(self, address: str, socket: "zmq.Socket[bytes]") -> None:
        known = self._known()
        if not known:
            return
        # The hello counts at any time: a server may have come back, or another role.
        self._send(socket, Hello(self._next(), VERSION, f"observer of {address}", "", False))
        seq = self._next()
        self._asked[address, seq] = known
        self._send(socket, Query(seq, list(known)))

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    def _send(self, socket: "zmq.Socket[bytes]", message: object) -> None:
        try:
            socket.send(encode(message), zmq.NOBLOCK)
        except zmq.Again:
            pass

    def _known(self) -> dict[str, str]:
        """Return some operations, and what is known of each: an end, or that it was taken."""
        recent = list(self._books.operations.values())[-400:]
        known = {}
        for entry in self._random.sample(recent, min(len(recent), 20)):
            if entry.seen:
                known[entry.op_id] = next(iter(entry.seen)).outcome
            elif entry.acked_at is not None:
                known[entry.op_id] = "taken"
        return known

    def _receive(self, address: str, socket: "zmq.Socket[bytes]") -> None:
        while True:
            try:
                message = decode_answer(socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            if not isinstance(message, States):
                continue
            known = self._asked.pop((address, message.seq), None)
            if known is None:
                continue
            self.answers[address] += 1
            self._books.reads += len(message.states)
            for status in message.states:
                self._compare(address, status.op_id, known[status.op_id], status.state)

    def _compare(self, address: str, op_id: str, known: str, state: str) -> None:
        wrong = state != known if known != "taken" else state == "unknown"
        if wrong:
            self._books.note("stale", f"{address}: {op_id} was {known}, and is said to be {state}")
