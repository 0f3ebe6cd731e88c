"""LentStore: the store loop as the network thread sees it, which may run transactions itself.

A transaction of few requests is run by the network thread: a change of thread and back would take
longer. The right to do so passes with the commands, without a lock. The store thread has it from
the first command that it is sent until it has released all of them (`StoreReleased`), otherwise the
network thread has it, and expires what is due, too. Many requests go to the store thread: the
network thread decodes the next ones while those are on their way to the disk. So do requests after
a slow commit: the network thread waits for the disk only with little to do.

Commands are sent last, before the network thread sleeps: the store thread then finds the GIL free.
Used by the network thread alone.
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
    TransactionReplies,
)
from purgatory.service.server.store_loop import StoreLoop

# The store thread runs a transaction of more commands or bytes of requests, the next one after
# a commit of so many seconds, and all for so long after a request that came during a transaction.
MAX_OWN_COMMANDS = 16
MAX_OWN_BYTES = 4096
SLOW_COMMIT_S = 0.05
CROWDED_S = 0.05


class LentStore:
    """The commands for `store_loop`; `answer` gets what a transaction in this thread answers.

    `has_unread` looks whether there are messages that are not read yet.
    """

    def __init__(
        self,
        store_loop: StoreLoop,
        answer: Callable[[NetworkCommand], None],
        has_unread: Callable[[], bool],
    ) -> None:
        self._store_loop = store_loop
        self._answer = answer
        self._has_unread = has_unread
        self._commands: list[StoreLoopCommand] = []  # for the next transaction
        # Commands that the store thread has not released; it begins with the one to start.
        self._with_store_thread = StoreLoop.START_COMMANDS
        self._now = 0.0  # by the monotonic clock, as all times here
        self._crowded_until = 0.0
        self._due = math.inf  # when a transaction is due in this thread
        #: Bytes of requests that are not answered.
        self.in_flight: int = 0

    @property
    def is_shared(self) -> bool:
        """Whether several clients have asked for something lately."""
        return self._store_loop.budget.is_shared

    @property
    def has_commands(self) -> bool:
        """Whether `dispatch` has anything to do, whatever the time."""
        return bool(self._commands)

    def take(self, command: StoreLoopCommand) -> None:
        """Have done what a client asks for."""
        if isinstance(command, ClientRequest):
            self.in_flight += command.size
        self._commands.append(command)

    def post(self, command: StoreLoopCommand) -> None:
        """Have done what no client asks for."""
        self._commands.append(command)

    def note_replies(self, replies: TransactionReplies) -> None:
        """Note that requests are answered."""
        self.in_flight -= replies.size

    def note_release(self, commands: int) -> None:
        """Note that the store thread has released so many commands, and sleeps."""
        self._with_store_thread -= commands

    def sleep_seconds(self, now: float, *, is_closing: bool) -> float:
        """Return the seconds until a transaction is due in this thread."""
        self._due = math.inf
        if self._is_lent(is_closing=is_closing):
            self._due = now + self._store_loop.max_sleep()
        return max(0.0, self._due - now)

    def _is_lent(self, *, is_closing: bool) -> bool:
        """Tell whether transactions are run by this thread, and not by the store thread."""
        return not self._with_store_thread and not is_closing

    def dispatch(self, now: float, *, is_closing: bool) -> None:
        """Run the next transaction, if one is due, or leave it to the store thread."""
        self._now = now
        if self._is_lent(is_closing=is_closing):
            if now >= self._due:
                self.post(RunTransaction())
            if self._commands and not self._is_much():
                self._transact()
                return
        self.send()

    def _is_much(self) -> bool:
        """Tell whether the next transaction is for the store thread."""
        return (
            len(self._commands) > MAX_OWN_COMMANDS
            or self.in_flight > MAX_OWN_BYTES
            or self._store_loop.activity.last_commit_s > SLOW_COMMIT_S
            or (self.in_flight > 0 and self._now < self._crowded_until)
        )

    def _transact(self) -> None:
        """Run a transaction in this thread, and send the replies."""
        commands, self._commands = self._commands, []
        self._store_loop.transact(commands, self._on_own_answer)
        if self._store_loop.finished():  # it has failed
            self.stop()

    def _on_own_answer(self, answer: NetworkCommand) -> None:
        # A request that is there though nothing was answered yet is another client's.
        if isinstance(answer, TransactionReplies) and self._has_unread():
            self._crowded_until = self._now + CROWDED_S
        self._answer(answer)

    def stop(self) -> None:
        """Have the store loop end, after all that it was sent."""
        self.post(StopStoreLoop())
        self.send()

    def send(self) -> None:
        """Send the store thread all commands."""
        commands, self._commands = self._commands, []
        self._with_store_thread += len(commands)
        with contextlib.suppress(MailboxClosed):  # the store loop has ended, and says so itself
            for command in commands:
                self._store_loop.mailbox.send(command)
