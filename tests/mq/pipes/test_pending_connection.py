"""Connections that wait for a bind, which comes, does not come, or races their end."""

import select
from functools import partial

import pytest

import mq
from mq.pipes.commands import Bind
from mq.pipes.pending_connection import PendingConnection
from tests.testing.leaks import (
    HANG_TIMEOUT_S,
    assert_terminates,
    close_all,
    new_context,
    run_together,
)
from tests.testing.sockets import drain

CONNECTING = [mq.PAIR, mq.PUSH, mq.DEALER, mq.ROUTER, mq.REQ, mq.PUB, mq.SUB, mq.XPUB, mq.XSUB]


@pytest.mark.parametrize("kind", CONNECTING)
@pytest.mark.parametrize("ending", ["closed", "disconnected", "open"])
def test_pending_connection_never_bound(kind, ending):
    """ "Remove pending entries on disconnect/close/term and balance the seqnum": term returns."""
    ctx = new_context()
    made = ctx.socket(kind)
    made.connect("inproc://never")
    if kind in (mq.PUSH, mq.DEALER, mq.REQ):
        made.send(b"lost")
    if ending == "closed":
        made.close()
    elif ending == "disconnected":
        made.disconnect("inproc://never")
    ctx._core.termination.stop_sockets()
    made.close()
    assert_terminates(ctx)


@pytest.mark.parametrize("kind", CONNECTING)
def test_bind_after_the_pending_socket_was_closed(socket, kind):
    """The bind takes over what the closed socket left, messages included, and then it ends."""
    closed, bound = socket(kind), socket(mq.DEALER)
    closed.connect("inproc://a")
    sending = kind in (mq.PUSH, mq.DEALER, mq.PAIR)
    if sending:
        closed.send(b"kept")
    closed.close()
    bound.bind("inproc://a")
    if sending:
        assert bound.recv() == b"kept"
    wait_until_no_pipes(bound)


def test_close_and_disconnect_race_the_bind(ctx):
    """A pending connection ends while it is being bound: a close loses nothing."""
    for number in range(100):
        push, pull = ctx.socket(mq.PUSH), ctx.socket(mq.PULL)
        address = f"inproc://{number}"
        push.connect(address)
        push.send(b"x")
        end = push.close if number % 2 else partial(push.disconnect, address)
        run_together(end, partial(pull.bind, address))
        if number % 2:
            assert pull.recv() == b"x"
        assert len(drain(pull)) <= 1 - number % 2
        close_all([push, pull])


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


class FarEnd:
    """An end that nobody owns yet."""

    mailbox = None
    attached = False


class Owner:
    """An owner that notes what comes."""

    def __init__(self):
        self.mailbox = self
        self.sent = []

    def send(self, command):
        self.sent.append(command)

    def announce(self, item):
        self.sent.append(item)


def test_held_commands_go_to_the_owner():
    """After the bind, in order, each once; later ones go there at once."""
    connection, far_end, owner = PendingConnection(), FarEnd(), Owner()
    connection.send(far_end, "first")
    connection.send(far_end, "second")
    connection.owner = owner
    connection.attach(far_end)
    announced, bind, *rest = owner.sent
    assert (announced, type(bind)) == (far_end, Bind)
    assert rest == ["first", "second"]
    connection.send(far_end, "third")
    connection.attach(far_end)
    assert owner.sent[2:] == ["first", "second", "third"]
