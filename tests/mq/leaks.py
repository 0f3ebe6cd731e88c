"""Contexts that must end, and what may not be left of them."""

import gc
import threading
from pathlib import Path

import pytest

import mq

PATIENCE = 60.0  # only a hang takes so long


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
    context = mq.Context()
    context.set(mq.MAX_SOCKETS, 4000)
    context.rcvtimeo = context.sndtimeo = int(PATIENCE * 1000)
    return context


def ends(context):
    """Whether term returns."""
    thread = threading.Thread(target=context.term, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return not thread.is_alive()


def close_all(sockets):
    """Close each of them."""
    for socket in sockets:
        socket.close()
