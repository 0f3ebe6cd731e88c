"""Commands: immutable, delivered to their destination."""

from dataclasses import dataclass

import pytest

import mq


def test_commands_can_be_subclassed():
    """A program's command is one of ours."""

    @dataclass(frozen=True, slots=True)
    class Count(mq.Command):
        number: int

        def deliver(self):
            self.destination.append(self.number)

    got = []
    mailbox = mq.Mailbox()
    mailbox.send(Count(got, 3))
    mailbox.recv(0).deliver()
    assert got == [3]
    mailbox.close()


def test_a_command_without_a_delivery_is_refused():
    """It would be lost in silence."""
    with pytest.raises(NotImplementedError):
        mq.Command("destination").deliver()
