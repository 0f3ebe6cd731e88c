"""Signaler: with an eventfd that blocks, with one that does not, and with a pipe."""

import gc
import os
import platform
import re
import select
import threading
from types import SimpleNamespace

import pytest

from mq.queues import signaler as module
from mq.queues.signaler import Signaler
from tests.testing.forked_child import run_in_child

HANG_TIMEOUT_S = 20.0


@pytest.fixture(params=["eventfd", "eventfd of an old Linux", "pipe"])
def signaler(request, monkeypatch):
    """All kinds."""
    if request.param == "eventfd of an old Linux":
        monkeypatch.setattr(module, "_BLOCKING_EVENTFD", False)
    made = Signaler(use_pipe=request.param == "pipe")
    yield made
    made.close()


def test_a_signal_is_seen_and_consumed(signaler):
    """wait is True until recv has consumed the signal."""
    assert not signaler.wait(0)
    signaler.send()
    assert signaler.wait(None)
    assert signaler.wait(0)
    assert signaler.recv()
    assert not signaler.wait(0)
    assert not signaler.recv()


def test_take_waits_and_consumes(signaler):
    """take returns with a signal, sent before or while it waits, and leaves none."""
    signaler.send()
    signaler.wait_and_clear()
    assert not signaler.wait(0)
    thread = threading.Thread(target=signaler.wait_and_clear)
    thread.start()
    signaler.send()
    thread.join(HANG_TIMEOUT_S)
    assert not thread.is_alive()
    assert not signaler.recv()


def test_take_leaves_none_of_several(signaler):
    """However the descriptor keeps them."""
    signaler.send()
    signaler.send()
    signaler.wait_and_clear()
    assert not signaler.wait(0)


def test_only_an_eventfd_that_can_be_read_at_once_blocks(request, signaler):
    """Linux 5.8 and later can; to wait and to consume is one system call there."""
    is_new = request.node.callspec.params["signaler"] == "eventfd"
    release = [int(number) for number in re.findall(r"\d+", platform.release())[:2]]
    if is_new and (not hasattr(os, "eventfd") or release < [5, 8]):
        pytest.skip("needs Linux 5.8")
    assert os.get_blocking(signaler.fileno()) is is_new


def test_signals_merge(signaler):
    """Many signals are consumed by one recv."""
    for _ in range(10_000):
        signaler.send()
    assert signaler.recv()
    assert not signaler.wait(0)


def test_more_signals_than_a_pipe_holds_do_not_block():
    """send never blocks: when the pipe is full there is a signal outstanding anyway."""
    signaler = Signaler(use_pipe=True)
    for _ in range(20_000):
        signaler.send()
    assert signaler.recv()
    assert not signaler.wait(0)
    signaler.close()


def test_any_poller_can_watch_it(signaler):
    """fileno is readable with a signal, and only then."""
    assert select.select([signaler], [], [], 0)[0] == []
    signaler.send()
    assert select.select([signaler], [], [], 10)[0] == [signaler]


def test_wait_ends_at_its_timeout(signaler):
    """Without a signal wait returns False."""
    assert not signaler.wait(0.001)


@pytest.mark.parametrize("timeout", [2**31 / 1000, 1e10, float("inf")])
def test_a_wait_may_be_longer_than_the_system_can_wait(signaler, timeout):
    """poll(2) takes 31 bits of milliseconds."""
    signaler.send()
    assert signaler.wait(timeout)


@pytest.mark.parametrize(
    ("timeout", "timeout_ms"),
    [(None, ()), (-1, (0,)), (0.25, (250,)), (3.5, (3500,)), (1e10, (2**31 - 1,))],
)
def test_a_timeout_in_seconds(signaler, monkeypatch, timeout, timeout_ms):
    """poll(2) takes milliseconds."""
    given = []
    monkeypatch.setattr(signaler, "_poll", SimpleNamespace(poll=lambda *ms: given.append(ms)))
    signaler.wait(timeout)
    assert given == [timeout_ms]


def test_close_gives_the_descriptors_back(signaler):
    """After close there is no descriptor; closing again is nothing."""
    fd = signaler.fileno()
    signaler.close()
    signaler.close()
    assert signaler.fileno() == -1
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(fd)


def assert_refuses_all(signaler):
    """Each call raises EBADF; none touches a descriptor that has got the number since."""
    fds = [os.open(os.devnull, os.O_RDONLY) for _ in range(2)]
    waits = (lambda: signaler.wait(0), signaler.wait, signaler.wait_and_clear)
    for call in (signaler.send, signaler.recv, *waits):
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()
    for fd in fds:
        os.close(fd)


def test_a_closed_signaler_refuses_all(signaler):
    """A call after close raises, and waits for nothing."""
    signaler.send()
    signaler.close()
    assert_refuses_all(signaler)


def test_a_forked_child_is_refused(signaler):
    """The child neither sees nor consumes the parent's signal, and wakes no thread of it."""
    signaler.send()
    assert run_in_child(lambda: assert_refuses_all(signaler)) == 0
    assert signaler.recv()
    assert run_in_child(signaler.close) == 0
    assert not signaler.recv()


def test_a_signaler_that_is_dropped_gives_the_descriptors_back():
    """Nobody has to close it."""
    signaler = Signaler()
    fd = signaler.fileno()
    del signaler
    gc.collect()
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(fd)


def test_finalizers_of_the_same_garbage_may_signal():
    """A collection may finalize the signaler first; its descriptors are closed after all others."""
    seen = []

    class Owner:
        def __del__(self):
            self.signaler.send()
            seen.append(self.signaler.fileno())

    owners = [Owner()]
    signaler = Signaler()
    owners.append(Owner())
    for owner in owners:
        owner.signaler, owner.owners = signaler, owners
    del owner, owners, signaler
    gc.collect()
    assert len(seen) == 2
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(seen[0])


def test_children_do_not_inherit_it(signaler):
    """The descriptors are closed on exec."""
    assert not os.get_inheritable(signaler.fileno())
