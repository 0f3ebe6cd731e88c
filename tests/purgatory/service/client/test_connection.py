"""ServerConnection: frames that are no messages; when a connection counts as lost."""

import resource
from threading import Thread
from types import SimpleNamespace

import pytest
import zmq

from purgatory.service import Client
from purgatory.service.client import connection
from purgatory.service.client.connection import RECONNECT_DELAY_S, ServerConnection
from purgatory.service.client.io_thread import MAX_FAILURES
from purgatory.service.client.route.scout import LOOK_S
from purgatory.service.client.route.socket_options import SocketOptions
from purgatory.service.encoding import encode
from purgatory.service.errors import Standby
from purgatory.service.protocol import Bye, StatsReply
from tests.testing.purgatory_harness import HANG
from timingwheel import COMPILED

ONE, TWO = "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"


class FakeSession(SimpleNamespace):
    """A session that notes what it is told."""

    def __init__(self, **fields):
        given = {"standby": None, "welcome": None, "busy": False, "connection_lost": True}
        super().__init__(**given | fields, told=[])

    def on_disconnected(self, lost):
        self.told.append(lost)

    def on_connected(self):
        return b"hello"


@pytest.fixture
def link():
    """A connection to `addresses` at second 100, open but for its peer."""
    links = []

    def make(*addresses, **fields):
        doorbell = SimpleNamespace(register=lambda _: None, unregister=lambda _: None)
        made = ServerConnection(
            addresses or (ONE,), FakeSession(**fields), SocketOptions(None, 10.0), doorbell
        )
        links.append(made)
        made._monotonic = lambda: 100.0
        made.open()
        return made

    yield make
    for made in links:
        made.drop("the test is over", 0)
        made.discard()


needs_fakes = pytest.mark.skipif(COMPILED, reason="a compiled connection wants a session")


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


@needs_fakes
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
        for name, value in ({"_heard_at": 50.0} | state).items():
            setattr(link, name, value)
        at = link.next_look_at
        for now, wanted in ((at - 0.01, []), (at, [done])):
            monkeypatch.setattr(link, "_monotonic", lambda now=now: now)
            link._look_for_life()
            assert found == wanted
    finally:
        link.discard()


@needs_fakes
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


@needs_fakes
@pytest.mark.parametrize("frames", [0, 1, 3, connection.FRAMES_PER_STEP + 1])
@pytest.mark.parametrize("is_told", [True, False])
def test_when_the_server_was_heard(frames, is_told):
    """When frames came, so many in a step; not when the socket had none.

    It is probed anew after the next silence.
    """
    session = SimpleNamespace(standby=None, welcome=None, busy=False, handle=lambda message: [])
    link = ServerConnection(("tcp://127.0.0.1:1",), session, SocketOptions(None, 10.0), None)
    link._is_welcome, link._is_probed, link.probe_s = True, True, 2.0
    waiting = [b"?"] * frames
    link._socket = SimpleNamespace(getsockopt=lambda _: zmq.POLLIN * (bool(waiting) or not is_told))

    def receive(flags):
        if not waiting:
            raise zmq.Again
        return waiting.pop()

    link._socket.recv, link._monotonic, link._heard_at = receive, lambda: 7.0, 3.0
    link.frames_pending = link._sent = True
    try:
        link._receive()
    finally:
        link.discard()
    assert link._heard_at == (7.0 if frames else 3.0)
    assert link.next_look_at == (9.0 if frames else 43.0)
    assert (link.no_answer_since is None) == bool(frames)
    assert link.frames_pending is link._sent is bool(waiting)


@needs_fakes
@pytest.mark.parametrize("frame", [None, encode(StatsReply(1, {}))])
@pytest.mark.parametrize("ready", [0, zmq.POLLIN])
def test_a_caller_receives_one_message(link, frame, ready):
    """And learns whether there are more: receiving may have consumed the event."""
    made, socket = link(), SimpleNamespace(getsockopt=lambda _: ready)

    def receive(flags):
        assert flags == zmq.NOBLOCK
        if frame is None:
            raise zmq.Again
        return frame

    socket.recv, made._is_probed = receive, True
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "_socket", socket)
        message = made.receive_one()
    assert message == (None if frame is None else StatsReply(1, {}))
    assert made.frames_pending is (frame is not None and bool(ready))
    assert (made._heard_at == 100) is (frame is not None) is not made._is_probed
    assert not made._sent


@needs_fakes
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


@needs_fakes
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


@needs_fakes
@pytest.mark.parametrize(
    ("addresses", "probe_s", "until"), [((ONE,), 10, None), ((ONE, TWO), 3.3, 101.0)]
)
def test_one_server_is_probed_late(link, addresses, probe_s, until):
    """With a choice a client probes earlier, and an attempt to connect has an end."""
    made = link(*addresses)
    assert (made.probe_s, made.next_look_at) == (pytest.approx(probe_s), until)
    assert (made.frames_pending, made.monitor_pending) == (True, True)
    assert bool(made._socket.getsockopt(zmq.HEARTBEAT_IVL)) is (until is None)


@needs_fakes
def test_an_address_that_is_none():
    """The error reaches the caller, and the socket is closed."""
    made = ServerConnection(("nowhere",), FakeSession(), SocketOptions(), None)
    try:
        with pytest.raises(zmq.ZMQError):
            made.open()
        assert made._socket.closed
        assert made._monitor.closed
    finally:
        made.discard()


@needs_fakes
def test_an_address_that_is_none_among_others(link):
    """The client goes on to the next; a scout finds no server there."""
    made = link(ONE, "ipc://@")
    made.drop("gone", 0)
    made.step()
    assert made._route.current == ONE
    assert made.error == "cannot connect: Invalid argument (addr='ipc://@')"
    assert made.reconnect_at == 100 + RECONNECT_DELAY_S
    assert not made._scout.look(["ipc://@"], lambda: b"hello")
    made._scout.close()


@needs_fakes
@pytest.mark.parametrize("addresses", [(ONE,), (ONE, TWO)])
def test_no_descriptor_is_left(link, addresses):
    """The client tries again until there is one, with one address as with several."""
    made = link(*addresses)
    made.drop("gone", 0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        for _ in range(MAX_FAILURES + 1):
            made._monotonic = lambda at=made.reconnect_at: at
            made.step()
            assert made.reconnect_at >= made._monotonic() + RECONNECT_DELAY_S
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert made.error == "cannot connect: Too many open files"
    made._monotonic = lambda at=made.reconnect_at: at
    made.step()
    assert made.reconnect_at is None


@needs_fakes
def test_a_scout_has_a_socket_of_its_own(link):
    """It looks while the client waits."""
    made = link(ONE, TWO)
    made._is_welcome = made._is_probed = True
    assert not made._scout.look(made._route.others(), lambda: b"hello")
    assert made.next_look_at == 100 + LOOK_S
    made._scout.close()


@needs_fakes
@pytest.mark.parametrize("standby", [None, Standby("standby")])
def test_a_server_that_sends_its_clients_away(link, standby):
    """The connection is dropped, and the error says why."""
    made = link(standby=standby, take_messages=list)
    made.frames_pending = made.monitor_pending = False
    made.step()
    why = "the server has sent us away" if standby is None else "the server is a standby"
    assert (made.error, made.reconnect_at) == (why, 100.3)


@needs_fakes
@pytest.mark.parametrize("is_away", [True, False])
@pytest.mark.parametrize(
    ("addresses", "standby", "how", "current", "wait_s"),
    [
        ((ONE,), "", {}, ONE, 7),
        ((ONE,), TWO, {}, TWO, 0),
        ((ONE,), TWO, {"stay": True}, ONE, 7),
        ((ONE,), "", {"go_to": TWO}, TWO, 0),
        ((ONE, TWO), "", {"lost": True}, TWO, 0),
    ],
)
def test_where_it_goes_when_it_is_dropped(link, addresses, standby, how, current, wait_s, is_away):
    """To the address of a standby, the given or the next one; else it waits."""
    standby = SimpleNamespace(address=standby) if standby else None
    made = link(*addresses, standby=standby)
    made._away_since = 50.0 if is_away else None
    for _ in range(2):  # the second time there is nothing to drop
        made.drop("gone", 7, **how)
        assert (made.reconnect_at, made._route.current, made.error) == (
            100 + wait_s,
            current,
            "gone",
        )
    session = made._session
    assert (session.told, session.connection_lost) == ([how.get("lost", False)], False)
    assert session.standby is (standby if "stay" in how else None)
    assert made.no_answer_since == (50 if is_away else 100)
    assert made.is_calm
    assert made.next_look_at is None


@needs_fakes
@pytest.mark.parametrize("standby", [None, "a standby"])
@pytest.mark.parametrize("welcome", [None, "a welcome"])
def test_frames_are_answers_but_for_those_of_a_standby(link, standby, welcome):
    """They end a silence; with a welcome the attempt has succeeded, once."""
    made = link(ONE, TWO, standby=standby, welcome=welcome)
    made._is_probed, made._monotonic, welcomes = True, lambda: 107.0, []
    made._route.note_welcome = lambda: welcomes.append(1)
    made.note_frames()
    made.note_frames()
    is_answer = standby is None
    assert made._is_welcome is bool(is_answer and welcome)
    assert len(welcomes) == made._is_welcome
    assert made._is_probed is not is_answer
    assert (made.no_answer_since is None) is is_answer
    if made._is_welcome:
        assert made.next_look_at == pytest.approx(107 + 3.3)
        assert made.silent_since == 107
    made._session.standby = None


@needs_fakes
@pytest.mark.parametrize(
    ("events", "dropped"),
    [
        ([zmq.EVENT_CONNECTED, zmq.EVENT_HANDSHAKE_SUCCEEDED], ()),
        (
            [zmq.EVENT_CONNECTED, zmq.EVENT_HANDSHAKE_SUCCEEDED, zmq.EVENT_DISCONNECTED],
            ("the connection was lost", 0, True),
        ),
        ([zmq.EVENT_CONNECTED, zmq.EVENT_DISCONNECTED], ("not connected yet", 0.3, False)),
        ([zmq.EVENT_CONNECT_RETRIED], (f"no server can be reached at {ONE}", 0.3, False)),
        ([zmq.EVENT_HANDSHAKE_FAILED_AUTH], ("the server refused the connection", 0.3, False)),
    ],
)
def test_what_zeromq_tells(link, monkeypatch, events, dropped):
    """A handshake begins the session; what ends the connection ends it once."""
    made, found, sent, opened, received = link(), [], [], [], []
    left = [*events]
    monkeypatch.setattr(connection, "recv_monitor_message", lambda _: (left.pop(0), 9))
    monkeypatch.setattr(connection, "OPEN", SimpleNamespace(add=lambda *of: opened.append(of)))
    monkeypatch.setattr(made, "_send", sent.append)

    def receive():
        received.append(made._session.told[:])
        made.frames_pending = len(received) < 2

    def drop(reason, seconds, lost=False):
        found.append((reason, seconds, lost))

    monkeypatch.setattr(made, "drop", drop)
    monkeypatch.setattr(made, "_receive", receive)
    with monkeypatch.context() as patch:
        patch.setattr(made, "_monitor", SimpleNamespace(poll=lambda _: bool(left)))
        made.monitor_pending, made.frames_pending = True, False
        made._read_monitor()
    assert not made.monitor_pending
    assert found == ([dropped] if dropped else [])
    assert opened == [(9, ONE)] * events.count(zmq.EVENT_CONNECTED)
    assert sent == [b"hello"] * events.count(zmq.EVENT_HANDSHAKE_SUCCEEDED)
    assert len(received) == 2 * events.count(zmq.EVENT_DISCONNECTED)
