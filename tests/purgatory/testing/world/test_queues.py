"""Mailbox and doorbell of a process, which never wait."""

import pytest

from mq import MailboxClosed
from purgatory.testing.world.descriptors import Descriptors
from purgatory.testing.world.queues import SimulatedDoorbell, SimulatedMailbox


@pytest.fixture
def descriptors():
    """Those of a process."""
    return Descriptors()


def test_a_mailbox_keeps_the_order(descriptors):
    """It is readable until it was found empty; then it returns None instead of waiting."""
    mailbox = SimulatedMailbox(descriptors)
    for command in (1, 2):
        mailbox.send(command)
    assert (mailbox.peek(), mailbox.depth) == (True, 2)
    assert [mailbox.recv(), mailbox.recv(5.0)] == [1, 2]
    assert descriptors.is_readable(mailbox.fileno())
    assert mailbox.recv(5.0) is None
    assert not descriptors.is_readable(mailbox.fileno())


def test_a_mailbox_refuses_none(descriptors):
    """As the real one does."""
    mailbox = SimulatedMailbox(descriptors)
    with pytest.raises(TypeError, match="command is None"):
        mailbox.send(None)
    assert mailbox.recv() is None
    assert mailbox.depth == 0


def test_a_closed_mailbox(descriptors):
    """What was sent before is received; nothing more is taken."""
    mailbox = SimulatedMailbox(descriptors)
    mailbox.send(1)
    mailbox.close()
    assert mailbox.closed
    with pytest.raises(MailboxClosed):
        mailbox.send(2)
    assert mailbox.recv() == 1
    with pytest.raises(MailboxClosed):
        mailbox.recv()


def test_a_doorbell_wakes_its_thread(descriptors):
    """Whenever a registered descriptor becomes readable, until the doorbell is closed."""
    bell, woken = SimulatedDoorbell(descriptors), []
    one, other = descriptors.new(), descriptors.new()
    for descriptor in (one, other):
        bell.register(descriptor)
    descriptors.signal(one)  # no thread yet: nothing to wake
    bell.wake = lambda: woken.append(1)
    descriptors.signal(other)
    assert (len(woken), bell.ready()) == (1, [one, other])
    bell.unregister(one)
    descriptors.signal(one)
    assert (len(woken), bell.ready()) == (1, [other])
    bell.close()
    descriptors.signal(other)
    assert len(woken) == 1
