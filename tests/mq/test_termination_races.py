"""Races of termination: what other threads see, forks, closed descriptors, closing anywhere."""

import asyncio
import contextlib
import gc
import random
import threading
from functools import partial
from itertools import count

import pytest

import mq
import mq.asyncio as mq_asyncio
from tests.testing.forked_child import run_in_child
from tests.testing.leaks import (
    HANG_TIMEOUT_S,
    assert_terminates,
    close_all,
    new_context,
    run_together,
)
from tests.testing.sockets import drain, run_in_threads


def call_until_error(call):
    """Call until it raises anything but Again."""
    while True:
        with contextlib.suppress(mq.Again):
            call()


# 8. What another thread must see


def test_a_busy_thread_sees_the_end():
    """ "terminating not volatile": a thread that never blocks sees the termination too."""
    ctx = new_context()
    started = threading.Barrier(4)

    def spin(call):
        started.wait()
        with pytest.raises(mq.ContextTerminated):
            call_until_error(call)

    pull, push = ctx.socket(mq.PULL), ctx.socket(mq.PUSH)
    poller, polled = mq.Poller(), ctx.socket(mq.PULL)
    poller.register(polled)
    push.bind("inproc://a")

    def finish():
        started.wait()
        ctx._core.termination.stop_sockets()

    run_in_threads(
        partial(spin, partial(pull.recv, mq.DONTWAIT)),
        partial(spin, partial(push.send, b"x", mq.DONTWAIT)),
        partial(spin, partial(poller.poll, 0)),
        finish,
    )
    close_all([pull, push, polled])
    assert_terminates(ctx)


# 9. Fork


def exchange_message(ctx):
    """A message from one socket to another."""
    with ctx.socket(mq.PAIR) as one, ctx.socket(mq.PAIR) as two:
        one.bind("inproc://mine")
        two.connect("inproc://mine")
        one.send(b"x")
        assert two.recv() == b"x"


def test_fork_while_all_locks_are_held(ctx):
    """A child forked while all locks are held can close, terminate and start again."""
    made = ctx.socket(mq.PULL)
    made.bind("inproc://a")
    core = ctx._core

    def work():
        made.close()
        with pytest.raises(mq.ZMQError):
            ctx.socket(mq.PULL)
        ctx.term()
        own = mq.Context()
        exchange_message(own)
        own.term()

    with core.slots.lock, core.endpoints._lock:
        code = run_in_child(work)
    made.close()
    assert code == 0


def test_a_child_closes_what_its_parent_waits_in(ctx):
    """A thread that waits in a socket at a fork is not in the child, where close only marks it."""
    pull, push = ctx.socket(mq.PULL), ctx.socket(mq.PUSH)
    pull.bind("inproc://a")
    push.connect("inproc://a")
    waiting = threading.Thread(target=pull.recv)
    waiting.start()
    while not pull._core.mailbox.waiting:
        pass
    assert run_in_child(pull.close) == 0
    push.send(b"x")
    waiting.join(HANG_TIMEOUT_S)
    assert not waiting.is_alive()
    close_all([pull, push])


def test_a_child_does_not_consume_its_parents_signals(ctx):
    """An inherited eventfd is shared: the child must not consume its parent's signals."""
    for number in range(5):
        pull, push = ctx.socket(mq.PULL), ctx.socket(mq.PUSH)
        pull.bind(f"inproc://{number}")
        push.connect(f"inproc://{number}")
        push.send(b"for the parent")

        def work(pull=pull, push=push):
            for call in (pull.recv, partial(pull.get, mq.EVENTS), partial(push.send, b"child's")):
                with pytest.raises(mq.ZMQError):
                    call()
            close_all([pull, push])
            gc.collect()

        assert run_in_child(work) == 0
        poller = mq.Poller()
        poller.register(pull, mq.POLLIN)
        assert poller.poll(HANG_TIMEOUT_S * 1000) == [(pull, mq.POLLIN)]
        assert pull.recv() == b"for the parent"
        assert drain(pull) == []
        close_all([pull, push])


def test_a_child_gets_nothing_of_its_parents_poller(ctx):
    """Not a socket's events, and not a signal or a command either."""
    pull, push = ctx.socket(mq.PULL), ctx.socket(mq.PUSH)
    pull.bind("inproc://a")
    push.connect("inproc://a")
    push.send(b"for the parent")
    mailbox, signaler = mq.Mailbox(), mq.Signaler()
    mailbox.send("for the parent")
    signaler.send()
    pollers = []
    for thing in (pull, mailbox, signaler):
        poller = mq.Poller()
        poller.register(thing, mq.POLLIN)
        assert len(poller.poll(0)) == 1
        pollers.append(poller)

    def work():
        for poller in pollers:
            for timeout in (0, None):
                with pytest.raises(mq.ZMQError, match="non-socket"):
                    poller.poll(timeout)
        for call in (pull.poll, pull.fileno, partial(mq.proxy, pull, push)):
            with pytest.raises(mq.ZMQError, match="non-socket"):
                call()

    assert run_in_child(work) == 0
    assert pull.recv() == b"for the parent"
    close_all([pull, push, mailbox, signaler])


def test_a_child_gets_nothing_of_its_parents_asyncio_sockets():
    """The futures of operations and polls have an error."""
    ctx = mq_asyncio.Context()
    pull, push = ctx.socket(mq.PULL), ctx.socket(mq.PUSH)
    pull.bind("inproc://a")
    push.connect("inproc://a")
    mq.Socket(push).send(b"for the parent")
    poller = mq_asyncio.Poller()
    poller.register(pull)

    async def refused():
        calls = (pull.recv, partial(push.send, b"x"), pull.poll, poller.poll)
        for call in (*calls, partial(poller.poll, 0)):
            with pytest.raises(mq.ZMQError, match="non-socket"):
                await asyncio.wait_for(call(), HANG_TIMEOUT_S)

    assert run_in_child(lambda: asyncio.run(refused())) == 0
    assert mq.Socket(pull).recv() == b"for the parent"
    ctx.destroy()


def test_fork_amid_traffic(ctx):
    """Forked amid traffic of other threads, each child terminates, and so do they."""
    stop = threading.Event()

    def traffic(number):
        chance = random.Random(number)
        for turn in count():
            if stop.is_set():
                break
            with ctx.socket(mq.DEALER) as one, ctx.socket(mq.DEALER) as two:
                for call in chance.sample((one.bind, two.connect), 2):
                    call(f"inproc://{number}-{turn}")
                for _ in range(20):
                    one.send(b"x")
                    assert two.recv() == b"x"

    def fork():
        try:
            for _ in range(10):
                assert run_in_child(partial(exchange_in_new_context, ctx)) == 0
        finally:
            stop.set()

    run_in_threads(*[partial(traffic, number) for number in range(3)], fork)


def exchange_in_new_context(inherited):
    """Destroy the inherited context, and use a new one."""
    inherited.destroy()
    own = mq.Context.instance()
    exchange_message(own)
    own.term()


# 10. A descriptor closed while a sender is about to write to it


def test_a_sender_holds_the_signaler_it_writes_to(monkeypatch):
    """ "EBADF, or a write into a reused number": the descriptor outlives the sender's write."""
    box = mq.Mailbox()
    number = box.fileno()
    send = mq.Signaler.send
    taken, wrote = [], []

    def delayed(signaler):
        if signaler.fileno() == number and not wrote:
            wrote.append(signaler)
            box.close()  # by the reader, at the worst moment
            gc.collect()
            taken.extend(mq.Signaler() for _ in range(20))  # would get the freed number
        send(signaler)

    monkeypatch.setattr(mq.Signaler, "send", delayed)
    box.send("late")
    monkeypatch.undo()
    assert wrote
    assert number not in {signaler.fileno() for signaler in taken}
    assert not any(signaler.wait(0) for signaler in taken)
    wrote.clear()
    gc.collect()
    assert mq.Signaler().fileno() <= number  # it is free now


def test_senders_race_the_close_of_their_mailbox():
    """8 senders to a mailbox that is closed and replaced: MailboxClosed and no other error."""
    for _ in range(50):
        box = mq.Mailbox()
        start = threading.Barrier(9)

        def send(box=box, start=start):
            start.wait()
            with pytest.raises(mq.MailboxClosed):
                call_until_error(partial(box.send, "x"))

        def close(box=box, start=start):
            start.wait()
            box.recv()
            box.close()
            mq.Signaler().close()

        run_in_threads(*[send] * 8, close)


# 11. Closing in the wrong place


def test_closing_amid_polling(pair):
    """ "Dispose from the poller's own thread": the closed one is ENOTSOCK, the others go on."""
    pull, push = pair(mq.PULL, mq.PUSH)
    closed, _ = pair(mq.PULL, mq.PUSH)
    poller = mq.Poller()
    poller.register(pull, mq.POLLIN)
    poller.register(closed, mq.POLLIN)
    push.send(b"x")
    for ready, _event in poller.poll():
        assert ready is pull
        closed.close()
    with pytest.raises(mq.ZMQError) as raised:
        poller.poll(0)
    assert raised.value.errno == mq.ENOTSOCK
    poller.unregister(closed)
    assert poller.poll(0) == [(pull, mq.POLLIN)]


def test_removing_from_a_poller_after_the_end():
    """ "Removing after stop never runs": unregistering works when all is over."""
    ctx = new_context()
    poller = mq.Poller()
    made = ctx.socket(mq.PULL)
    poller.register(made)
    ctx.destroy()
    poller.unregister(made)
    assert made not in poller
    assert poller.poll(0) == []


@pytest.mark.parametrize("bound", [mq.ROUTER, mq.DEALER, mq.PAIR, mq.XPUB, mq.PULL])
def test_the_list_of_pipes_changes_while_the_socket_ends(bound):
    """ "Iterate a copy": 40 pipes end from their other side while this side ends them."""
    connecting = {mq.XPUB: mq.SUB, mq.PULL: mq.PUSH, mq.PAIR: mq.PAIR}.get(bound, mq.DEALER)
    for number in range(5):
        ctx = new_context()
        binder = ctx.socket(bound)
        binder.bind("inproc://a")
        peers = [ctx.socket(connecting) for _ in range(40)]
        for peer in peers:
            peer.connect("inproc://a")
            if connecting == mq.SUB:
                peer.subscribe(b"")
            elif connecting != mq.PAIR:
                peer.send(b"x")
        if number % 2:
            binder.getsockopt(mq.EVENTS)
        run_together(binder.close, partial(close_all, peers))
        assert_terminates(ctx)


def test_sockets_closed_by_the_collector_in_any_thread():
    """Finalizers close sockets and terminate contexts in any thread."""

    def make():
        ctx = new_context()
        one, two = ctx.socket(mq.PUSH), ctx.socket(mq.PULL)
        one.bind("inproc://a")
        two.connect("inproc://a")
        one.send(b"x")
        cycle = [one, two, ctx]
        cycle.append(cycle)
        for thing in (one, two, ctx):  # past the options
            object.__setattr__(thing, "cycle", cycle)

    def make_and_collect():
        run_in_threads(*[make] * 20)
        gc.collect()

    with pytest.warns(ResourceWarning, match="Unclosed"):
        make_and_collect()
    for thread in threading.enumerate():
        # One whose start was interrupted, in another test, is listed and has never begun.
        if thread.name.startswith("mq-reaper") and thread.is_alive():
            thread.join(HANG_TIMEOUT_S)
            assert not thread.is_alive()
