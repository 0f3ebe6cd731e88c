"""Mailbox: a queue of commands from any thread to its owner's thread.

Any thread, signal handler or finalizer may call `send`, re-entrantly; only the owning thread
`recv`, `head`, `drop` and `close`; any thread the rest.

How no wake-up is lost, without a lock that a finalizer could find held by its own thread::

    sender                                reader, having found the mailbox empty
    1. append the command                 a. consume the signal
    2. read `_sleeps`                     b. `_sleeps` += 1
    3. if it is not `_signalled`:         c. recheck; found a command: done
       signal, `_signalled` = what 2 saw  d. wait for a signal

Each number in `_sleeps` stands for one sleep and gets about one signal: signals of racing senders
merge. If (1) came before (c), the reader finds the command. If after, (b) came before (2), so the
sender sees a sleep without a signal. After an interrupt in a sender, the next send signals.

Without a deadline the reader does (d) and (a) in one system call and continues at (b). With one it
leaves the signal pending: senders signal no more until the reader finds the mailbox empty again.

An interrupted reader first repeats the signal. For a command that must not be lost, the reader
calls `head`, works, and calls `drop`.

Other threads must see (1)-(2) and (b)-(c) in order. The GIL orders them; without it, (1) and (c) go
through the lock inside the deque, which orders the rest.
"""

import sys
from collections import deque
from typing import Any, Final, Generic, TypeVar

from _purgatory_cpython.atomicity import GIL
from _purgatory_cpython.fork import FORK_COUNTER
from _purgatory_cpython.mypyc_types import i64, mypyc_attr
from _purgatory_cpython.real_time import real_seconds
from mq.errors import MailboxClosed
from mq.queues.signaler import Signaler
from mq.timeouts import check_timeout

T = TypeVar("T")

_CLOSED: Final = "the mailbox is closed"
_EXITING: Final = "the interpreter exits: no thread is left to send a command"
_NOT_A_COMMAND: Final = "command is None; expected anything else: `recv` returns None for none"
_FORKED: Final = "the mailbox belongs to the process this one was forked from"


@mypyc_attr(allow_interpreted_subclasses=True)
class Mailbox(Generic[T]):
    """Commands from many senders to one reader, in order of each sender.

    The descriptor of `fileno()` is readable while there is a command (and sometimes after: then
    `recv(0)` returns None). Raises OSError when no descriptor is left.
    """

    __slots__ = ("_forks", "_queue", "_received", "_signaler", "_signalled", "_sleeps", "waiting")

    def __init__(self) -> None:
        self._queue: deque[T] = deque()
        self._signaler: Signaler | None = Signaler()  # None once closed
        self._sleeps: i64 = 1  # written by the reader: how often it found the mailbox empty
        self._signalled: i64 = 0  # written by senders: the last sleep signalled for
        self._received: i64 = 0  # written by the reader
        self.waiting: bool = False  # written by the reader: whether it sleeps in `recv` or `head`
        self._forks: i64 = FORK_COUNTER.value

    def send(self, command: T) -> None:
        """Post `command`, anything but None; never blocks.

        An interrupt loses no command. `MailboxClosed` after `close` and in a forked child; a close
        may drop commands sent meanwhile. TypeError for None.
        """
        if command is None:
            raise TypeError(_NOT_A_COMMAND)
        signaler = self._signaler  # the reference keeps the descriptor open during a close
        if signaler is None or self._forks != FORK_COUNTER.value:
            raise self._closed_error()
        self._queue.append(command)
        sleep = self._sleeps
        if self._signalled != sleep:
            signaler.send()
            self._signalled = sleep

    def _closed_error(self) -> MailboxClosed:
        return MailboxClosed(_CLOSED if self._forks == FORK_COUNTER.value else _FORKED)

    def recv(self, timeout: float | None = None) -> T | None:
        """Return the next command; None if none came within `timeout` seconds (None: for ever).

        Commands sent before a `close` are still received; then `MailboxClosed`, also instead of an
        endless wait at the interpreter's exit. ValueError for NaN.
        """
        command = self.head(timeout)
        if command is not None:
            # Not drop(): no KeyboardInterrupt comes between these.
            del self._queue[0]
            self._received += 1
        return command

    def head(self, timeout: float | None = None) -> T | None:
        """Return the next command as `recv`; it stays, without a signal, until `drop`."""
        queue = self._queue
        if queue and self._forks == FORK_COUNTER.value:  # else the commands are the parent's
            return queue[0]
        check_timeout(timeout)
        if timeout is None and sys.is_finalizing():
            raise MailboxClosed(_EXITING)
        self.waiting = True
        try:
            return self._wait() if timeout is None else self._wait_until(real_seconds() + timeout)
        finally:
            self.waiting = False

    def _wait(self) -> T:
        while True:
            signaler = self._signaler
            if signaler is None or self._forks != FORK_COUNTER.value:
                raise self._closed_error()
            try:
                self._sleeps += 1
                command = self._recheck(signaler)
                if command is None and self._signaler is not None:
                    signaler.wait_and_clear()
            except BaseException:  # the signal may be consumed, and senders rely on it
                signaler.send()
                raise
            if command is not None:
                return command

    def _wait_until(self, deadline: float) -> T | None:
        while True:
            signaler = self._signaler
            if signaler is None or self._forks != FORK_COUNTER.value:
                raise self._closed_error()
            try:
                signaler.recv()
                self._sleeps += 1
                command = self._recheck(signaler)
            except BaseException:  # as above
                signaler.send()
                raise
            if command is not None:
                return command
            if self._signaler is None:
                continue  # closed: the consumed signal may have been the closing signal
            remaining = deadline - real_seconds()
            if remaining <= 0:
                return None
            signaler.wait(remaining)
            if self._queue and self._forks == FORK_COUNTER.value:
                return self._queue[0]

    def _recheck(self, signaler: Signaler) -> T | None:
        queue = self._queue
        if GIL and not queue:
            return None
        try:
            command = queue[0]  # without a GIL: this goes through the deque's lock
        except IndexError:
            return None
        if len(queue) > 1:
            signaler.send()  # for the other commands: their signal may be consumed
        return command

    def drop(self, number: i64) -> None:
        """Remove the command that `head` returned while `received` was `number`.

        Unless a signal handler has done so.
        """
        if self._received == number:
            del self._queue[0]
            self._received += 1

    def peek(self) -> bool:
        """Whether a command exists."""
        return self.depth > 0

    def fileno(self) -> int:
        """The descriptor to poll for reading; -1 once closed."""
        signaler = self._signaler
        return -1 if signaler is None else signaler.fileno()

    def close(self) -> None:
        """Refuse further commands, and wake a waiting `recv`. Idempotent."""
        signaler = self._signaler
        if signaler is None or self.closed:
            return
        # A sender may be about to write: its reference keeps the descriptor open.
        self._signaler = None
        signaler.send()

    @property
    def closed(self) -> bool:
        """Whether `close` was called, or the process forked."""
        return self._signaler is None or self._forks != FORK_COUNTER.value

    @property
    def depth(self) -> int:
        """Commands sent and not yet received; 0 in a forked child."""
        return len(self._queue) if self._forks == FORK_COUNTER.value else 0

    @property
    def received(self) -> int:
        """Commands received so far."""
        return self._received

    @property
    def sent(self) -> int:
        """Commands sent so far. Derived: senders share no counter."""
        return self._received + self.depth

    def __reduce_ex__(self, protocol: object) -> Any:
        raise TypeError(f"{self!r} cannot be copied or pickled: it has descriptors and a reader")

    def __repr__(self) -> str:
        state = str(self._closed_error()) if self.closed else f"fd={self.fileno()}"
        return f"<Mailbox {self.depth} waiting, {self._received} received, {state}>"
