"""real_seconds: waits go on while freezegun has frozen time."""

import freezegun
import pytest

import mq
from _purgatory_cpython.real_time import real_seconds


def test_real_seconds_go_on():
    """real_seconds go on while time is frozen."""
    with freezegun.freeze_time("2026-01-01"):
        start = real_seconds()
        while real_seconds() == start:
            pass
    assert 0 < real_seconds() - start < 60


@pytest.mark.parametrize("frozen_at", ["1971-01-01", "2034-01-01"])
def test_waits_for_messages_end(frozen_at):
    """A wait for a mailbox or a socket ends in real time, frozen or not."""
    mailbox = mq.Mailbox()
    with mq.Context() as context, context.socket(mq.PULL) as socket:
        socket.bind("inproc://a")
        poller = mq.Poller()
        poller.register(socket)
        with freezegun.freeze_time(frozen_at):
            assert mailbox.recv(0.02) is None
            assert poller.poll(20) == []
            assert socket.poll(20) == 0
