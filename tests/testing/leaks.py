"""Checks that contexts terminate and leave no thread or descriptor behind."""

import gc
import threading
from functools import partial
from pathlib import Path

import pytest

import mq
from tests.testing.sockets import run_in_threads

HANG_TIMEOUT_S = 20.0  # only a hang takes so long


def open_descriptors():
    """How many descriptors are open in this process."""
    gc.collect()
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture(autouse=True)
def no_leaks():
    """Fail if a test leaves a thread or descriptor behind."""
    threads, before = set(threading.enumerate()), open_descriptors()
    yield
    for thread in set(threading.enumerate()) - threads:
        thread.join(HANG_TIMEOUT_S)
        assert not thread.is_alive(), thread
    assert open_descriptors() <= before


def new_context():
    """A context with room for many sockets, in which only a hang times out."""
    ctx = mq.Context()
    ctx.set(mq.MAX_SOCKETS, 4000)
    ctx.rcvtimeo = ctx.sndtimeo = int(HANG_TIMEOUT_S * 1000)
    return ctx


def assert_terminates(ctx, message=""):
    """Fail unless `ctx.term` returns within HANG_TIMEOUT_S seconds."""
    thread = threading.Thread(target=ctx.term, daemon=True)
    thread.start()
    thread.join(HANG_TIMEOUT_S)
    assert not thread.is_alive(), message or "term hangs"


def close_all(sockets):
    """Close each of them."""
    for socket in sockets:
        socket.close()


def run_together(one, two):
    """Run two calls in two threads that start together."""
    start = threading.Barrier(2)

    def run(call):
        start.wait()
        call()

    run_in_threads(partial(run, one), partial(run, two))
