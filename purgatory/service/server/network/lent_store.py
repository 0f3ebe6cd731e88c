"""LentStore: runs transactions of the store loop in the network thread.

So few requests save two changes of thread. The right to use the store passes with the commands,
without a lock: the store thread has it from its first command until it has released all
(`StoreReleased`), otherwise the network thread. The store thread gets many requests, and all after
a slow commit: meanwhile the network thread decodes.

Commands are sent last before a sleep: the store thread finds the GIL free. Network thread alone.
"""

import contextlib
import math
from collections.abc import Callable

from mq import MailboxClosed
from purgatory.service.server.commands import (
    ClientRequest,
    NetworkCommand,
    RunTransaction,
    StopStoreLoop,
    StoreLoopCommand,
)
from purgatory.service.server.store_loop import StoreLoop

# A transaction of more commands or bytes is for the store thread; the next after a commit of so
# many seconds; and all for so long after a request came during a transaction.
MAX_OWN_COMMANDS = 16
MAX_OWN_BYTES = 4096
SLOW_COMMIT_S = 0.05
CROWDED_S = 0.05


class LentStore:
    """The commands for `store_loop`; `answer` gets answers of own transactions."""

    def __init__(self, store_loop: StoreLoop, answer: Callable[[NetworkCommand], None]) -> None:
        self._store_loop = store_loop
        self._answer = answer
        #: Of the next transaction.
        self.commands: list[StoreLoopCommand] = []
        #: Commands that the store thread has not released.
        self.with_store_thread: int = StoreLoop.START_COMMANDS
        self._crowded_until = 0.0  # monotonic, as all times here
        self._next_transaction = math.inf  # in this thread
        #: Bytes of unanswered requests.
        self.in_flight: int = 0

    def take(self, command: StoreLoopCommand) -> None:
        """Add a command to the next transaction."""
        if isinstance(command, ClientRequest):
            self.in_flight += command.size
        self.commands.append(command)

    def note_crowd(self, now: float) -> None:
        """Note a request of another client during a transaction."""
        self._crowded_until = now + CROWDED_S

    def sleep_seconds(self, now: float, *, is_closing: bool) -> float:
        """Return the seconds until this thread runs a transaction."""
        self._next_transaction = math.inf
        if not self.with_store_thread and not is_closing:
            self._next_transaction = now + self._store_loop.max_sleep()
        return max(0.0, self._next_transaction - now)

    def dispatch(self, now: float, *, is_closing: bool) -> None:
        """Run the next transaction, or send it to the store thread."""
        if not self.with_store_thread and not is_closing:
            if now >= self._next_transaction:
                self.commands.append(RunTransaction())
            if self.commands and not self._is_much(now):
                commands, self.commands = self.commands, []
                self._store_loop.transact(commands, self._answer)
                if self._store_loop.failure is not None:
                    self.stop()
                return
        self.send()

    def _is_much(self, now: float) -> bool:
        return (
            len(self.commands) > MAX_OWN_COMMANDS
            or self.in_flight > MAX_OWN_BYTES
            or self._store_loop.activity.last_commit_s > SLOW_COMMIT_S
            or (self.in_flight > 0 and now < self._crowded_until)
        )

    def stop(self) -> None:
        """End the store loop after all commands."""
        self.commands.append(StopStoreLoop())
        self.send()

    def send(self) -> None:
        """Send all commands to the store thread."""
        commands, self.commands = self.commands, []
        self.with_store_thread += len(commands)
        with contextlib.suppress(MailboxClosed):  # the store loop has ended, and reports that
            for command in commands:
                self._store_loop.mailbox.send(command)
