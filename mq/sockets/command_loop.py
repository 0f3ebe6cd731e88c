"""CommandLoop: how a socket takes commands from its mailbox and carries them out.

After a KeyboardInterrupt, the next call on the socket, or the reaper, delivers the command again:
see `mq.pipes.commands`. So calls of several steps (`connect`) are commands to the socket itself.
For the owner's thread: see `mq.sockets.base`.
"""

import sys
from collections.abc import Callable

from _purgatory_cpython.real_time import real_seconds
from mq.constants import Errno
from mq.core.context_core import ContextCore
from mq.errors import ContextTerminated, ZMQError
from mq.pipes.commands import Call, Command, Stop, WakeUp
from mq.queues.mailbox import Mailbox
from mq.sockets.hooks import SocketHooks


class CommandLoop(SocketHooks):
    """A socket's mailbox, and whether the socket may be used."""

    def __init__(self, ctx: ContextCore, slot: int) -> None:
        mailbox: Mailbox[Command] = Mailbox()
        super().__init__(mailbox, slot)
        self.ctx = ctx
        self._stopped = False  # the context is terminating
        self._unusable = False  # closed, stopped or forked; the hot path checks this alone
        self._forked = False
        self._handed_over = False  # to the reaper

    # -- commands ----------------------------------------------------------------------------

    def _deliver_next(self) -> bool:
        mailbox = self.mailbox
        command = mailbox.head(0)
        if command is None:
            return False
        number = mailbox._received  # no call comes between this and `head`
        command.deliver()
        mailbox.drop(number)
        return True

    def process_commands(self) -> None:
        """Deliver all commands, without waiting; `ContextTerminated` if one was `Stop`.

        The descriptor then signals the next command.
        """
        try:
            while self._deliver_next():
                pass
        except BaseException:  # an interrupt: commands may be left, and their signal consumed
            self.mailbox.send(WakeUp(self))
            raise
        if self._unusable:
            self._raise_unusable()

    def _process_queued_commands(self) -> None:
        # Until a reader has found its mailbox empty, commands need no signal.
        while self.mailbox.peek() and self._deliver_next():
            pass
        if self._unusable:
            self._raise_unusable()

    def _wait_for_command(self, deadline: float | None) -> None:
        # After the deadline too: `Again` would be wrong while a command is there.
        if deadline is None and not self.mailbox.peek() and sys.is_finalizing():
            raise ContextTerminated  # no other thread runs
        self.mailbox.head(None if deadline is None else max(0.0, deadline - real_seconds()))
        if self.closed:  # another thread did, and left the hand-over to this thread
            self._hand_over()
            self._raise_unusable()
        self._process_queued_commands()

    def _perform(self, call: Callable[[], None]) -> None:
        # Make a call that is repeated if interrupted.
        command = Call(self, call)
        self.mailbox.send(command)
        self._process_queued_commands()
        for error in command.errors:
            raise error

    def _check_usable(self) -> None:
        if self._unusable:
            self._raise_unusable()
        self._process_queued_commands()

    def _raise_unusable(self) -> None:
        if self.closed or self._forked:
            raise ZMQError(Errno.ENOTSOCK)
        raise ContextTerminated

    def process_stop(self) -> None:
        self._stopped = self._unusable = True

    # -- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Hand the socket over to the reaper.

        Takes no lock: finalizers come here. If another thread waits in the socket, against the
        rules, that thread hands the socket over: a mailbox must not have two readers.
        """
        if self._handed_over:
            return
        if self._forked:  # a thread that waits in the socket is the parent's
            self.closed: bool = True
            return
        self._unusable = True
        if self.mailbox.waiting:
            self.closed = True
            self.mailbox.send(Stop(self))
        else:
            self._hand_over()
            self.closed = True

    def _hand_over(self) -> None:
        # May be repeated: the reaper adopts a socket only once.
        self.ctx.reap(self)
        self._handed_over = True

    def disown(self) -> None:
        self._forked = self._unusable = True

    def process_in_reaper(self) -> None:
        while not self.destroyed and self._deliver_next():
            pass
