"""Random operations on sockets of all types, in several threads of one context."""

import errno
import random
from functools import partial

import pytest

import mq
from tests.testing.leaks import assert_terminates, close_all, new_context, no_leaks  # noqa: F401
from tests.testing.sockets import run_in_threads

KINDS = [
    mq.PAIR,
    mq.PUSH,
    mq.PULL,
    mq.DEALER,
    mq.ROUTER,
    mq.REQ,
    mq.REP,
    mq.PUB,
    mq.SUB,
    mq.XPUB,
    mq.XSUB,
]
#: What an operation at a bad moment may fail with.
EXPECTED = {
    mq.EAGAIN,
    mq.EADDRINUSE,
    errno.ENOENT,
    mq.EFSM,
    mq.ENOTSUP,
    mq.EINVAL,
    mq.ETERM,
    mq.EFAULT,
}


class RandomSockets:
    """Sockets of all types in one thread, and random operations on them."""

    def __init__(self, ctx, seed):
        self.ctx = ctx
        self.chance = random.Random(seed)
        self.sockets = []

    def run(self, steps):
        """Do `steps` random operations; then close."""
        for _ in range(steps):
            act = self.chance.choice(self.OPERATIONS)
            try:
                act(self)
            except mq.ZMQError as exc:
                if exc.errno not in EXPECTED:
                    raise
        close_all(self.sockets)

    def any(self):
        """One of the sockets."""
        if not self.sockets:
            self.make()
        return self.chance.choice(self.sockets)

    def address(self):
        """One of few addresses, which all threads use."""
        return f"inproc://{self.chance.randrange(6)}"

    def make(self):
        socket = self.ctx.socket(self.chance.choice(KINDS))
        self.sockets.append(socket)  # first: the next line fails if the context terminates
        socket.hwm = self.chance.choice((1, 2, 10))

    def close(self):
        socket = self.any()
        self.sockets.remove(socket)
        socket.close()

    def bind(self):
        self.any().bind(self.address())

    def connect(self):
        self.any().connect(self.address())

    def unbind(self):
        self.any().unbind(self.address())

    def disconnect(self):
        self.any().disconnect(self.address())

    def send(self):
        flags = mq.DONTWAIT | (mq.SNDMORE if self.chance.random() < 0.3 else 0)
        self.any().send(b"x" * self.chance.randrange(3), flags)

    def recv(self):
        self.any().recv(mq.DONTWAIT)

    def poll(self):
        self.any().poll(0)

    def resize(self):
        self.any().set_hwm(self.chance.randrange(4))

    def subscribe(self):
        self.any().subscribe(b"")

    OPERATIONS = (
        make,
        close,
        bind,
        connect,
        connect,
        unbind,
        disconnect,
        *[send] * 6,
        *[recv] * 6,
        poll,
        resize,
        subscribe,
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("cut_short", [False, True])
def test_random_operations(seed, cut_short):
    """Six threads do random operations on sockets: expected errors only, and term returns.

    With `cut_short`, the context is terminated meanwhile.
    """
    ctx = new_context()
    operators = [RandomSockets(ctx, f"{seed}-{number}") for number in range(6)]
    calls = [partial(operator.run, 400) for operator in operators]
    if cut_short:
        calls.append(ctx._core.termination.stop_sockets)
    run_in_threads(*calls)
    assert_terminates(ctx)
