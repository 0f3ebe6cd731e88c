"""Connections: replies and outcomes to clients that read, do not read, or have gone."""

import errno

import pytest
import zmq

from purgatory.service.auth.access import Access
from purgatory.service.encoding import encode
from purgatory.service.protocol import Outcomes, Ping
from purgatory.service.server.commands import (
    ClientDisconnected,
    FetchOutcomes,
    OutcomeFrame,
    OutcomePush,
)
from purgatory.service.server.network import connections as module
from purgatory.service.server.network.connections import Connection, Connections
from tests.testing.fake_router import FakeRouter

GONE = zmq.ZMQError(errno.EHOSTUNREACH)


@pytest.fixture
def socket():
    return FakeRouter()


@pytest.fixture
def posted():
    """Commands to the store loop."""
    return []


@pytest.fixture
def clock():
    """A clock that the test sets, in seconds; its first item is the time."""
    return [0.0]


@pytest.fixture
def connections(socket, posted, clock):
    return Connections(socket, posted.append, lambda: clock[0])


@pytest.fixture
def connection(connections):
    """A connection that streams outcomes."""
    connection = Connection(b"r", "c", 0.0, "")
    connections.add(connection)
    connections.send_fetched(OutcomeFrame(b"r", None, 0))
    return connection


def test_a_streaming_connection_gets_outcomes_at_once(connections, connection, socket):
    """The others of the client fetch them."""
    connections.add(Connection(b"other", "c", 0.0, "", takes=False))
    connections.push(OutcomePush("c", 1, 2, b"outcomes"))
    assert socket.sent == [b"outcomes"]


def test_connections_are_logged_by_the_name_of_their_client(connections, connection, caplog):
    """With `--verbose` the last such line of a name says how many connections it has."""
    caplog.set_level("INFO", module.log.name)
    other = Connection(b"other", "c", 0.0, "")
    connections.add(other)
    connections.add(Connection(b"x", "x", 0.0, ""))
    connections.drop(other)
    assert caplog.messages == [
        "connections of client 'c': 2",
        "connections of client 'x': 1",
        "connections of client 'c': 1",
    ]


def outcomes_frame():
    """Return a frame of outcomes, and the same for a connection that takes none of them."""
    return encode(Outcomes([])), encode(Outcomes([], take=False))


def test_one_connection_of_a_client_takes_the_outcomes(connections, connection, socket, posted):
    """The newest; the others are sent them for their futures alone."""
    frame, for_futures = outcomes_frame()
    newest = Connection(b"new", "c", 0.0, "")
    connections.add(newest)
    newest.streaming = True
    connections.push(OutcomePush("c", 1, 1, frame))
    connections.send_fetched(OutcomeFrame(b"r", frame, 1))
    assert socket.sent == [for_futures, frame, for_futures]
    posted.clear()
    connections.drop(newest)
    assert posted == [ClientDisconnected("c", b"new"), FetchOutcomes(b"r", "c", 0)]
    connections.send_fetched(OutcomeFrame(b"r", frame, 1))
    assert socket.sent[3:] == [frame]


def test_a_connection_that_takes_over_while_it_fetches(connections, connection, posted):
    """It begins anew when it has fetched the rest."""
    newest = Connection(b"new", "c", 0.0, "")
    connections.add(newest)
    connection.streaming = False
    connections.drop(newest)
    posted.clear()
    connections.send_fetched(OutcomeFrame(b"r", None, 9))
    assert posted == [FetchOutcomes(b"r", "c", 0)]
    connections.send_fetched(OutcomeFrame(b"r", None, 9))
    assert connection.streaming


def test_rights_say_which_connection_takes(connections, connection, socket):
    """One that may not acknowledge takes nothing from another."""
    frame, for_futures = outcomes_frame()
    reader = Connection(b"new", "c", 0.0, "", access=Access("reader", rights=["read"]))
    connections.add(reader)
    reader.streaming = True
    connections.push(OutcomePush("c", 1, 1, frame))
    assert socket.sent == [frame, for_futures]


def test_a_connection_that_does_not_read(connections, connection, socket, posted):
    """Replies are kept and sent later; outcomes are fetched later, from the first not sent."""
    socket.error = zmq.Again()
    connections.send(connection, b"reply")
    connections.push(OutcomePush("c", 7, 9, b"outcomes"))
    connections.retry_blocked()
    assert connections.backlog
    assert connections.blocked
    socket.error = None
    connections.retry_blocked()
    connections.push(OutcomePush("c", 10, 10, b"later outcomes"))
    assert socket.sent == [b"reply"]
    assert posted == [FetchOutcomes(b"r", "c", 6)]
    assert not connections.blocked
    connections.send_fetched(OutcomeFrame(b"r", None, 10))
    connections.push(OutcomePush("c", 11, 11, b"new outcomes"))
    assert socket.sent == [b"reply", b"new outcomes"]


def test_outcomes_that_are_too_many_to_push(connections, connection, posted):
    """They are fetched, from the first on, and then pushed again."""
    connections.push(OutcomePush("c", 7, 9000, None))
    connections.push(OutcomePush("c", 9001, 9001, b"outcomes"))
    assert posted == [FetchOutcomes(b"r", "c", 6)]
    connections.send_fetched(OutcomeFrame(b"r", None, 9000))
    assert connection.streaming


def test_outcomes_that_are_sent_once_more(connections, connection, socket, posted):
    """The next ones are fetched when the connection has taken these; pushes go on beside."""
    again = FetchOutcomes(b"r", "c", 0, repeated=True)
    connections.send_fetched(OutcomeFrame(b"r", b"1", 3, repeated=True))
    assert posted == [again]
    socket.error = zmq.Again()
    connections.send_fetched(OutcomeFrame(b"r", b"2", 6, repeated=True))
    assert posted == [again]
    socket.error = None
    connections.retry_blocked()
    assert (socket.sent, posted) == ([b"1", b"2"], [again, again])
    connections.push(OutcomePush("c", 7, 7, b"3"))
    assert socket.sent[-1] == b"3"


def test_attempts_take_a_small_part_of_the_time(connections, connection, socket, clock):
    """If an attempt has taken long, the next one is a while later."""
    attempts, step_s = [], 0.0625

    def refuse(frame, flags):
        attempts.append(clock[0])
        clock[0] += step_s
        raise zmq.Again

    socket.send = refuse
    connections.send(connection, b"reply")
    for _ in range(4 * module.RETRY_PAUSE):
        connections.retry_blocked()
        clock[0] += step_s
    first, *others = attempts
    assert others == [first + (1 + n * module.RETRY_PAUSE) * step_s for n in range(len(others))]
    assert len(others) > 2


def test_a_process_that_is_stopped_during_an_attempt(connections, connection, socket, clock):
    """The answers leave a second after it goes on, however long it was stopped."""

    def stop(frame, flags):
        clock[0] += 600.0
        raise zmq.Again

    send, socket.send = socket.send, stop
    connections.send(connection, b"reply")
    connections.retry_blocked()
    socket.send = send
    clock[0] += module.MAX_RETRY_PAUSE_S
    connections.retry_blocked()
    assert socket.sent == [b"reply"]


@pytest.mark.parametrize("bound", ["BACKLOG_FRAMES", "BACKLOG_BYTES"])
def test_a_backlog_that_is_too_long(connections, connection, socket, posted, monkeypatch, bound):
    """The connection is dropped with the first frame, or byte, beyond."""
    most = 2 if bound == "BACKLOG_FRAMES" else 2 * (module.FRAME_BYTES + 1)
    monkeypatch.setattr(module, bound, most)
    socket.error = zmq.Again()
    connections.send(connection, b"1")
    connections.send(connection, b"2")
    assert posted == []
    connections.send(connection, b"")
    assert posted == [ClientDisconnected("c", b"r")]
    assert len(connections.by_route) == 0
    assert not connections.blocked


def test_backlogs_that_are_too_long_together(connections, socket, posted, monkeypatch):
    """Those are cut off that have not read for the longest time, until half of it is free."""
    monkeypatch.setattr(module, "ALL_BACKLOGS_BYTES", 10 * (module.FRAME_BYTES + 1))
    others = [Connection(b"%d" % n, f"c{n}", 0.0, "") for n in range(12)]
    for each in others:
        connections.add(each)
    connections.send(others[11], b"x")  # read at once
    socket.error = zmq.Again()
    connections.push(OutcomePush("c0", 1, 1, b"outcomes"))
    for n in (*range(1, 11), 11):
        connections.send(others[n], b"x")
    gone = [each.route for each in posted if isinstance(each, ClientDisconnected)]
    assert gone == [b"1", b"2", b"3", b"4", b"5", b"6"]
    socket.error = None
    connections.retry_blocked()
    assert not connections.backlog
    socket.error = zmq.Again()
    for _ in range(10):  # what was sent counts no longer
        connections.send(others[11], b"x")
    assert len(connections.by_route) == 6


@pytest.mark.parametrize(
    "send",
    [
        lambda connections, connection: connections.send(connection, b"reply"),
        lambda connections, _: connections.push(OutcomePush("c", 1, 1, b"outcomes")),
        lambda connections, _: connections.send_fetched(OutcomeFrame(b"r", b"outcomes", 1)),
        lambda connections, _: connections.ping_idle(1.0),
    ],
    ids=["reply", "push", "fetched", "ping"],
)
def test_a_connection_that_has_gone(connections, connection, socket, posted, send):
    """The next send drops it, and nothing is left to be tried again."""
    socket.error = GONE
    send(connections, connection)
    assert posted == [ClientDisconnected("c", b"r")]
    assert len(connections.by_route) == 0
    assert not connections.blocked


def test_routes_that_have_gone_are_remembered(connections, connection, socket):
    """Until the client says hello there again: it may choose its route."""
    socket.error = GONE
    connections.send(connection, b"reply")
    connections.send_before_hello(b"stranger", b"reply")
    assert connections.has_gone(b"r")
    assert connections.has_gone(b"stranger")
    connections.add(Connection(b"r", "c", 0.0, ""))
    assert not connections.has_gone(b"r")


def test_a_route_that_does_not_read_has_not_gone(connections, socket):
    """It gets answers again later."""
    socket.error = zmq.Again()
    connections.send_before_hello(b"stranger", b"reply")
    assert not connections.has_gone(b"stranger")


def test_only_so_many_routes_are_remembered(connections, socket):
    """The oldest is forgotten first."""
    socket.error = GONE
    for n in range(module.GONE_ROUTES + 1):
        connections.send_before_hello(b"%d" % n, b"reply")
    assert not connections.has_gone(b"0")
    assert connections.has_gone(b"1")


@pytest.mark.parametrize("send", ["send", "push", "ping", "stranger", "fetched"])
def test_no_frame_leaves_while_the_guard_forbids_it(socket, posted, clock, send):
    """Whatever the frame is; a reply leaves once the guard allows it, and outcomes are fetched."""
    allowed = [True]
    connections = Connections(socket, posted.append, lambda: clock[0], lambda: allowed[0])
    connection = Connection(b"r", "c", 0.0, "")
    connections.add(connection)
    connection.streaming = send != "fetched"
    allowed[0] = False
    posted.clear()
    {
        "send": lambda: connections.send(connection, b"reply"),
        "push": lambda: connections.push(OutcomePush("c", 1, 2, outcomes_frame()[0])),
        "ping": lambda: connections.ping_idle(1.0),
        "stranger": lambda: connections.send_before_hello(b"other", b"refusal"),
        "fetched": lambda: connections.send_fetched(OutcomeFrame(b"r", outcomes_frame()[0], 1)),
    }[send]()
    clock[0] += 1
    connections.retry_blocked()
    assert socket.sent == []
    allowed[0] = True
    clock[0] += 1
    connections.retry_blocked()
    assert socket.sent == ([b"reply"] if send == "send" else [])
    fetches = [one for one in posted if isinstance(one, FetchOutcomes)]
    assert len(fetches) == (1 if send in ("push", "fetched") else 0)


class NewList:
    """An allow list that gives each key the same rights."""

    def __init__(self, *rights):
        self._access = Access("c", rights=rights)

    def access_of(self, user):
        del user
        return self._access


@pytest.mark.parametrize(
    ("is_worker", "rights", "stays"),
    [
        (True, ("submit", "complete", "read", "administer"), True),  # which includes `work`
        (True, ("submit", "work"), True),
        (True, ("submit", "complete", "read"), False),
        (False, ("complete", "administer"), True),
        (False, ("submit", "complete", "read", "work"), False),
        (False, ("submit", "work"), False),
    ],
)
def test_rights_that_are_taken_away(connections, connection, posted, is_worker, rights, stays):
    """A connection ends whose jobs, or ends of watched jobs, the store would go on to send."""
    if is_worker:
        connections.workers[connection.route] = connection
    del posted[:]
    connections.apply_access(NewList(*rights))
    assert (connection.route in connections.by_route) == stays
    assert (ClientDisconnected("c", b"r") in posted) == (not stays)
    if not stays:
        connections.add(Connection(b"r", "c", 0.0, "", access=Access("c", rights=rights)))
        connections.apply_access(NewList(*rights))
        assert connection.route in connections.by_route


def test_a_full_server_looks_for_lost_connections(connections, connection, socket):
    """By a ping to all, now and then; while there is room it does not look."""
    for now, most, pings in (
        (5.0, 2, 0),
        (5.0, 1, 1),
        (5.0 + 0.9 * module.PING_ALL_S, 1, 1),
        (5.0 + module.PING_ALL_S, 1, 2),
    ):
        assert connections.has_room(most, now) is (most == 2)
        assert socket.sent == [encode(Ping())] * pings
    socket.error = GONE
    assert connections.has_room(1, 5.0 + 2 * module.PING_ALL_S)
