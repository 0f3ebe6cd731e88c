"""Sockets under stress: many threads, every state a pipe can be in, and nothing left afterwards."""

import random
import threading
from collections import Counter
from functools import partial

import pytest

import mq
from mq.pipes.pipe import PipeState
from tests.testing.leaks import HANG_TIMEOUT_S, assert_terminates, close_all, new_context, no_leaks  # noqa: F401
from tests.testing.sockets import fill, run_in_threads


@pytest.mark.parametrize(
    ("bound", "connecting"),
    [(mq.PUB, mq.SUB), (mq.PULL, mq.PUSH), (mq.ROUTER, mq.REQ), (mq.PAIR, mq.PAIR)],
)
def test_closing_while_connecting(bound, connecting):
    """Connecting and closing in 100 threads at once, 20 rounds in all: every term returns."""
    for _ in range(5):
        ctx = new_context()
        binder = ctx.socket(bound)
        binder.bind("inproc://a")

        def run(ctx=ctx):
            with ctx.socket(connecting) as socket:
                socket.connect("inproc://a")

        run_in_threads(*[run] * 100)
        binder.close()
        assert_terminates(ctx)


def test_closing_while_connecting_to_who_closes_too():
    """100 threads connect, send and close while binders come and go: term returns."""
    for number in range(20):
        ctx = new_context()
        start = threading.Barrier(101)

        def run(ctx=ctx, start=start):
            with ctx.socket(mq.PUSH) as push:
                start.wait()
                push.connect("inproc://a")
                fill(push, limit=3)

        def bind(ctx=ctx, start=start, number=number):
            start.wait()
            for _ in range(number % 4 + 1):
                with ctx.socket(mq.PULL) as pull, pull.bind("inproc://a"):
                    pull.poll(1)

        run_in_threads(*[run] * 100, bind)
        assert_terminates(ctx)


def idle(one, two):
    """Connected, and nothing sent."""


def unread(one, two):
    """Messages both ways that are not read."""
    for socket in (one, two):
        socket.send(b"unread")


def full(one, two):
    """Not one more message fits, either way."""
    for socket in (one, two):
        assert fill(socket) > 0


def half_sent(one, two):
    """A message begun and never completed, behind one that was."""
    two.send(b"whole")
    two.send(b"half", mq.SNDMORE)


def half_received(one, two):
    """A message of which one part was received."""
    two.send_multipart([b"half", b"unread"])
    assert one.recv() == b"half"


def delimiter_received(one, two):
    """The delimiter is read before `PipeTerm` arrives."""
    two.send(b"read")
    assert one.recv() == b"read"
    two.disconnect(two.last_endpoint)
    assert one._core.xrecv() is None


def waiting_for_delimiter(one, two):
    """The peer ended the pipe, and a message of it is still unread."""
    two.send(b"unread")
    two.disconnect(two.last_endpoint)
    one.getsockopt(mq.EVENTS)


def acknowledged(one, two):
    """The peer ended the pipe, and all it sent was read."""
    waiting_for_delimiter(one, two)
    assert one.recv() == b"unread"
    assert one.getsockopt(mq.EVENTS) == 0


def both_asked(one, two):
    """Both ended the pipe at the same time."""
    for socket in (one, two):
        next(iter(socket._core._pipes)).terminate(True)
    one.getsockopt(mq.EVENTS)


def gone(one, two):
    """The pipe has come to its end, in whatever state the reaper left it."""
    acknowledged(one, two)
    two.getsockopt(mq.EVENTS)
    one.getsockopt(mq.EVENTS)


def peer_closed(one, two):
    """The peer was closed and left a message."""
    two.send(b"unread")
    two.close()


def binder_closed(one, two):
    """The bound socket is closed, with messages to and from it unread."""
    unread(one, two)
    one.close()


def unbound(one, two):
    """The address is gone, the pipe is not."""
    one.unbind(one.last_endpoint)


def twice(one, two):
    """Two pipes between the same sockets, one of them ending."""
    two.connect("inproc://elsewhere")
    two.connect(two.last_endpoint)
    unread(one, two)
    two.disconnect("inproc://elsewhere")


def itself(one, two):
    """A socket connected to itself."""
    one.connect(one.last_endpoint)
    unread(one, two)


def marks_changed(one, two):
    """The marks were lowered while messages were under way."""
    full(one, two)
    one.rcvhwm = 1
    two.sndhwm = 1


CONNECTED = [
    idle,
    unread,
    full,
    half_sent,
    half_received,
    delimiter_received,
    waiting_for_delimiter,
    acknowledged,
    both_asked,
    gone,
    peer_closed,
    binder_closed,
    unbound,
    twice,
    itself,
    marks_changed,
]


def pend(socket):
    """A connection that is never bound."""
    socket.connect("inproc://never")


def pend_with_messages(socket):
    """Likewise, with messages in it until it is full, and a half one."""
    socket.connect("inproc://never-either")
    fill(socket)


def pend_half(socket):
    """Likewise, with a message begun."""
    socket.connect("inproc://never-half")
    socket.send(b"half", mq.SNDMORE)


def pend_closed(socket):
    """Likewise, and closed."""
    pend_with_messages(socket)
    socket.close()


def pend_withdrawn(socket):
    """A connection withdrawn before its bind."""
    pend_half(socket)
    socket.disconnect("inproc://never-half")


PENDING = [pend, pend_with_messages, pend_half, pend_closed, pend_withdrawn]


def build(ctx, count):
    """At least so many sockets, with pipes in every state; the sockets and the states seen."""
    sockets, seen = [], set()
    number = 0
    while len(sockets) < count:
        number += 1
        bound, connecting = ctx.socket(mq.DEALER), ctx.socket(mq.DEALER)
        bound.hwm = connecting.hwm = 5
        bound.bind(f"inproc://{number}")
        connecting.connect(f"inproc://{number}")
        bound.getsockopt(mq.EVENTS)
        pipes = [*bound._core._pipes, *connecting._core._pipes]
        CONNECTED[number % len(CONNECTED)](bound, connecting)
        seen.update(pipe.state for pipe in pipes)
        lonely = ctx.socket(mq.DEALER)
        lonely.hwm = 5
        PENDING[number % len(PENDING)](lonely)
        sockets += [bound, connecting, lonely]
    return sockets, seen


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("term_first", [False, True])
def test_term_with_pipes_in_every_state(seed, term_first):
    """200 sockets whose pipes are in all states, closed in any order: term returns.

    All at once from four threads, before or after the term has begun.
    """
    ctx = new_context()
    sockets, seen = build(ctx, 200)
    assert seen == set(PipeState)
    chance = random.Random(seed)
    chance.shuffle(sockets)
    if term_first:
        ctx._core.termination.stop_sockets()
    if seed % 2:
        quarters = [sockets[number::4] for number in range(4)]
        run_in_threads(*[partial(close_all, quarter) for quarter in quarters])
    else:
        close_all(sockets)
    assert_terminates(ctx)


def test_destroy_with_pipes_in_every_state():
    """`destroy` closes them all, and returns."""
    ctx = new_context()
    _sockets, seen = build(ctx, 200)
    assert seen == set(PipeState)
    run_in_threads(ctx.destroy)


@pytest.mark.parametrize("round_", range(5))
def test_what_closed_sockets_sent_waits_for_a_late_bind(round_):
    """30 threads connect, send and close; a socket that binds afterwards gets 30 messages."""
    ctx = new_context()

    def run():
        with ctx.socket(mq.PUSH) as push:
            push.connect("inproc://late")
            push.send(b"kept")

    run_in_threads(*[run] * 30)
    with ctx.socket(mq.PULL) as pull:
        pull.bind("inproc://late")
        assert [pull.recv() for _ in range(30)] == [b"kept"] * 30
        assert pull.poll(0) == 0
    assert_terminates(ctx)


def test_a_bind_amid_those_that_connect_send_and_close():
    """Likewise with the bind anywhere among them: every message arrives, once."""
    for number in range(20):
        ctx = new_context()
        start = threading.Barrier(31)

        def run(name, ctx=ctx, start=start):
            start.wait()
            with ctx.socket(mq.PUSH) as push:
                push.connect("inproc://late")
                push.send(b"%d" % name)

        pull = ctx.socket(mq.PULL)

        def bind(pull=pull, start=start):
            start.wait()
            pull.bind("inproc://late")

        run_in_threads(*[partial(run, name) for name in range(30)], bind)
        assert sorted(int(pull.recv()) for _ in range(30)) == list(range(30)), number
        pull.close()
        assert_terminates(ctx)


def block_in_recv(socket):
    """Nothing ever comes."""
    socket.recv()


def block_in_send(socket):
    """No peer ever makes room."""
    while True:
        socket.send(b"x")


def block_in_poll(socket):
    """Nothing ever happens."""
    poller = mq.Poller()
    poller.register(socket, mq.POLLIN)
    poller.poll()


@pytest.mark.parametrize("linked", ["bound", "pending", "lonely"])
def test_shutdown_of_many_who_wait(linked):
    """60 threads wait in recv, send and poll; the context is terminated: ETERM for each of them."""
    ctx = new_context()
    ready = threading.Barrier(61)
    raised = []  # appending is safe without the interpreter lock, counting is not

    def run(number, block):
        socket = ctx.socket(mq.DEALER)
        socket.hwm = 2
        socket.sndtimeo = socket.rcvtimeo = -1
        if linked == "bound":
            socket.bind(f"inproc://{number}")
            peer = ctx.socket(mq.DEALER)
            peer.connect(f"inproc://{number}")
        elif linked == "pending":
            socket.connect(f"inproc://{number}")
        ready.wait()
        try:
            block(socket)
        except mq.ContextTerminated:
            raised.append(block)
        socket.close()
        if linked == "bound":
            peer.close()

    def finish():
        ready.wait()
        assert_terminates(ctx)

    blocks = (block_in_recv, block_in_send, block_in_poll)
    run_in_threads(*[partial(run, number, blocks[number % 3]) for number in range(60)], finish)
    assert Counter(raised) == dict.fromkeys(blocks, 20)


class Pipeline:
    """Pushers and pullers in threads, each pusher connected to each puller."""

    def __init__(self, ctx, pullers, hwm):
        self.ctx = ctx
        self.hwm = hwm
        self.got = [[] for _ in range(pullers)]
        self.taken = threading.Semaphore(0)

    def pull(self, number):
        """Receive until told to end."""
        with self.ctx.socket(mq.PULL) as socket:
            socket.rcvhwm = self.hwm
            socket.bind(f"inproc://{number}")
            while (message := socket.recv_multipart()) != [b"end"]:
                self.got[number].append(tuple(map(int, message)))
                self.taken.release()

    def push(self, number, count):
        """Send so many messages in turn to all."""
        with self.ctx.socket(mq.PUSH) as socket:
            socket.sndhwm = self.hwm
            for puller in range(len(self.got)):
                socket.connect(f"inproc://{puller}")
            for index in range(count):
                socket.send_multipart([b"%d" % number, b"%d" % index])

    def finish(self, count):
        """Tell all pullers to end once so many messages have arrived."""
        for _ in range(count):
            assert self.taken.acquire(timeout=HANG_TIMEOUT_S)
        for puller in range(len(self.got)):
            with self.ctx.socket(mq.PUSH) as socket:
                socket.connect(f"inproc://{puller}")
                socket.send(b"end")


@pytest.mark.parametrize("hwm", [1, 3, 1000])
def test_each_message_once_and_in_order(hwm):
    """From 6 pushers to 3 pullers: every message exactly once, in order for each two of them."""
    ctx = new_context()
    each, pushers, pullers = 1500, 6, 3
    pipeline = Pipeline(ctx, pullers, hwm)
    run_in_threads(
        *[partial(pipeline.pull, number) for number in range(pullers)],
        *[partial(pipeline.push, number, each) for number in range(pushers)],
        partial(pipeline.finish, each * pushers),
    )
    assert_terminates(ctx)
    everything = sorted(message for messages in pipeline.got for message in messages)
    assert everything == [(name, count) for name in range(pushers) for count in range(each)]
    for messages in pipeline.got:
        for name in range(pushers):
            counts = [count for pusher, count in messages if pusher == name]
            assert counts == sorted(counts)
