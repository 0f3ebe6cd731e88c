"""Contexts: how they end, against everything else that goes on."""

import os
import threading
from functools import partial

import pytest

import mq
from mq.pipe import State
from tests.mq.util import in_threads

PATIENCE = 30.0


def end(context):
    """Terminate in a thread; whether that came back."""
    thread = threading.Thread(target=context.term, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


def test_term_ends_a_blocked_recv(context):
    """A thread that waits in recv gets ContextTerminated, closes, and term returns."""
    raised = []
    ready = threading.Event()

    def run():
        with context.socket(mq.PULL) as pull:
            ready.set()
            try:
                pull.recv()
            except mq.ContextTerminated as exc:
                raised.append(exc.errno)

    thread = threading.Thread(target=run)
    thread.start()
    ready.wait(PATIENCE)
    assert end(context)
    thread.join()
    assert raised == [mq.ETERM]


def test_every_call_but_close_fails_after_shutdown(context):
    """Sending, receiving, options, polling and new sockets: ETERM.  Closing works."""
    pull = context.socket(mq.PULL)
    poller = mq.Poller()
    poller.register(pull)
    context.underlying.shut_down()
    calls = [
        pull.recv,
        partial(pull.getsockopt, mq.LINGER),
        partial(pull.setsockopt, mq.LINGER, 0),
        partial(pull.bind, "inproc://a"),
        partial(poller.poll, 0),
        partial(context.socket, mq.PUSH),
    ]
    for call in calls:
        with pytest.raises(mq.ContextTerminated):
            call()
    pull.close()


def test_term_waits_for_open_sockets(context):
    """Term returns when the last socket is closed, not before."""
    pull = context.socket(mq.PULL)
    thread = threading.Thread(target=context.term)
    thread.start()
    with pytest.raises(mq.ContextTerminated):
        pull.recv()
    assert not context.closed
    pull.close()
    thread.join(PATIENCE)
    assert context.closed


def test_interrupted_term_may_be_called_again(context):
    """Several calls of term, one after the other or at once, all return."""
    pull = context.socket(mq.PULL)
    context.underlying.shut_down()
    pull.close()
    in_threads(*[context.underlying.terminate] * 4)
    context.term()


def test_slots(context):
    """More sockets than MAX_SOCKETS are EMFILE; a slot is free again after a close."""
    context.set(mq.MAX_SOCKETS, 2)
    first, second = context.socket(mq.PULL), context.socket(mq.PULL)
    with pytest.raises(mq.ZMQError) as raised:
        context.socket(mq.PULL)
    assert raised.value.errno == 24
    first.close()
    for _ in range(1000):
        try:
            third = context.socket(mq.PULL)
            break
        except mq.ZMQError:
            threading.Event().wait(0.01)  # the reaper has not got to it yet
    third.close()
    second.close()


def test_term_races_the_last_close(context):
    """Term that comes in the midst of closes and of new sockets always returns."""
    for _ in range(20):
        context = mq.Context()
        start = threading.Barrier(5)

        def run(context=context, start=start):
            start.wait()
            try:
                for _ in range(20):
                    context.socket(mq.PULL).close()
            except mq.ZMQError as exc:
                if exc.errno not in (mq.ETERM, mq.EFAULT):
                    raise

        def finish(context=context, start=start):
            start.wait()
            assert end(context)

        in_threads(*[run] * 4, finish)


def test_closing_while_connecting():
    """100 threads connect and close at once, 20 rounds: every term returns."""
    for _ in range(20):
        context = mq.Context()
        publisher = context.socket(mq.PUB)
        publisher.bind("inproc://a")

        def run(context=context):
            with context.socket(mq.SUB) as subscriber:
                subscriber.connect("inproc://a")

        in_threads(*[run] * 100)
        publisher.close()
        assert end(context)


def test_term_with_pipes_in_every_state():
    """200 sockets whose pipes are in all states of their end: term returns."""
    context = mq.Context()
    context.set(mq.MAX_SOCKETS, 1000)
    seen = set()
    sockets = []
    for number in range(100):
        bound, connecting = context.socket(mq.DEALER), context.socket(mq.DEALER)
        sockets += [bound, connecting]
        address = f"inproc://{number}"
        bound.bind(address)
        connecting.connect(address)
        connecting.send(b"unread")
        bound.send(b"unread")
        pipe = next(iter(bound.underlying._pipes), None)
        if number % 5 == 0:
            connecting.disconnect(address)  # term_req_sent1 here
            bound.getsockopt(mq.EVENTS)  # waiting for the delimiter there
        elif number % 5 == 1:
            bound.getsockopt(mq.EVENTS)
            connecting.disconnect(address)
            bound.recv()
            bound.getsockopt(mq.EVENTS)  # the delimiter is read: acknowledged
        elif number % 5 == 2:
            bound.getsockopt(mq.EVENTS)
            pipe = next(iter(bound.underlying._pipes))
            pipe.terminate(True)
            connecting.disconnect(address)
            bound.getsockopt(mq.EVENTS)
        elif number % 5 == 3:
            connecting.close()
        pipe = pipe or next(iter(bound.underlying._pipes), None)
        for each in (*bound.underlying._pipes, *connecting.underlying._pipes):
            seen.add(each.state)
    assert {State.ACTIVE, State.WAITING_FOR_DELIMITER, State.TERM_REQ_SENT1} <= seen
    for socket in sockets:
        socket.close()
    assert end(context)


def test_a_forked_child_gets_errors_and_its_own_context(context):
    """Inherited sockets raise and never hang, close and term return; instance() is new."""
    parents = mq.Context.instance()
    pull, push = context.socket(mq.PULL), context.socket(mq.PUSH)
    pull.bind("inproc://a")
    push.connect("inproc://a")
    push.send(b"parent's")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = _in_child(context, parents, pull, push)
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pull.recv() == b"parent's"
    pull.close()
    push.close()
    parents.term()


def _in_child(context, parents, pull, push):
    for call in (pull.recv, partial(push.send, b"x"), partial(pull.get, mq.EVENTS)):
        try:
            call()
        except mq.ContextTerminated as exc:
            if "forked" not in str(exc):
                return 5
        else:
            return 2
    pull.close()
    context.term()
    own = mq.Context.instance()
    if own is parents:
        return 3
    with own.socket(mq.PAIR) as one, own.socket(mq.PAIR) as two:
        one.bind("inproc://a")
        two.connect("inproc://a")
        one.send(b"child's")
        if two.recv() != b"child's":
            return 4
    own.term()
    return 0


def test_linger_follows_blocky(context):
    """BLOCKY 0 makes the linger of new sockets 0."""
    context.underlying.set(70, 0)
    with context.socket(mq.PUSH) as push:
        assert push.linger == 0


def test_unknown_option(context):
    """An unknown context option is EINVAL."""
    with pytest.raises(mq.ZMQError) as raised:
        context.set(-1, 0)
    assert raised.value.errno == mq.EINVAL
