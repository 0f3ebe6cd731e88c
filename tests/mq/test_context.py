"""Contexts: their end, slots, options, finalizers, fork and interpreter exit."""

import gc
import os
import subprocess
import sys
import threading
import warnings

import pytest

import mq as zmq

URL = "inproc://context"


def test_term_ends_a_blocked_recv(threads):
    """Calls that wait fail with ETERM when their context ends; so do all others but close."""
    ctx = zmq.Context()
    pull = ctx.socket(zmq.PULL)
    waiting = threading.Event()

    def work():
        waiting.set()
        with pytest.raises(zmq.ContextTerminated):
            pull.recv()
        for call in (pull.recv, lambda: pull.get(zmq.EVENTS), lambda: pull.bind(URL), pull.poll):
            with pytest.raises(zmq.ContextTerminated):
                call()
        with pytest.raises(zmq.ContextTerminated):
            ctx.socket(zmq.PULL)
        pull.close()

    threads.start(work)
    waiting.wait()
    ctx.term()
    assert ctx.closed


def test_term_ends_a_blocked_send(threads):
    """The same for a sender without room."""
    ctx = zmq.Context()
    push = ctx.socket(zmq.PUSH)

    def work():
        with push, pytest.raises(zmq.ContextTerminated):
            push.send(b"x")

    threads.start(work)
    ctx.term()


def test_term_ends_a_poll(threads):
    """A poller that waits is woken and told."""
    ctx = zmq.Context()
    pull = ctx.socket(zmq.PULL)
    poller = zmq.Poller()
    poller.register(pull, zmq.POLLIN)

    def work():
        with pull, pytest.raises(zmq.ContextTerminated):
            poller.poll()

    threads.start(work)
    ctx.term()


def test_after_term_there_are_no_sockets():
    """socket() after term is ENOTSUP for the handle that was used, EFAULT for others."""
    ctx = zmq.Context()
    other = zmq.Context.shadow(ctx)
    ctx.socket(zmq.PULL).close()
    ctx.term()
    for handle, number in ((ctx, zmq.ENOTSUP), (other, zmq.EFAULT)):
        with pytest.raises(zmq.ZMQError) as caught:
            handle.socket(zmq.PULL)
        assert caught.value.errno == number


def test_destroy_ends_a_recv_of_another_thread(threads):
    """A socket closed by destroy while its thread waits in recv: that thread gets an error, and
    the context ends.
    """
    for _ in range(20):
        ctx = zmq.Context()
        pull = ctx.socket(zmq.PULL)

        def work(pull=pull):
            with pytest.raises(zmq.ZMQError):
                pull.recv()

        thread = threads.start(work)
        while not pull._core.mailbox.waiting and thread.is_alive():
            pass
        ctx.destroy()
        threads.join()


def test_several_threads_may_term(threads):
    """All of them return."""
    ctx = zmq.Context()
    ctx.socket(zmq.PULL).close()
    for _ in range(8):
        threads.start(ctx.term)
    threads.join()
    ctx.term()
    assert ctx.closed


def test_finalizers_close():
    """A context and sockets that are lost end by themselves, with a warning."""

    def lose():
        ctx = zmq.Context()
        push, pull = ctx.socket(zmq.PUSH), ctx.socket(zmq.PULL)
        pull.bind(URL)
        push.connect(URL)
        push.send(b"x")
        return ctx._core

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        core = lose()
        gc.collect()
    core.reaper.join()  # nothing is left but its end
    assert not core.termination.has_sockets


def test_lost_sockets_are_warned_of(ctx):
    """A socket that is collected while open is a ResourceWarning."""
    with pytest.warns(ResourceWarning, match="Unclosed socket"):
        ctx.socket(zmq.PUSH)


def test_a_context_left_with_open_sockets_is_warned_of():
    """Leaving the with-block of a context closes its sockets, with a ResourceWarning."""
    with pytest.warns(ResourceWarning, match="unclosed socket"), zmq.Context() as ctx:
        push = ctx.socket(zmq.PUSH)
    assert push.closed
    assert ctx.closed


def test_unread_sockets_do_not_delay_interpreter_exit():
    """A program may end with everything open and a thread in recv."""
    code = """
import mq as zmq, threading
ctx = zmq.Context()
push, pull, idle = ctx.socket(zmq.PUSH), ctx.socket(zmq.PULL), ctx.socket(zmq.PULL)
pull.bind("inproc://x")
push.connect("inproc://x")
push.send(b"x")
threading.Thread(target=idle.recv, daemon=True).start()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], timeout=60)
    assert done.returncode == 0


def run_in_child(call):
    """The exit code of `call` in a forked child."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = call()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_fork(ctx, socket):
    """In a child inherited sockets raise and never hang, and a context of its own works; the
    parent's connection is not disturbed.
    """
    push, pull = socket(zmq.PUSH), socket(zmq.PULL)
    pull.bind(URL)
    push.connect(URL)

    def child():
        refused = 0
        for call in (pull.recv, lambda: push.send(b"x"), pull.poll, lambda: ctx.socket(zmq.PULL)):
            try:
                call()
            except zmq.ZMQError:
                refused += 1
        push.close()
        ctx.term()
        own = zmq.Context()
        with own.socket(zmq.PUSH) as a, own.socket(zmq.PULL) as b:
            b.bind(URL)
            a.connect(URL)
            a.send(b"child")
            refused += 10 * (b.recv() == b"child")
        own.term()
        return refused

    assert run_in_child(child) == 14
    push.send(b"parent")
    assert pull.recv() == b"parent"


def test_fork_while_locks_are_held(ctx, socket):
    """Locks that other threads hold at the fork are not waited for in the child."""
    pull = socket(zmq.PULL)
    core = ctx._core
    with core.slots.lock, core.endpoints._lock:

        def child():
            with pytest.raises(zmq.ZMQError):
                pull.bind(URL)
            pull.close()
            ctx.term()
            instance = zmq.Context.instance()
            instance.socket(zmq.PULL).close()
            instance.term()
            return 7

        assert run_in_child(child) == 7


def test_closing_while_connecting():
    """Sockets closed as soon as they have connected, in many threads, beside term."""
    for _ in range(3):
        ctx = zmq.Context()
        pub = ctx.socket(zmq.PUB)
        pub.bind(URL)
        start = threading.Barrier(21)

        def work(ctx=ctx, start=start):
            with ctx.socket(zmq.SUB) as sub:
                start.wait()
                sub.connect(URL)

        workers = [threading.Thread(target=work) for _ in range(20)]
        for worker in workers:
            worker.start()
        start.wait()
        pub.close()
        for worker in workers:
            worker.join()
        ctx.term()
        assert ctx.closed


def test_sockets_of_a_class_with_eq():
    """A context tells its sockets apart by identity: all of them are closed."""

    class Alike(zmq.Socket):
        def __eq__(self, other):
            return True

    context = zmq.Context()
    made = [context.socket(zmq.PAIR, socket_class=Alike) for _ in range(2)]
    context.destroy(linger=0)
    assert [socket.closed for socket in made] == [True, True]


def test_a_type_checker_asks_for_no_annotation(tmp_path):
    """A program need not write the type of a new context."""
    api = pytest.importorskip("mypy.api")
    program = tmp_path / "program.py"
    program.write_text("import mq\n\ncontext = mq.Context()\n")
    arguments = ["--strict", "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache")]
    said, _, code = api.run([*arguments, str(program)])
    assert code == 0, said
