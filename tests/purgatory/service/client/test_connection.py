"""ServerConnection: frames that are no messages; when a connection counts as lost."""

from threading import Thread
from types import SimpleNamespace

import pytest
import zmq

from purgatory.service import Client
from purgatory.service.client import connection
from purgatory.service.client.connection import RECONNECT_DELAY_S, ServerConnection
from purgatory.service.client.route.socket_options import SocketOptions
from purgatory.service.encoding import encode
from purgatory.service.protocol import Bye, StatsReply
from tests.testing.purgatory_harness import HANG
from timingwheel import COMPILED


def test_a_frame_that_is_no_message(fake, caplog):
    """It is logged, and the client goes on: answers after it are had."""
    with Client(fake.address, timeout=HANG) as client:
        results = []
        thread = Thread(target=lambda: results.append(client.stats()))
        thread.start()
        seq = fake.receive().seq
        fake.router.send_multipart([fake.route, b"\xff"])
        fake.send(StatsReply(seq, {"x": 1}))
        thread.join(HANG)
        assert results == [{"x": 1}]
    assert "not of protocol 3" in caplog.text


@pytest.mark.skipif(COMPILED, reason="a compiled connection wants a session")
@pytest.mark.parametrize(
    ("state", "at"),
    [
        ({"reconnect_at": 101.0, "_is_welcome": True}, None),
        ({}, None),
        ({"_attempt_until": 103.0}, 103.0),
        ({"_is_welcome": True, "_attempt_until": 103.0}, 102.0),
        ({"_is_welcome": True, "_is_probed": True}, 140.0),
        ({"_is_welcome": True, "_is_probed": True, "_has_choice": True}, 106.7),
    ],
    ids=["away", "alone", "choosing", "quiet", "probed", "probed, with a choice"],
)
def test_when_to_look_for_life(state, at):
    """Before the attempt is over, to probe, to look for another server, and to give up."""
    link = ServerConnection(("tcp://127.0.0.1:1",), None, SocketOptions(None, 10.0), None)
    try:
        link._heard_at, link.probe_s = 100.0, 2.0
        for name, value in state.items():
            setattr(link, name, value)
        assert link.next_look_at == (at if at is None else pytest.approx(at))
    finally:
        link.discard()


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
@pytest.mark.parametrize(
    ("state", "done"),
    [
        ({"_attempt_until": 3.0}, "the server does not answer"),
        ({"_is_welcome": True}, "probe"),
        ({"_is_welcome": True, "_is_probed": True}, "the server is silent"),
        ({"_is_welcome": True, "_is_probed": True, "_has_choice": True}, "look for another"),
    ],
)
def test_what_is_planned_is_done_at_its_time(monkeypatch, state, done):
    """At the time of the next look, or the I/O thread would spin; not before."""
    session = SimpleNamespace(expects_frames=True, probe=lambda: "probe", trial_hello=None)
    link = ServerConnection(("tcp://127.0.0.1:1",), session, SocketOptions(None, 10.0), None)
    link.probe_s, found = 2.0, []
    monkeypatch.setattr(link, "drop", lambda reason, *_, **__: found.append(reason))
    monkeypatch.setattr(link, "_send", found.append)
    monkeypatch.setattr(link._scout, "look", lambda *_: found.append("look for another"))
    try:
        for name, value in state.items():
            setattr(link, name, value)
        at = link.next_look_at
        for now, wanted in ((at - 0.01, []), (at, [done])):
            monkeypatch.setattr(link, "_monotonic", lambda now=now: now)
            link._look_for_life()
            assert found == wanted
    finally:
        link.discard()


@pytest.mark.skipif(COMPILED, reason="a compiled connection wants a session")
def test_it_looks_for_another_server():
    """With a socket to it, and a hello; the silent one keeps its own."""
    session = SimpleNamespace(expects_frames=True, trial_hello=lambda: b"hello")
    addresses = ("tcp://127.0.0.1:1", "tcp://127.0.0.1:2")
    link = ServerConnection(addresses, session, SocketOptions(None, 10.0), None)
    link._is_welcome = link._is_probed = link._has_choice = True
    link._heard_at, link.probe_s, link._monotonic = 100.0, 3.3, lambda: 107.0
    try:
        link._look_for_life()
        assert link._scout.is_under_way
        assert link._scout.address != link._route.current
        assert {link._scout.address, link._route.current} == set(addresses)
    finally:
        link.discard()


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
@pytest.mark.parametrize(
    ("error", "dropped"),
    [
        ("", ("the connection was lost", 0, True)),
        ("not connected yet", ("not connected yet", RECONNECT_DELAY_S, False)),
    ],
)
def test_a_connection_that_ends(monkeypatch, error, dropped):
    """A request may be the cause if the server had accepted the connection; else it backs off."""
    link = ServerConnection(("tcp://127.0.0.1:1",), None, SocketOptions(None, 10.0), None)
    link.error, received, found = error, [2, 1], []

    def receive():
        received.pop()
        link.frames_pending = bool(received)

    def drop(reason, seconds, *, lost=False):
        found.append((reason, seconds, lost))

    monkeypatch.setattr(link, "_receive", receive)
    monkeypatch.setattr(link, "drop", drop)
    try:
        link._on_disconnected()
    finally:
        link.discard()
    assert (received, found) == ([], [dropped])


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
@pytest.mark.parametrize("seconds", [0, 0.3])
def test_the_pause_after_a_lost_connection(monkeypatch, seconds):
    """It begins now; a connection that is gone already is not lost again."""
    session = SimpleNamespace(standby=None, connection_lost=True)
    link = ServerConnection(("tcp://127.0.0.1:1",), session, SocketOptions(None, 10.0), None)
    lost = []
    monkeypatch.setattr(link, "_disconnect", lost.append)
    link._monotonic, link._away_since = lambda: 100.0, None
    try:
        link.drop("no reason", seconds, lost=True)
        link.drop("another", 60.0)
    finally:
        link.discard()
    assert (link.reconnect_at, link.no_answer_since) == (100.0 + seconds, 100.0)
    assert (lost, link.error, session.connection_lost) == ([True], "no reason", False)


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
@pytest.mark.parametrize(("now", "opens"), [(99.9, False), (100.0, True), (101.0, True)])
def test_when_it_connects_again(monkeypatch, now, opens):
    """At the end of the pause; nothing else is done in that step."""
    link = ServerConnection(("tcp://127.0.0.1:1",), None, SocketOptions(None, 10.0), None)
    opened = []
    monkeypatch.setattr(link, "open", lambda: opened.append(now))
    link.reconnect_at, link._monotonic = 100.0, lambda: now
    try:
        link.step()
    finally:
        link.discard()
    assert (opened, link.reconnect_at) == (([now], None) if opens else ([], 100.0))


@pytest.mark.skipif(COMPILED, reason="a compiled connection wants a session")
@pytest.mark.parametrize("frames", [0, 1, 3])
def test_when_the_server_was_heard(frames):
    """When frames came; not when the socket had none. It is probed anew after the next silence."""
    session = SimpleNamespace(standby=None, welcome=None, busy=False, handle=lambda message: [])
    link = ServerConnection(("tcp://127.0.0.1:1",), session, SocketOptions(None, 10.0), None)
    link._is_welcome, link._is_probed, link.probe_s = True, True, 2.0
    link._socket, waiting = SimpleNamespace(getsockopt=lambda option: zmq.POLLIN), [b"?"] * frames

    def receive(flags):
        if not waiting:
            raise zmq.Again
        return waiting.pop()

    link._socket.recv, link._monotonic, link._heard_at = receive, lambda: 7.0, 3.0
    try:
        link._receive()
    finally:
        link.discard()
    assert link._heard_at == (7.0 if frames else 3.0)
    assert link.next_look_at == (9.0 if frames else 43.0)
    assert (link.no_answer_since is None) == bool(frames)


@pytest.mark.skipif(COMPILED, reason="a compiled connection wants a session")
@pytest.mark.parametrize("messages", [None, [], [b"a"], [b"a", b"b"]])
def test_a_call_is_sent_at_once_or_not_at_all(messages):
    """As its session says; from then on the server is silent until it answers."""
    begun, sent = [], []
    session = SimpleNamespace(
        begin=lambda request, call: begun.append((request, call)) or messages,
        busy=messages is not None,
    )
    link = ServerConnection(("tcp://127.0.0.1:1",), session, SocketOptions(), None)
    link._socket = SimpleNamespace(
        send=lambda frame, flags: sent.append(frame), getsockopt=lambda option: zmq.POLLIN
    )
    link._away_since, link._monotonic = None, lambda: 7.0
    try:
        assert link.send_call("request", "call") is (messages is not None)
    finally:
        link.discard()
    assert begun == [("request", "call")]
    assert sent == (messages or [])
    assert link.no_answer_since == (None if messages is None else 7.0)
    assert link.frames_pending == bool(messages)


@pytest.mark.skipif(COMPILED, reason="a compiled connection wants a session")
@pytest.mark.parametrize("connected", [True, False])
def test_close_says_bye(monkeypatch, connected):
    """The last message may take 200 ms; without a connection there is nothing to say."""
    done = []

    class Recorder:
        def __init__(self, name):
            self._name = name

        def __getattr__(self, method):
            return lambda *values: done.append((self._name, method, *values))

    link = ServerConnection(("tcp://127.0.0.1:1",), None, SocketOptions(), None)
    link.discard()
    for name in ("_context", "_socket", "_monitor", "_scout"):
        setattr(link, name, Recorder(name))
    monkeypatch.setattr(connection, "OPEN", Recorder("OPEN"))
    link.reconnect_at, link._connected = None if connected else 5.0, 7
    link.close()
    assert done == [
        ("_scout", "close"),
        *[
            ("_socket", "send", encode(Bye(0)), zmq.NOBLOCK),
            ("_socket", "setsockopt", zmq.LINGER, 200),
            ("_socket", "disable_monitor"),
            ("_monitor", "close", 0),
            ("_socket", "close"),
            ("OPEN", "remove", 7),
        ]
        * connected,
        ("_context", "term"),
    ]
