"""The network thread: whatever one peer sends, others are served, and memory stays bounded."""

import os
import random
import select
import socket
import struct
import threading
import time
from collections import deque
from types import SimpleNamespace

import pytest
import zmq

from purgatory.service.encoding import encode
from purgatory.service.errors import ServerError
from purgatory.service.protocol import (
    OLDEST_VERSION,
    VERSION,
    Acknowledge,
    Bye,
    Cancel,
    Complete,
    Completed,
    Completion,
    Failure,
    Hello,
    Outcomes,
    Ping,
    Query,
    Raw,
    States,
    Stats,
    StatsReply,
    Submit,
    Submitted,
    Welcome,
)
from purgatory.service.server.network import connections, network
from purgatory.service.server.reads.pending_reads import READS_PER_CLIENT
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG
from tests.testing.step_server import operation
from timingwheel import COMPILED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FRAMES_PER_READ", 2),
        ("READ_S", 0.0),
        ("IN_FLIGHT_BYTES", 100),
        ("SHARED_IN_FLIGHT_BYTES", 100),
        ("LARGE_IN_FLIGHT_BYTES", 100),
        ("WAITING_BYTES", 100),
    ],
)
def test_what_is_left_unread_is_read_later(server, peer, monkeypatch, name, value):
    """No further frame has to come that would wake the thread."""
    monkeypatch.setattr(network, name, value)
    one, two = peer(server), peer(server)
    one.hello()
    two.hello("another")
    if not name.endswith(("READ", "READ_S")) and name != "IN_FLIGHT_BYTES":
        for client in (one, two):  # from here on several clients ask for something
            client.ask(Submit(1, [operation(f"{client}", timeout_ms=int(1000 * HANG))]))
    submit_many(one)
    assert one.ask(Query(1, ["sync"])).seq == 1


@pytest.mark.skipif(COMPILED, reason="a compiled method wants a network thread")
@pytest.mark.parametrize(
    ("is_shared", "most"),
    [(False, network.IN_FLIGHT_BYTES), (True, network.SHARED_IN_FLIGHT_BYTES)],
)
def test_how_much_is_read(is_shared, most):
    """Up to the bounds of what is under way and of what waits, exclusive."""

    def may_read(in_flight, waiting_bytes):
        waiting = SimpleNamespace(is_shared=is_shared, bytes=waiting_bytes)
        thread = SimpleNamespace(
            reception=SimpleNamespace(waiting=waiting), _store=SimpleNamespace(in_flight=in_flight)
        )
        return network.Network._may_read(thread)

    assert may_read(most - 1, network.WAITING_BYTES - 1)
    assert not may_read(most, 0)
    assert not may_read(0, network.WAITING_BYTES)


@pytest.mark.skipif(COMPILED, reason="a compiled method wants a network thread")
@pytest.mark.parametrize("may_read", [False, True])
@pytest.mark.parametrize("unread", [False, True])
@pytest.mark.parametrize("waiting_bytes", [0, 1])
@pytest.mark.parametrize("closing", [False, True])
def test_what_wakes_the_thread(monkeypatch, may_read, unread, waiting_bytes, closing):
    """New frames, unless there are unread ones; with any to handle, the thread is behind."""
    slept, checks, ends = [], [], iter([False, True])
    monkeypatch.setattr(network, "_sleep", lambda descriptors, _: slept.append(descriptors))
    waiting = SimpleNamespace(bytes=waiting_bytes)
    thread = SimpleNamespace(
        reception=SimpleNamespace(waiting=waiting, closing=closing),
        descriptors=(3, 4),
        finished=lambda: next(ends),
        sleep_seconds=lambda: 0.0,
        step=lambda ready: None,
        gate=SimpleNamespace(check=lambda *, behind: checks.append(behind)),
        _may_read=lambda: may_read,
        _unread=unread,
    )
    network.Network._serve(thread)
    assert slept == [[3, 4] if may_read and not unread else [3]]
    assert checks == ([] if closing else [unread or waiting_bytes > 0])


@pytest.mark.skipif(COMPILED, reason="a compiled method wants a network thread")
@pytest.mark.parametrize("clients_share", [False, True])
@pytest.mark.parametrize("did_share", [False, True])
@pytest.mark.parametrize("may", [False, True])
@pytest.mark.parametrize("ready", [[], [3], [4], [3, 4]])
def test_what_is_done_in_a_step(clients_share, did_share, may, ready):
    """A turn begins while clients share, and once more when they no longer do."""
    done, commands = [], ["command", None]
    waiting = SimpleNamespace(
        is_shared=did_share, begin=lambda *, is_shared: done.append(("begin", is_shared))
    )
    gates = SimpleNamespace(open=lambda *, is_drained: done.append(("open", is_drained)))
    thread = SimpleNamespace(
        descriptors=(3, 4),
        mailbox=SimpleNamespace(recv=lambda _: commands.pop(0)),
        connections=SimpleNamespace(
            blocked={1: 1} if may else {}, retry_blocked=lambda: done.append("retry")
        ),
        reception=SimpleNamespace(waiting=waiting, gates=gates, closing=may),
        _handle_command=done.append,
        _monotonic=lambda: 7.0,
        _ping_idle=lambda: done.append("ping"),
        _requests=SimpleNamespace(is_shared=clients_share),
        _unread=False,
        _may_read=lambda: may,
        _read=lambda: done.append("read"),
        _may_take_waiting=lambda: may,
        _take_waiting=lambda: done.append("take"),
        _store=SimpleNamespace(
            dispatch=lambda now, *, is_closing: done.append(("dispatch", now, is_closing))
        ),
    )
    thread._has_unread = lambda: thread._unread
    network.Network.step(thread, ready)
    is_unread = 4 in ready
    assert done == [
        *["command"] * (3 in ready),
        *["retry"] * may,
        "ping",
        *[("begin", clients_share)] * (clients_share or did_share),
        *["read"] * (may and is_unread),
        *["take"] * may,
        ("open", not is_unread),
        ("dispatch", 7.0, may),
    ]


def test_clients_that_share_are_read_with_pauses(server, peer, monkeypatch):
    """While the store thread works, and until it answers; a client that is alone has no pauses."""
    slept = []
    select_ = select.select

    def record(reads, writes, others, seconds):
        if threading.current_thread().name == "service-network":
            slept.append((len(reads), seconds))
        return select_(reads, writes, others, seconds)

    monkeypatch.setattr(select, "select", record)
    monkeypatch.setattr(network, "FRAMES_PER_READ", 1)
    monkeypatch.setattr(network, "SHARED_PAUSE_S", HANG)
    one, two = peer(server), peer(server)
    one.hello()
    submit_many(one)
    assert (1, HANG) not in slept
    two.hello("another")
    two.ask(Submit(1, [operation("another", timeout_ms=int(1000 * HANG))]))
    submit_many(one)
    assert (1, HANG) in slept


def submit_many(peer):
    """Have 200 operations submitted by a request each."""
    for n in range(200):
        peer.send(Submit(n, [operation(f"o{n}", timeout_ms=int(1000 * HANG))]))
    assert [peer.receive().seq for _ in range(200)] == list(range(200))


def test_frames_while_answers_are_sent(server, peer):
    """A send may consume the socket's event for them; they are read all the same."""
    peers = [peer(server) for _ in range(4)]
    for n, one in enumerate(peers):
        one.hello(f"peer {n}")
    for n in range(READS_PER_CLIENT):  # one more could be refused, before the others are answered
        for one in peers:
            one.send(Query(n, ["a"]))
    for one in peers:
        answered = [one.receive().seq for _ in range(READS_PER_CLIENT)]
        assert answered == list(range(READS_PER_CLIENT))


def test_hello_first(server, peer):
    """Requests before hello are refused."""
    stranger = peer(server)
    answer = stranger.ask(Submit(7, [operation("a")]))
    assert (answer.seq, answer.code) == (7, "hello")
    stranger.hello()
    assert stranger.ask(Query(8, ["a"])).states[0].state == "unknown"


def test_hello_twice(server, peer):
    """A second hello is refused; the first one stays valid."""
    one = peer(server)
    one.hello()
    assert one.ask(Hello(2, VERSION, "another")).code == "malformed"
    assert one.ask(Stats(3)).stats["connections"] == 1


@pytest.mark.parametrize("version", [0, VERSION + 1, 10**9])
def test_another_version(server, peer, version):
    """The refusal names the versions of the server."""
    answer = peer(server).ask(Hello(1, version, "c"))
    expected = f"version is {version}; expected {OLDEST_VERSION} to {VERSION}"
    assert (answer.code, answer.message) == ("version", expected)


def test_a_client_of_version_1(server, peer):
    """It is answered as a server of version 1 would."""
    one = peer(server)
    assert one.ask(encode([1, 1, 1, "old"])).version == 1
    assert isinstance(one.ask(encode([2, 2, [["a", ["k"], 60_000]]])), Submitted)
    one.send(encode([3, 3, [["k", 5]]]))
    answers = {type(one.receive()) for _ in range(2)}
    assert answers == {Completed, Outcomes}


def test_a_later_version_may_add_to_a_message(server, peer):
    """Unknown elements at the end of an array are ignored."""
    one = peer(server)
    one.hello()
    assert isinstance(
        one.ask(encode([2, 5, [["a", ["k"], 10, 1, "", None, None, "new"]], "new"])), Submitted
    )


def test_no_more_clients_than_are_taken(serve, peer):
    """Beyond `max_clients`, a client is refused until another has gone."""
    server = serve(memory=True, max_clients=1)
    one, two = peer(server), peer(server)
    one.hello()
    assert two.ask(Hello(1, VERSION, "two")).code == "too-many-clients"
    one.send(Bye(2))
    eventually(lambda: isinstance(two.ask(Hello(2, VERSION, "two")), Welcome))


def test_clients_that_go_without_bye_leave_room(serve, peer):
    """Their slots are free for others at once, not when they are pinged for being idle."""
    server = serve(memory=True, max_clients=100)
    gone = [peer(server) for _ in range(100)]
    for n, one in enumerate(gone):
        one.hello(f"gone {n}")
    for one in gone:
        one.socket.close(0)
    start = time.monotonic()
    # One after the other: the first may come in while the ends of most others are on their way.
    for n in range(100):
        late = peer(server)
        eventually(lambda one=late, n=n: isinstance(one.ask(Hello(1, VERSION, f"{n}")), Welcome))
    assert time.monotonic() - start < 20  # half a minute at least, while they held the slots


def test_a_full_server_does_not_ping_for_every_stranger(serve, peer, monkeypatch):
    """Those that are there are pinged once, however often others are refused."""
    monkeypatch.setattr(connections, "PING_ALL_S", HANG)
    server = serve(memory=True, max_clients=1)
    one, two = peer(server), peer(server)
    one.hello()
    for n in range(20):
        assert two.ask(Hello(n, VERSION, "two")).code == "too-many-clients"
    one.send(Stats(2))
    assert [type(one.receive()) for _ in range(2)] == [Ping, StatsReply]


GARBAGE = [
    b"",
    b"\x00",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\xc1" * 100,
    b"\x91" * 100_000,
    b"\xdd\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    encode([]),
    encode([99, 1]),
    encode([2]),
    encode([2, "seq", []]),
    encode([2, 1, [["a"]]]),
    encode([2, 1, [["a", [1], 10]]]),
    encode([2, 1, [["a", ["k"], 1e300]]]),
    encode([2, 1, [["a", ["k"], 2**64 - 1]]]),
    encode({"op": "submit"}),
    encode([3, 1, [[b"\xff\xfe", None]]]),
    encode([6, 1, [-1, 0, 2**63 - 1]]),
    b"\x93\x02\x01\x91\x93\xa1\xff\x91\xa1k\x01",
]


@pytest.mark.parametrize("greeted", [False, True], ids=["stranger", "client"])
def test_garbage(server, peer, greeted):
    """Garbage is answered with an error, or ignored; others are served."""
    bad, good = peer(server), peer(server)
    good.hello("good")
    if greeted:
        bad.hello("bad")
    dice = random.Random(1)
    frames = GARBAGE + [dice.randbytes(dice.randrange(200)) for _ in range(500)]
    whole = encode(Submit(1, [operation("a", "k", "l", kind="x")]))
    frames += [whole[:end] for end in range(len(whole))]
    for seq, frame in enumerate([*frames, (b"", b"two frames")], 1000):
        bad.send(*(frame if isinstance(frame, tuple) else (frame,)))
        bad.send(Stats(seq))
        while (answer := bad.receive()).seq != seq:
            assert isinstance(answer, Failure) or answer.refused
        assert isinstance(answer, Failure) != greeted
    assert good.ask(Stats(5)).stats["submitted"] == 0
    assert server.failure is None


def test_the_error_names_the_request_where_it_can(server, peer):
    """The error has the `seq` also of a request that cannot be decoded."""
    one = peer(server)
    one.hello()
    assert one.ask(encode([2, 77, [["a", [1], 10]]])).seq == 77
    assert one.ask(encode([99, 78])).seq == 78
    assert one.ask(encode(["?", "?"])).seq is None


def test_a_message_that_is_too_large(serve, peer):
    """It is refused; one far beyond the limit ends the connection of its sender, and no other."""
    server = serve(memory=True, max_message_bytes=1000)
    bad, good = peer(server), peer(server)
    bad.hello("bad")
    good.hello("good")
    assert bad.ask(b"\xc4" * 1001).code == "too-large"
    bad.send(b"x" * 100_000)
    assert good.ask(Stats(1)).stats["connections"] >= 1


def test_a_request_with_too_many_items(serve, peer):
    """It is refused as a whole, before it is decoded; the welcome says how many there may be."""
    one = peer(serve(memory=True, max_items=10))
    assert one.hello().limits.items == 10
    assert isinstance(one.ask(Query(2, ["a"] * 10)), States)
    for seq, request in enumerate((Query, Cancel, Acknowledge, Submit)):
        answer = one.ask(request(seq, [1] * 11))
        assert (answer.seq, answer.code) == (seq, "too-many-items")
    assert answer.message == "a request with 11 items; expected at most 10"


def test_a_raw_tcp_peer(server, peer):
    """It does no harm, whatever it sends."""
    host, port = server.address.removeprefix("tcp://").split(":")
    raw = []
    for words in (b"", b"GET / HTTP/1.0\r\n\r\n", b"\xff" + bytes(8) + b"\x7f", os.urandom(10_000)):
        raw.append(socket.create_connection((host, int(port)), timeout=HANG))
        raw[-1].sendall(words)
    reset = socket.create_connection((host, int(port)), timeout=HANG)
    reset.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reset.close()
    good = peer(server)
    good.hello()
    assert good.ask(Stats(1)).stats["connections"] == 1
    for one in raw:
        one.close()


def test_a_client_that_never_reads_is_cut_off(serve, peer, monkeypatch):
    """Its replies are kept up to a bound; others are served, and it may say hello again."""
    monkeypatch.setattr(network, "SOCKET_FRAMES", 2)
    monkeypatch.setattr(connections, "BACKLOG_BYTES", 1 << 20)
    server = serve(memory=True)
    deaf, good = peer(server, RCVHWM=1, SNDHWM=0), peer(server)
    deaf.hello("deaf")
    good.hello("good")
    for seq in range(200):  # 20 MB of answers: more than the buffers of the system
        deaf.send(Query(seq, ["x" * 1000] * 100))
    eventually(lambda: good.ask(Stats(1)).stats["connections"] == 1)
    # What it asks now is answered when it has read the replies that are in the buffers.
    eventually(lambda: getattr(deaf.ask(Stats(1000)), "code", "") == "hello")
    eventually(lambda: isinstance(deaf.ask(Hello(1001, VERSION, "deaf")), Welcome))


def test_outcomes_wait_for_a_client_that_does_not_read(serve, peer, monkeypatch):
    """They are not kept in memory, and none is lost when the client reads again."""
    monkeypatch.setattr(network, "SOCKET_FRAMES", 2)
    server = serve(memory=True)
    slow, good = peer(server, RCVHWM=1), peer(server)
    slow.hello("slow")
    good.hello("good")
    count = 3000
    value = Raw(encode("v" * 20_000))
    for start in range(0, count, 500):
        submit = Submit(
            start,
            [operation(f"o{n}", f"k{n}", timeout_ms=10**8) for n in range(start, start + 500)],
        )
        assert isinstance(slow.ask(submit), Submitted)
    for n in range(0, count, 10):
        pairs = [Completion(f"k{m}", value) for m in range(n, n + 10)]
        assert good.ask(Complete(n, pairs)).counts == [1] * 10
    found = server._running.network.connections.by_route.values()
    assert [one.backlog for one in found] == [deque(), deque()]
    got = set()
    while len(got) < count:
        message = slow.receive()
        if isinstance(message, Outcomes):
            got |= {outcome.number for outcome in message.outcomes}
    assert got == set(range(1, count + 1))
    for first in range(1, count + 1, 500):
        slow.send(Acknowledge(1, list(range(first, first + 500))))
    assert slow.ask(Query(2, ["sync"])).states[0].state == "unknown"
    assert server.stats().unacknowledged == 0


def test_a_client_that_goes_without_bye_is_noticed(server, peer, monkeypatch):
    """The next ping to it fails, and its connection is dropped."""
    gone, good = peer(server), peer(server)
    gone.hello("gone")
    good.hello("good")
    gone.socket.close(0)
    running = server._running.network
    monkeypatch.setattr(network, "IDLE_S", 0.01)
    running._next_ping = 0.0

    def noticed():
        good.send(Stats(1))
        while isinstance(answer := good.receive(), Ping):
            pass
        return answer.stats["connections"] == 1

    eventually(noticed)
    assert "gone" not in server._running.store_loop.state.clients.by_name


def test_two_connections_of_one_client(server, peer):
    """Both get its outcomes."""
    one, two = peer(server), peer(server)
    one.hello("same")
    two.hello("same")
    two.ask(Query(1, ["sync"]))
    one.ask(Submit(2, [operation("a", timeout_ms=0)]))
    assert [o.op_id for o in one.receive().outcomes] == ["a"]
    assert [o.op_id for o in two.receive().outcomes] == ["a"]


def test_an_address_in_use(server, serve):
    """The error names the address."""
    with pytest.raises(ServerError, match=f"cannot listen at {server.address}: Address"):
        serve(memory=True, bind=server.address)


def test_the_socket_can_be_secured(serve):
    """It is guarded before it is bound; an error there keeps the server from starting."""

    class SocketSecurity:
        def __init__(self, error=None):
            self.error = error
            self.seen = []

        def __call__(self, context, socket):
            self.context = context
            self.seen.append(socket.getsockopt(zmq.LAST_ENDPOINT))
            if self.error is not None:
                raise self.error

        def close(self):
            self.seen.append("closed before the context" if not self.context.closed else "late")

    good, bad = SocketSecurity(), SocketSecurity(ValueError("no keys"))
    serve({"secure": good}, memory=True).close()
    assert good.seen[0] in (b"\x00", b"")
    with pytest.raises(ValueError, match="no keys"):
        serve({"secure": bad}, memory=True)
    assert good.seen[1:] == bad.seen[1:] == ["closed before the context"]
