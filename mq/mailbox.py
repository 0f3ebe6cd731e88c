"""Mailbox: how a thread is told things.

Who may call it: `send` any thread, a signal handler or a finalizer, at any moment and re-entrantly;
`recv` and `close` the one thread that owns the mailbox; `fileno` and the counters everybody.

How no wake-up is lost, without a lock a finalizer could meet halfway::

    sender                                reader, having found the mailbox empty
    1. append the command                 a. consume the signal
    2. read `_sleeps`                     b. `_sleeps` += 1
    3. if it is not `_signalled`:         c. look again; found one: done
       signal, `_signalled` = what 2 saw  d. wait for a signal

Each number in `_sleeps` is one sleep, and is signalled for about once: senders that race signal
twice, which the signaler merges.  If (1) came before (c), the reader finds the command.  If after,
then (b) came before (2), so the sender sees a sleep nobody has signalled for.  A sender that is cut
short between any two steps leaves `_signalled` behind, and so the next send signals.

That argument needs (1)-(2) and (b)-(c) to happen in order as others see them.  With the GIL they
do; without it, (1) and (c) both go through the lock inside the deque, which orders the rest.
"""

import time
from collections import deque
from typing import Generic, TypeVar

from mq import fork
from mq.errors import MailboxClosed
from mq.signaler import Signaler

T = TypeVar("T")


class Mailbox(Generic[T]):
    """Commands from many senders to one reader, in order of sending for each sender.

    The descriptor of `fileno()` is readable while there is a command (and now and then when there
    is none any more: `recv(0)` then returns None).  Raises OSError when no descriptor is left.
    """

    __slots__ = (
        "__weakref__",
        "_closed",
        "_queue",
        "_received",
        "_signaler",
        "_signalled",
        "_sleeps",
        "waiting",
    )

    def __init__(self) -> None:
        self._queue: deque[T] = deque()
        self._signaler: Signaler | None = Signaler()  # None once closed
        self._sleeps = 1  # written by the reader: how often it found the mailbox empty
        self._signalled = 0  # written by senders: the last sleep that was signalled for
        self._received = 0  # written by the reader
        self._closed = ""  # why nothing can be sent any more; written once
        self.waiting = False  # written by the reader: whether `recv` has found nothing so far
        fork.register(self)

    def send(self, command: T) -> None:
        """Post `command`, anything but None; never blocks.

        An exception at any point inside loses neither the command, if it had been posted, nor any
        other: whatever signal is owed, the next send gives.  `MailboxClosed` after `close` and in
        a forked child; what is sent while the reader closes may be dropped.
        """
        if self._closed:
            raise MailboxClosed(self._closed)
        self._queue.append(command)
        sleep = self._sleeps
        if self._signalled != sleep:
            signaler = self._signaler  # held, so that its descriptor outlives a close meanwhile
            if signaler is not None:
                signaler.send()
            self._signalled = sleep

    def recv(self, timeout: float | None = None) -> T | None:
        """The next command; None when none came within `timeout` seconds (None: for ever).

        What was sent before a `close` is still received; then `MailboxClosed`.
        """
        queue = self._queue
        if queue:
            # Not popleft(): a KeyboardInterrupt can come after any call, but not between these.
            command = queue[0]
            del queue[0]
            self._received += 1
            return command
        self.waiting = True
        try:
            return self._wait(timeout)
        finally:
            self.waiting = False

    def _wait(self, timeout: float | None) -> T | None:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            signaler = self._signaler
            if signaler is None:
                raise MailboxClosed(self._closed)
            try:
                signaler.recv()
                self._sleeps += 1
                command = self._look_again(signaler)
            except BaseException:  # the signal is consumed, and senders may count on it
                signaler.send()
                raise
            if command is not None:
                return command
            if self._signaler is None:
                continue  # closed: the signal for it may be the one just consumed
            remaining = None if deadline is None else deadline - time.monotonic()
            if remaining is not None and remaining <= 0:
                return None
            signaler.wait(remaining)
            if self._queue:
                return self.recv()

    def _look_again(self, signaler: Signaler) -> T | None:
        queue = self._queue
        try:
            command = queue[0]  # not `if queue`: this goes through the deque's lock
        except IndexError:
            return None
        if len(queue) > 1:
            signaler.send()  # their senders may have been spared by the signal consumed above
        del queue[0]
        self._received += 1
        return command

    def peek(self) -> bool:
        """Whether `recv` is worth calling: a plain read, made for asking before every operation."""
        return bool(self._queue)

    def fileno(self) -> int:
        """The descriptor to poll for reading; -1 once closed."""
        signaler = self._signaler
        return -1 if signaler is None else signaler.fileno()

    def close(self) -> None:
        """Refuse all further commands, and wake a `recv` that waits.  Idempotent."""
        signaler = self._signaler
        self._shut("the mailbox is closed")
        if signaler is not None:
            signaler.send()

    def after_fork(self) -> None:
        """Disown the box in a child: the eventfd is shared, it would eat its parent's wake-ups."""
        self._shut("the mailbox belongs to the process this one was forked from")

    def _shut(self, reason: str) -> None:
        signaler = self._signaler
        if signaler is None:
            return
        self._closed = reason
        # Senders may stand before their write: the descriptor goes with the last reference.
        self._signaler = None

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or the process forked."""
        return self._signaler is None

    @property
    def depth(self) -> int:
        """Commands sent and not yet received."""
        return len(self._queue)

    @property
    def received(self) -> int:
        """Commands received so far."""
        return self._received

    @property
    def sent(self) -> int:
        """Commands sent so far.  Derived, so that senders need not share a counter."""
        return self._received + len(self._queue)

    def __repr__(self) -> str:
        state = self._closed or f"fd={self.fileno()}"
        return f"<Mailbox {self.depth} waiting, {self._received} received, {state}>"
