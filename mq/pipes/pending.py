"""PendingConnection: keeps the commands sent to a pipe's far end until a bind gives it an owner.

`send` is called by the thread of the near end, `attach` by the thread that completes or cancels
the connection.  The lock is held while commands go to a mailbox, which has none of its own.
"""

from threading import Lock
from typing import Protocol

from mq.pipes.commands import Command
from mq.queues.mailbox import Mailbox


class FarEnd(Protocol):
    """The end that waits for an owner: an `mq.pipes.pipe.Pipe`."""

    mailbox: Mailbox[Command] | None


class PendingConnection:
    """Holds, in order, the commands to an end that no thread owns yet."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.held_commands: list[Command] = []

    def send(self, far_end: FarEnd, command: Command) -> None:
        """Hold `command` for `far_end`, or send it if an owner has been found meanwhile."""
        with self.lock:
            if far_end.mailbox is None:
                self.held_commands.append(command)
                return
        far_end.mailbox.send(command)

    def attach(self, far_end: FarEnd, mailbox: Mailbox[Command], first: Command) -> None:
        """Make the thread of `mailbox` the owner; send it `first`, then the commands held."""
        with self.lock:
            mailbox.send(first)
            for command in self.held_commands:
                mailbox.send(command)
            self.held_commands.clear()
            far_end.mailbox = mailbox
