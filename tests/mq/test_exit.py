"""Finalizers at the interpreter's exit, when no other thread runs: nothing waits for ever."""

import subprocess
import sys

import pytest

# Appended: what a scene uses outlives `last`. Else both are garbage of one collection, which may
# call finalizers in any order; Python drops a hook after that.
KEEPING = """
exec("def keep(*_): pass", out_of_module := dict())
out_of_module["keep"].parts = list(vars(last).values())
sys.addaudithook(out_of_module["keep"])
"""
# Objects of a module are finalized when daemon threads, the reaper among them, run no more. The
# thread in `term` holds the lock of that.
PROGRAM = """
import asyncio, sys, threading
import mq as zmq
import mq.asyncio
from mq.devices import ThreadDevice

async def receive(socket):
    await socket.recv()

class Last:
    def __init__(self):
        self.context = zmq.Context()
        self.push = self.context.socket(zmq.PUSH)
        self.pull = self.context.socket(zmq.PULL)
        self.unused = zmq.Context()
        self.pull.bind("inproc://a")
        self.push.connect("inproc://a")
        self.async_context = mq.asyncio.Context()
        self.async_pull = self.async_context.socket(zmq.PULL)
        self.loop = asyncio.new_event_loop()
        self.mailbox = zmq.Mailbox()
        self.device = ThreadDevice(zmq.QUEUE, zmq.PULL, zmq.PUSH)
        self.device.bind_in("inproc://device")
        self.device.start()
        if {in_term}:
            threading.Thread(target=self.context.term, daemon=True).start()
            while not self.push.closed:
                try:
                    self.push.events
                except zmq.ContextTerminated:
                    break

    def __del__(self):
        assert sys.is_finalizing()
        try:
            {scene}
        except zmq.ZMQBaseError as error:
            print(type(error).__name__, flush=True)
        print("returned", flush=True)

last = Last()
"""


def run(scene, in_term=False):
    """Run a scene in the finalizer of the last object of a program; returns what it printed."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            PROGRAM.format(scene=scene, in_term=in_term) + KEEPING,
        ],
        timeout=60,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Exception ignored" not in done.stderr, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("in_term", [False, True])
@pytest.mark.parametrize(
    "scene",
    [
        "self.context.term()",
        "self.context.destroy()",
        "self.context.__exit__(None, None, None)",
        "self.push.close(); self.pull.close(); self.context.term()",
        "self.push.send(b'') if not {in_term} else 0; self.push.close(); self.context.destroy()",
        "self.context.term(); self.context.term()",
        "self.unused.term()",
        "self.device.join()",
    ],
)
def test_an_end_returns(scene, in_term):
    """Sockets open, closed, with unread messages; also while a daemon thread stands in `term`."""
    assert run(scene.replace("{in_term}", str(in_term)), in_term) == ["returned"]


@pytest.mark.parametrize(
    ("scene", "printed"),
    [
        ("self.push.send(b'x'); assert self.pull.recv() == b'x'", []),
        ("self.pull.poll(0)", []),
        ("self.pull.recv(zmq.DONTWAIT)", ["Again"]),
        ("self.pull.rcvtimeo = 10; self.pull.recv()", ["Again"]),
        ("self.pull.recv()", ["ContextTerminated"]),
        ("self.pull.poll()", ["ContextTerminated"]),
        ("self.unused.socket(zmq.PUSH).send(b'')", ["ContextTerminated"]),
        ("zmq.proxy(self.pull, self.push)", ["ContextTerminated"]),
        ("self.mailbox.recv()", ["MailboxClosed"]),
        ("self.mailbox.recv(0.01)", []),
        (
            "tracker = self.push.send(b'x' * 99999, copy=False, track=True); tracker.wait()",
            ["NotDone"],
        ),
    ],
)
def test_a_wait_for_ever_is_refused(scene, printed):
    """No thread is left to end it; what does not wait, or for a time, goes on as ever."""
    assert run(scene) == [*printed, "returned"]


def test_sockets_of_asyncio():
    """A future that no thread could resolve has ETERM; the context ends."""
    scene = "self.loop.run_until_complete(receive(self.async_pull))"
    assert run(scene) == ["ContextTerminated", "returned"]
    assert run("self.async_context.destroy()") == ["returned"]


# A daemon thread holds each lock that threads take for a moment: it was in such a call at exit.
FROZEN = '''
import sys, threading
import mq as zmq

# With globals of its own: a frame that stays refers to them for ever.
exec("""def stop_inside(locks, inside, for_ever):
    for lock in locks:
        lock.acquire()
    inside.set()
    for_ever.wait()
""", apart := {})

class Last:
    def __init__(self):
        self.context = zmq.Context()
        self.pull = self.context.socket(zmq.PULL)
        self.push = self.context.socket(zmq.PUSH)
        self.pull.bind("inproc://a")
        self.push.connect("inproc://a")
        self.push.connect("inproc://later")
        core = self.context._core
        [far] = core.endpoints._pending["later"]
        instance_lock = zmq.Context._instance_lock.lock
        self.locks = core.endpoints._lock, core.slots.lock, far.peer.pending.lock, instance_lock
        inside = threading.Event()
        arguments = self.locks, inside, threading.Event()
        threading.Thread(target=apart["stop_inside"], args=arguments, daemon=True).start()
        inside.wait()
        assert all(lock.locked() for lock in self.locks)

    def __del__(self):
        assert sys.is_finalizing()
        {scene}
        self.push.close(0)
        self.pull.close()
        self.context.term()
        print("returned", flush=True)

last = Last()
'''


@pytest.mark.parametrize(
    "scene",
    [
        "self.pull.bind('inproc://b')",
        "self.pull.bind('inproc://later')",
        "self.pull.unbind('inproc://a')",
        "self.push.connect('inproc://a')",
        "self.push.connect('inproc://c')",
        "self.push.disconnect('inproc://a')",
        "self.push.disconnect('inproc://later')",
        "self.context.socket(zmq.REP).close()",
        "self.context.destroy(0)",
        "zmq.Context.instance()",
    ],
)
def test_a_lock_of_a_thread_that_runs_no_more(scene):
    """A call at exit does not wait for a daemon thread that has stopped within another call."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FROZEN.replace("{scene}", scene) + KEEPING],
        timeout=20,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("returned\n", "")
