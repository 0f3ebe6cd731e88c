"""PendingConnection: a pipe's far end without an owner, and the commands kept meanwhile.

The near end's thread calls `send`; the thread that completes or cancels the connection, `attach`.
"""

from threading import Lock
from typing import Any, Protocol

from _purgatory_cpython.locks import new_lock
from mq.pipes.commands import Bind, Command
from mq.queues.mailbox import Mailbox


class FarEndOwner(Protocol):
    """A bound socket, or the reaper."""

    mailbox: Mailbox[Command]

    def announce(self, item: object) -> None:
        """See `Own`."""

    def process_bind(self, pipe: Any) -> None:
        """See `AbstractSocket`."""


class PendingConnection:
    """Holds, in order, the commands to an end without an owner."""

    def __init__(self) -> None:
        self.lock: Lock = new_lock()
        self.held_commands: list[Command] = []
        self.owner: FarEndOwner | None = None  # once chosen; set by `Endpoints`

    def send(self, far_end: Any, command: Command) -> None:
        """Hold `command` for `far_end`, or send it once attached."""
        with self.lock:
            if far_end.mailbox is None:
                self.held_commands.append(command)
                return
        far_end.mailbox.send(command)

    def attach(self, far_end: Any) -> None:
        """Send `Bind` to the owner, then the held commands.

        Repeatable: an interrupt may repeat the `Bind` and a command.
        """
        owner = self.owner
        assert owner is not None
        with self.lock:
            if far_end.mailbox is not None:
                return
            if not far_end.attached:
                owner.announce(far_end)
            owner.mailbox.send(Bind(owner, far_end))
            while True:  # without a condition: see `_purgatory_cpython.locks`
                if not self.held_commands:
                    break
                owner.mailbox.send(self.held_commands[0])
                del self.held_commands[0]
            far_end.mailbox = owner.mailbox
