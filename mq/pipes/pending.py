"""PendingConnection: what is sent to a pipe's far end before a bind gives that an owner.

Called by the thread of the near end (`send`) and by whoever completes or ends the connection
(`attach`).  What is sent under the lock goes to mailboxes, which have none.
"""

from threading import Lock
from typing import TYPE_CHECKING

from mq.pipes.commands import Command
from mq.queues.mailbox import Mailbox

if TYPE_CHECKING:
    from mq.pipes.pipe import Pipe


class PendingConnection:
    """Keeps what is sent to an end that nobody owns yet, in order."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.held_commands: list[Command] = []

    def send(self, pipe: "Pipe", command: Command) -> None:
        """Keep `command` for `pipe`, unless an owner has been found meanwhile."""
        with self.lock:
            if pipe.mailbox is None:
                self.held_commands.append(command)
                return
        pipe.mailbox.send(command)

    def attach(self, pipe: "Pipe", mailbox: Mailbox[Command], first: Command) -> None:
        """Make the thread of `mailbox` the owner of `pipe`; it gets `first`, then what was kept."""
        with self.lock:
            mailbox.send(first)
            for command in self.held_commands:
                mailbox.send(command)
            self.held_commands.clear()
            pipe.mailbox = mailbox
