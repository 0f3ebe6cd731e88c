"""Contexts that must end, and what may not be left of them."""

import gc
import threading
from functools import partial
from pathlib import Path

import pytest

import mq
from tests.testing.sockets import in_threads

PATIENCE = 20.0  # only a hang takes so long


def descriptors():
    """How many descriptors are open in this process."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture(autouse=True)
def nothing_left():
    """After each test: no thread and no descriptor more than before it."""
    threads, before = set(threading.enumerate()), descriptors()
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), thread
    assert descriptors() <= before


def new_context():
    """A context with room for many sockets, in which only a hang times out."""
    ctx = mq.Context()
    ctx.set(mq.MAX_SOCKETS, 4000)
    ctx.rcvtimeo = ctx.sndtimeo = int(PATIENCE * 1000)
    return ctx


def ends(ctx):
    """Whether term returns."""
    thread = threading.Thread(target=ctx.term, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


def close_all(sockets):
    """Close each of them."""
    for socket in sockets:
        socket.close()


def at_once(one, two):
    """Run two calls in two threads that start together."""
    start = threading.Barrier(2)

    def run(call):
        start.wait()
        call()

    in_threads(partial(run, one), partial(run, two))
