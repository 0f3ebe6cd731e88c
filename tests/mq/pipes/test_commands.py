"""Commands: immutable, delivered to their destination."""

from dataclasses import dataclass

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
