"""Races in which ZeroMQ implementations are known to have had bugs.

Interrupts are in test_interrupts, termination in test_termination_races.
"""

import select
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mq
from mq.pipes.pipe import PipeState
from tests.testing.leaks import (
    HANG_TIMEOUT_S,
    assert_terminates,
    close_all,
    new_context,
    run_together,
)
from tests.testing.sockets import drain, fill

# 1. Connect against bind


@pytest.mark.parametrize("bound", [mq.PULL, mq.ROUTER, mq.DEALER])
def test_connect_races_bind(socket, bound):
    """ "The bind side must own the pipe, drop the id and set HWMs before announcing it."

    In either order, the first message received is the one sent (behind the name, where a ROUTER
    wants it), and both marks count.
    """
    expected = [b"me", b"0"] if bound == mq.ROUTER else [b"0"]
    kind = mq.PUSH if bound == mq.PULL else mq.DEALER
    for number in range(50):
        one, two = socket(bound, hwm=2), socket(kind, hwm=3, routing_id=b"me")
        address = f"inproc://{number}"
        run_together(partial(one.bind, address), partial(two.connect, address))
        for count in range(5):
            two.send(b"%d" % count, mq.DONTWAIT)
        assert fill(two) == 0
        assert one.recv_multipart() == expected
        assert [parts[-1] for parts in drain(one)] == [b"1", b"2", b"3", b"4"]
        close_all([one, two])


def test_connect_races_the_close_of_who_bound():
    """ "Look-up and inc_seqnum share one lock": no socket connects to one that is gone."""
    ctx = new_context()
    for number in range(100):
        pull, push = ctx.socket(mq.PULL), ctx.socket(mq.PUSH)
        pull.bind(f"inproc://{number}")
        run_together(pull.close, partial(push.connect, f"inproc://{number}"))
        push.close()
    assert_terminates(ctx)


# 2. A pending connection whose socket was closed


# 3. Term against the last close


def test_term_races_the_last_close():
    """ "Under one slot-lock hold": between the flag and the stops no socket can slip out or in."""
    for number in range(150):
        ctx = new_context()
        made = ctx.socket(mq.PULL)
        calls = [made.close, ctx.term]
        run_together(*calls if number % 2 else reversed(calls))
        assert ctx.closed


def test_term_races_the_first_socket():
    """A socket made while the context ends either is an error or is told at once."""
    for number in range(150):
        ctx = new_context()

        def make(ctx=ctx):
            try:
                made = ctx.socket(mq.PULL)
            except mq.ZMQError as exc:
                assert exc.errno in (mq.ETERM, mq.EFAULT, mq.ENOTSUP)  # noqa: PT017 - either
                return
            with made, pytest.raises(mq.ContextTerminated):
                made.recv()

        run_together(make, ctx.term)
        assert ctx.closed, number


def wait_until_no_pipes(receiver, *others):
    """Wait for the handshakes to end; a PAIR accepts no second peer before."""
    while receiver._core._pipes:
        waiting = [socket for socket in (receiver, *others) if not socket.closed]
        for socket in waiting:
            socket.getsockopt(mq.EVENTS)
        if receiver._core._pipes:
            ready, _, _ = select.select(waiting, [], [], HANG_TIMEOUT_S)
            assert ready, "the handshakes do not end"
    assert drain(receiver) == []


# 4. Disconnect half way through a multipart message

RECEIVING = [(mq.PUSH, mq.PULL), (mq.DEALER, mq.DEALER), (mq.PAIR, mq.PAIR), (mq.DEALER, mq.ROUTER)]


@pytest.mark.parametrize(("sending", "receiving"), RECEIVING)
def test_receiver_disconnects_half_way(socket, sending, receiving):
    """ "Forget the remainder": what is received next is the beginning of another message."""
    receiver = socket(receiving)
    for name in ("a", "b"):
        sender = socket(sending)
        sender.bind(f"inproc://{name}")
        receiver.connect(f"inproc://{name}")
        sender.send_multipart([b"1", b"2", b"3"])
        first = receiver.recv_multipart() if name == "b" else [receiver.recv()]
        if receiving == mq.ROUTER:
            first = first[1:] if name == "b" else [receiver.recv()]
        assert first == ([b"1"] if name == "a" else [b"1", b"2", b"3"])
        receiver.disconnect(f"inproc://{name}")
        sender.close()
        wait_until_no_pipes(receiver)


@pytest.mark.parametrize(("sending", "receiving"), RECEIVING)
@pytest.mark.parametrize("ending", ["disconnect", "close"])
def test_sender_ends_half_way(socket, sending, receiving, ending):
    """A message whose sender ended in its midst is never seen; a complete one before it is."""
    receiver, sender, other = socket(receiving), socket(sending), socket(sending)
    receiver.bind("inproc://a")
    sender.connect("inproc://a")
    sender.send_multipart([b"whole", b"message"])
    sender.send(b"half", mq.SNDMORE)
    sender.disconnect("inproc://a") if ending == "disconnect" else sender.close()
    assert receiver.recv_multipart()[-2:] == [b"whole", b"message"]
    wait_until_no_pipes(receiver, sender)
    other.connect("inproc://a")
    other.send_multipart([b"new", b"message"])
    assert receiver.recv_multipart()[-2:] == [b"new", b"message"]


def test_the_rest_of_a_message_goes_nowhere(socket):
    """After a disconnect amid sending, the rest is dropped, not sent to the next peer."""
    push, pulls = socket(mq.PUSH), [socket(mq.PULL), socket(mq.PULL)]
    for name, pull in zip("ab", pulls, strict=True):
        pull.bind(f"inproc://{name}")
        push.connect(f"inproc://{name}")
    push.send(b"1", mq.SNDMORE)  # to a
    push.disconnect("inproc://a")
    push.send(b"2", mq.SNDMORE)
    push.send(b"3")
    push.send_multipart([b"whole", b"message"])
    assert pulls[1].recv_multipart() == [b"whole", b"message"]
    assert [drain(pull) for pull in pulls] == [[], []]


# 5. A high-water mark changed while connected

MARKS = st.integers(0, 6)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("sndhwm"), MARKS),
        st.tuples(st.just("rcvhwm"), MARKS),
        st.tuples(st.just("send"), st.integers(1, 12)),
        st.tuples(st.just("recv"), st.integers(1, 12)),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(bind_first=st.booleans(), sndhwm=MARKS, rcvhwm=MARKS, steps=STEPS)
def test_marks_changed_at_any_time(bind_first, sndhwm, rcvhwm, steps):
    """ "Lowering SNDHWM gives the reader an lwm above the writer's": here no PUSH blocks for ever.

    Whatever happened to the marks, an empty pipe takes a message; nothing is lost or out of order;
    and what is under way is never more than the greatest limit there was.
    """
    with mq.Context() as ctx, ctx.socket(mq.PULL) as pull, ctx.socket(mq.PUSH) as push:
        pull.rcvhwm, push.sndhwm = rcvhwm, sndhwm
        if bind_first:
            pull.bind("inproc://a")
        push.connect("inproc://a")
        if not bind_first:
            pull.bind("inproc://a")
        Flow(pull, push).run(steps)


class Flow:
    """Numbered messages through a pipe while its marks change."""

    def __init__(self, pull, push):
        self.pull = pull
        self.push = push
        self.sent = self.received = 0
        self.limits = [self.limit()]

    def limit(self):
        """How many may be under way by the marks of now."""
        marks = self.push.sndhwm, self.pull.rcvhwm
        return sum(marks) if all(marks) else 1000

    def run(self, steps):
        """Do the steps, and after each of them see that the pipe would not block for ever."""
        for name, number in steps:
            if name == "send":
                self.send(number)
            elif name == "recv":
                self.receive(number)
            else:
                setattr(self.push if name == "sndhwm" else self.pull, name, number)
                self.limits.append(self.limit())
        self.receive(10_000)
        before = self.sent
        self.send(1)
        assert self.sent == before + 1, "an empty pipe is full"

    def send(self, number):
        try:
            for _ in range(number):
                self.push.send(b"%d" % self.sent, mq.DONTWAIT)
                self.sent += 1
        except mq.Again:
            pass
        assert self.sent - self.received <= max(self.limits)

    def receive(self, number):
        try:
            for _ in range(number):
                assert self.pull.recv(mq.DONTWAIT) == b"%d" % self.received
                self.received += 1
        except mq.Again:
            assert self.received == self.sent


@pytest.mark.parametrize("marks", [(1, 0), (0, 1), (0, 0)])
def test_a_mark_of_zero_is_no_limit(pair, marks):
    """ "0 boost read as infinite": set while connected, too; and a limit set again is one."""
    pull, push = pair(mq.PULL, mq.PUSH, {"rcvhwm": 1}, sndhwm=1)
    push.sndhwm, pull.rcvhwm = marks
    assert fill(push, limit=50) == 50
    assert len(drain(pull)) == 50
    push.sndhwm = pull.rcvhwm = 1
    drain(pull)
    fill(push)
    assert 1 <= len(drain(pull)) <= 2


@pytest.mark.parametrize("ending", [PipeState.TERM_REQ_SENT1, PipeState.WAITING_FOR_DELIMITER])
def test_marks_changed_on_a_pipe_that_ends(pair, ending):
    """ "No pipe_hwm to a peer unless active": the change is no more than remembered."""
    one, two = pair(mq.DEALER, mq.DEALER)
    two.send(b"left")
    assert one.recv() == b"left"
    two.send(b"left")
    two.disconnect(two.last_endpoint)
    socket = two
    if ending is PipeState.WAITING_FOR_DELIMITER:
        one.getsockopt(mq.EVENTS)
        socket = one
    (pipe,) = socket._core._pipes
    assert pipe.state is ending
    socket.set_hwm(1)
    assert drain(one) == [[b"left"]]
    two.getsockopt(mq.EVENTS)
    assert not two._core._pipes


# 6. PUSH is atomic, conflate on PUB, XPUB and dead pipes, linger


def test_a_push_whose_peer_dies_half_way(socket):
    """A message is sent to one peer as a whole or not at all: the next peer sees no torso."""
    push, pulls = socket(mq.PUSH), [socket(mq.PULL), socket(mq.PULL)]
    push.bind("inproc://a")
    for pull in pulls:
        pull.connect("inproc://a")
    push.send(b"1", mq.SNDMORE)  # to the first
    pulls[0].disconnect("inproc://a")
    push.send(b"2", mq.SNDMORE)
    push.send(b"3")
    push.send(b"whole")
    assert pulls[1].recv_multipart() == [b"whole"]
    assert drain(pulls[1]) == []


def test_conflate_on_pub(pair):
    """A conflating PUB that connects: the subscriber reads the last of what was published."""
    subscriber, publisher = pair(mq.SUB, mq.PUB, {"subscribe": b""}, conflate=1)
    subscriber.poll(0)
    publisher.poll(0)
    for number in range(20):
        publisher.send(b"%d" % number)
    assert drain(subscriber) == [[b"19"]]


def test_xpub_answers_a_subscriber_that_is_gone(socket):
    """A subscription accepted for a pipe that has died meanwhile has no effect."""
    publisher, subscribers = socket(mq.XPUB, xpub_manual=1), [socket(mq.SUB), socket(mq.SUB)]
    publisher.bind("inproc://a")
    for subscriber in subscribers:
        subscriber.connect("inproc://a")
    subscribers[0].subscribe(b"a")
    assert publisher.recv() == b"\1a"
    subscribers[0].disconnect("inproc://a")
    publisher.getsockopt(mq.EVENTS)  # the pipe is gone
    publisher.setsockopt(mq.SUBSCRIBE, b"a")
    publisher.setsockopt(mq.UNSUBSCRIBE, b"a")
    publisher.send(b"a")
    assert drain(subscribers[1]) == []
