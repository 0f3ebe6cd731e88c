"""ClientIOThread: the end of a connection, and callers that do without the thread."""

import math
import select
import threading
from concurrent.futures import Future
from os import environ
from pathlib import Path

import pytest

from purgatory.service import Client, RequestTimeout, Unavailable
from purgatory.service.client import client as client_module
from purgatory.service.client import io_thread
from purgatory.service.client.connection import ServerConnection
from purgatory.service.client.futures import HandledReply, ReplyFuture
from purgatory.service.client.io_thread import CloseCommand, FlushCommand
from purgatory.service.client.outcomes import OutcomeHandled
from purgatory.service.client.patience import Patience
from purgatory.service.client.route.socket_options import SocketOptions
from purgatory.service.client.session import Session
from purgatory.service.encoding import decode_request
from purgatory.service.platform import CAN_LEND, Platform
from purgatory.service.protocol import (
    NOTHING,
    Complete,
    Completed,
    OutcomeMessage,
    Outcomes,
    Ping,
    Raw,
    Stats,
    StatsReply,
)
from tests.testing.eventually import eventually
from tests.testing.interrupts import TimeLimit, interrupted_at
from tests.testing.purgatory_harness import HANG
from timingwheel import COMPILED


def test_an_answer_before_the_end_is_had(serve, connect):
    """An answer counts although the server is gone before the I/O thread reads it."""
    server = serve()
    client = connect(server)
    client.stats()
    io_thread = client._io_thread
    client._batcher._send_now = lambda *_: False  # it is this thread that sends
    sleep, ends, calls = io_thread._doorbell.sleep, [], 0

    def sleep_until_it_is_gone(seconds):
        if io_thread._session.busy and not ends:
            eventually(lambda: server.stats().submitted == calls)
            server.close()
            ends.append(server.wait(HANG))
            ends.extend(select.select([io_thread._connection.descriptors[1]], [], [], HANG)[0])
        sleep(seconds)

    io_thread._doorbell.sleep = sleep_until_it_is_gone
    while not ends:  # on a busy machine the answer may be there before the I/O thread sleeps
        calls += 1
        assert client.submit_later("k").result(HANG).state == "pending"
        assert calls < 100
    assert len(ends) == 2
    assert all(ends)


def test_a_caller_that_has_flushed_finds_it_free(server, connect):
    """It calls again at once: a turn that the I/O thread still has would send it there again."""
    client = connect(server)
    client.stats()
    io_thread = client._io_thread
    found = []
    answered = HandledReply(lambda _: found.append(io_thread.turn.holder))
    io_thread.post(FlushCommand(answered))
    eventually(lambda: found == [0])


def test_a_flush_that_the_end_cuts_off():
    """It raises: the calls before it were not answered."""
    client = Client("tcp://127.0.0.1:9")
    client.complete_later("k")
    answered = ReplyFuture()
    client._io_thread.post(FlushCommand(answered))
    client.close(0)
    with pytest.raises(Unavailable, match="the client is closed"):
        answered.result(HANG)


# The places of an interrupt that are tried: all of them, or every so many.
STRIDE = 1 if "PURGATORY_ROUNDS" in environ else 11
FOLDER = (str(Path(client_module.__file__).parent),)

needs_epoll = pytest.mark.skipif(not CAN_LEND, reason="this system has no epoll")


def steps_of(io_thread):
    """Return a list to which each sleep of the I/O thread adds an item: one for each step."""
    steps, sleep = [], io_thread._doorbell.sleep

    def count(seconds):
        steps.append(1)
        sleep(seconds)

    io_thread._doorbell.sleep = count
    return steps


@needs_epoll
def test_the_io_thread_sleeps(server, connect):
    """Calls that come alone do without it."""
    client = connect(server)
    client.stats()
    client.flush()
    steps = steps_of(client._io_thread)
    for n in range(50):
        client.defer(f"k{n}", timeout=HANG)
        client.flush()
        assert client.stats()["pending"] == n + 1
    # ZeroMQ may wake it now and then, more often on a busy machine; 150 otherwise.
    assert len(steps) < 75
    assert client.complete("k0") == 1


def test_callbacks_run_in_the_io_thread(server, connect):
    """Also those of a future whose answer a caller would receive.

    One that is added to a future that is done already is run at once, as with any future.
    """
    client = connect(server, on_outcome=lambda _: None)
    client.stats()
    names = []
    main, adding, done = threading.main_thread(), threading.Event(), threading.Event()

    def note(_):
        here = threading.current_thread()
        names.append("added late" if here is main and adding.is_set() else here.name)
        if len(names) == 40:
            done.set()

    def add(future):
        adding.set()
        future.add_done_callback(note)
        adding.clear()

    for n in range(20):
        future = client.defer(f"k{n}", timeout=HANG)
        add(future)
        client.flush()
        answer = client.complete_later(f"k{n}")
        add(answer)
        assert answer.result(HANG) == 1
        client.flush()
    assert done.wait(HANG)
    assert set(names) - {"added late"} == {client._io_thread.thread.name}


def in_thread(call):
    """Run a call in a thread; returns the thread and the list that gets its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    return thread, results


def test_others_are_served_while_a_caller_waits(fake):
    """A call of another thread is sent, and answered, before the first one's answer is there."""
    with Client(fake.address, timeout=HANG) as client:
        greeted, _ = in_thread(client.stats)
        fake.send(StatsReply(fake.receive().seq, {}))
        greeted.join(HANG)
        first, first_results = in_thread(lambda: client.complete("a"))
        waiting = fake.receive()
        assert isinstance(waiting, Complete)
        fake.send(Ping())
        second, second_results = in_thread(client.stats)
        other = fake.receive()
        assert isinstance(other, Stats)
        fake.send(StatsReply(other.seq, {"x": 1}))
        second.join(HANG)
        assert second_results == [{"x": 1}]
        assert first.is_alive()
        fake.send(Completed(waiting.seq, [7]))
        first.join(HANG)
        assert first_results == [7]


def test_outcomes_come_while_a_caller_waits(fake):
    """They go to the I/O thread at once."""
    got = threading.Event()
    with Client(fake.address, timeout=HANG, on_outcome=lambda _: got.set()) as client:
        first, results = in_thread(lambda: client.complete("a"))
        waiting = fake.receive()
        fake.send(Outcomes([OutcomeMessage(1, "x", "expired", 5, None, Raw(NOTHING), "", 0, 5)]))
        assert got.wait(HANG)
        assert fake.receive().outcomes == [1]
        fake.send(Completed(waiting.seq, [7]))
        first.join(HANG)
        assert results == [7]


@needs_epoll
def test_a_welcome_that_a_caller_receives(fake):
    """It counts as one that the I/O thread receives: the connection is not given up."""
    with Client(f"{fake.address},tcp://127.0.0.1:1", timeout=HANG) as client:
        io_thread = client._io_thread
        complete, results = in_thread(lambda: client.complete("a"))
        fake.receive()
        fake.restart()
        fake.route, hello = fake.router.recv_multipart()
        # As `flush` does, once the I/O thread has nothing to do.
        flush, _ = in_thread(lambda: eventually(lambda: io_thread.lead(None, HANG)))
        eventually(lambda: io_thread._is_lent)
        while fake.router.poll(0):  # the client has given up waiting, and said hello again
            fake.route, hello = fake.router.recv_multipart()
        fake.greet(decode_request(hello))
        request = fake.receive()
        eventually(lambda: io_thread._connection._is_welcome)
        fake.send(Completed(request.seq, [7]))
        complete.join(HANG)
        flush.join(HANG)
        assert results == [7]


def test_close_while_a_caller_waits(fake):
    """The caller learns of it at once."""
    client = Client(fake.address, timeout=HANG)
    errors = []

    def wait():
        try:
            client.complete("a")
        except Exception as error:
            errors.append(type(error).__name__)

    caller = threading.Thread(target=wait)
    caller.start()
    fake.receive()
    client.close(0)
    caller.join(HANG)
    assert errors == ["Unavailable"]


def test_no_caller_uses_a_connection_that_is_closed(fake, monkeypatch):
    """The I/O thread has the turn then, and gives it up."""
    client = Client(fake.address, timeout=HANG)
    loop, turns = client._io_thread, []
    close = loop._doorbell.close

    def close_in_turn():
        turns.append(loop.turn.is_mine())
        close()

    monkeypatch.setattr(loop._doorbell, "close", close_in_turn)
    client.close(0)
    assert turns == [True]
    assert loop.turn.try_take()


def test_a_second_close_gives_no_more_time(fake):
    """The client ends when the first allows."""
    client = Client(fake.address, timeout=HANG)
    client.defer("k", timeout=HANG)
    fake.receive()
    first, *_ = in_thread(lambda: client.close(0.3))
    client.close(100 * HANG)
    first.join(HANG)
    assert not client._io_thread.thread.is_alive()


def test_a_caller_whose_time_is_over(fake):
    """It raises, and the next call works."""
    with Client(fake.address, timeout=HANG) as client:
        in_thread(client.stats)[0].join(0)
        fake.send(StatsReply(fake.receive().seq, {}))
        client.flush()
        client.timeout = 0.05
        with pytest.raises(RequestTimeout):
            client.complete("a")
        client.timeout = HANG
        late = fake.receive()
        caller, results = in_thread(lambda: client.complete("b"))
        fake.send(Completed(late.seq, [1]))
        fake.send(Completed(fake.receive().seq, [2]))
        caller.join(HANG)
        assert results == [2]


@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeLimit])
@pytest.mark.parametrize("call", ["complete", "defer"])
def test_an_interrupt(server, connect, call, error):
    """Wherever it comes: the interrupted call is done or not, all others are done, and once.

    An Exception of a signal handler is raised, too: it is no error of the operation.
    """
    client, other = connect(server), connect(server)
    place, fired = 1, True
    while fired:
        key = f"{call} {place}"
        before = client.defer(key, timeout=HANG)
        client.flush()
        deferred = []

        def complete(key=key):
            client.complete(key, 1)

        def defer(key=key, deferred=deferred):
            deferred.append(client.defer(f"new {key}", timeout=HANG))
            client.flush()

        made = complete if call == "complete" else defer
        interrupter = interrupted_at(place, made, FOLDER, error)
        client.flush()
        assert not any(future.done() for future in deferred), interrupter.where
        assert client.complete(f"nothing {key}") == 0
        other.complete(key, 2)
        assert before.result(HANG) in (1, 2)
        assert other.complete(f"new {key}") <= 1
        place += STRIDE
        fired = interrupter.fired
    # Fewer if the I/O thread makes the calls: the machine is busy. Compiled code has no lines.
    assert place > (20 if COMPILED else 50)
    assert server.stats().pending == 0


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
def test_a_step_that_fails(server, connect):
    """The client replaces its connection and goes on: whatever was not answered is sent again."""
    client = connect(server)
    step, errors = client._io_thread._connection.step, [SystemExit(), ValueError(), OSError(24)]

    def fail_at_first():
        if errors:
            raise errors.pop()
        step()

    client._io_thread._connection.step = fail_at_first
    futures = [client.defer("k") for _ in range(3)]
    client.flush()
    assert client.complete("k", 5) == 3
    assert [future.result(HANG) for future in futures] == [5] * 3
    assert not errors


@pytest.mark.skipif(COMPILED, reason="a compiled class cannot be replaced")
def test_a_client_that_cannot_be_made(monkeypatch):
    """It leaves no sockets behind."""
    made = []

    class Failing(ServerConnection):
        def open(self):
            made.append(self)
            super().open()
            raise OSError(24, "too many open files")

    monkeypatch.setattr(io_thread, "ServerConnection", Failing)
    with pytest.raises(OSError, match="too many open files"):
        Client("tcp://127.0.0.1:1", name="me")
    assert made[0]._context.closed


@pytest.mark.skipif(COMPILED, reason="a compiled method cannot be replaced")
def test_a_thread_that_cannot_go_on(server, connect):
    """If so many steps fail in a row, its calls do, and say why."""
    client, steps = connect(server), []

    def fail():
        steps.append(1)
        raise ValueError("broken caf\udce9")

    client._io_thread._connection.step = fail
    with pytest.raises(Unavailable, match="the client has failed: ValueError: broken"):
        client.defer("k").result(HANG)
    assert len(steps) == io_thread.MAX_FAILURES
    client._io_thread.thread.join(HANG)
    with pytest.raises(Unavailable, match="the client has failed: ValueError: broken"):
        client.defer("k")


class UnstartedThread(threading.Thread):
    """A thread that does not run."""

    def start(self):
        """Start nothing."""


class Unstarted(Platform):
    """A machine at second 100, on which no thread starts."""

    monotonic = staticmethod(lambda: 100.0)

    def thread(self, loop, name):
        return UnstartedThread(target=loop.run, name=name)


@pytest.fixture
def unstarted():
    """A client's I/O thread that has not started, with a connection that has nothing to do."""
    platform, futures = Unstarted(), {}
    session = Session("me", futures, lambda _: Future(), platform=platform)
    patience = Patience(futures, 5.0, platform.monotonic)
    loop = io_thread.ClientIOThread(
        ("tcp://127.0.0.1:1",), session, SocketOptions(), patience, "I/O", platform
    )
    loop._connection.frames_pending = loop._connection.monitor_pending = False
    yield loop
    loop.shut_down()


@pytest.mark.parametrize(
    ("of", "name", "value", "seconds"),
    [
        ("_patience", "seconds", 5.0, 5.0),
        ("_patience", "seconds", 0.1, 1.0),
        ("_patience", "next_look_at", 102.0, 2.0),
        ("_connection", "frames_pending", True, 0.0),
        ("_connection", "monitor_pending", True, 0.0),
        ("_connection", "reconnect_at", 100.5, 0.5),
        ("_connection", "reconnect_at", 99.0, 0.0),
        ("", "_close_deadline", 103.0, 3.0),
    ],
)
def test_how_long_it_sleeps(unstarted, of, name, value, seconds):
    """Until the first of what is planned; now and then it looks anyway."""
    of = getattr(unstarted, of) if of else unstarted
    setattr(of, name, value)
    assert unstarted.sleep_seconds() == pytest.approx(seconds)
    unstarted._connection.reconnect_at = None


def test_it_sleeps_until_on_outcome_is_called_again(unstarted):
    """The handler plans it."""
    ended = OutcomeHandled(OutcomeMessage(1, "a", "expired", 5), ValueError())
    handler = unstarted._session.handler
    handler.handle(ended.outcome)
    assert unstarted.sleep_seconds() == 5
    handler.finish(ended)
    assert unstarted.sleep_seconds() == pytest.approx(handler.next_retry_at - 100)
    assert unstarted.sleep_seconds() < 1
    assert not unstarted._is_calm()


@pytest.mark.parametrize(
    ("deadline", "is_busy", "is_finished"),
    [(None, False, False), (105, False, True), (105, True, False), (100, True, True)],
)
def test_when_it_has_finished(unstarted, deadline, is_busy, is_finished):
    """Once told to close, when all is answered or the time is over."""
    if is_busy:
        unstarted._session.add(Stats, [(Stats(0), ReplyFuture())])
    unstarted._close_deadline = deadline
    assert unstarted.finished() is is_finished


@pytest.mark.parametrize(
    ("of", "name", "value"),
    [
        ("", "", None),
        ("", "_close_deadline", 200.0),
        ("", "_flushes", [None]),
        ("", "_left", [None]),
        ("", "_interrupted", True),
        ("_connection", "reconnect_at", 105.0),
        ("_connection", "frames_pending", True),
        ("_connection", "monitor_pending", True),
        ("_session", "connection_lost", True),
    ],
)
@needs_epoll
def test_when_a_caller_may_use_the_connection(unstarted, of, name, value):
    """While nothing else is under way."""
    target = getattr(unstarted, of) if of else unstarted
    if name:
        before = getattr(target, name)
        setattr(target, name, value)
    steps = []
    assert unstarted._run_in_caller(lambda: steps.append(1) is None) is (not name)
    assert len(steps) == (not name)
    assert not unstarted.turn.is_mine()
    if name:
        setattr(target, name, before)


@pytest.mark.parametrize(
    ("first", "second", "deadline"),
    [
        ((7, math.inf), (9, math.inf), 107),
        ((7, math.inf), (3, math.inf), 103),
        ((7, 2.0), (9, math.inf), 102),
        ((7, math.inf), (9, 2.0), 102),
    ],
)
def test_the_time_to_close(unstarted, first, second, deadline):
    """The least of all times that were given, and of a silent server's."""
    for seconds, patience in (first, second):
        unstarted._close_deadline = unstarted._deadline_of(CloseCommand(seconds, patience))
    assert unstarted._close_deadline == deadline
    unstarted._session.add(Stats, [(Stats(0), ReplyFuture())])
    unstarted._connection.silent_since = 98.5
    assert unstarted._deadline_of(CloseCommand(9, 2.0)) == 100.5
