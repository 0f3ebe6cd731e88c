"""Bus: the mailbox on which a running purgatory's loop sleeps, and the handling of commands.

The loop is the timer's `Reaper`, whose `Waiter` is the bus: it waits in the mailbox until the
timer's next deadline, handles a batch of commands, and lets the reaper advance the clock. A
purgatory with a shared timer has a loop for commands alone. Any thread posts.
"""

import contextlib
import logging
import threading
import weakref
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import starmap

from _purgatory_cpython import at_exit
from mq import Mailbox, MailboxClosed
from purgatory.bus.commands import Barrier, KeyCommand, LoopCommand, StopLoop, Wake
from purgatory.bus.worker_pool import WorkerPool, shorter
from purgatory.errors import PurgatoryClosed
from timingwheel.lowlevel import (
    JOIN_GRACE_S,
    InterruptibleEvent,
    Reaper,
    is_owned,
    new_rlock,
    real_seconds,
)

log: logging.Logger = logging.getLogger(__name__)

BATCH = 1024  # commands done in a row before the loop looks at the clock again
_WAKE = Wake()
# How soon a closing thread looks again if another thread reads.
_OTHER_READER_S = 0.001


class _Mark:
    """Lives as long as its thread."""


class MailboxReader:
    """The thread that reads the mailbox: the last to call `enter`.

    Any thread waits for it. A mark in the reader's thread-local storage, which CPython drops
    together with the thread, shows its end.
    """

    def __init__(self) -> None:
        self._ident = 0
        self._ended = False
        self._waiting: dict[threading.Event, None] = {}  # in order, as in `WorkerPool`
        self._of_thread = threading.local()
        self._mark: weakref.ref[_Mark] | None = None

    def enter(self) -> None:
        """Make the calling thread the reader."""
        ident = threading.get_ident()
        if self._ident == ident and not self._ended:
            return
        mark = self._of_thread.mark = _Mark()
        # Weak, or the callback and this object would be a cycle.
        self._mark = weakref.ref(mark, partial(_note_end, weakref.ref(self)))
        self._ident = ident
        self._ended = False

    def is_here(self) -> bool:
        """Whether the calling thread is the reader."""
        return self._ident == threading.get_ident()

    def wait_unless_ended(self, event: threading.Event, timeout: float | None) -> bool:
        """Wait for the reader to set an event. False if it has ended."""
        self._waiting[event] = None
        try:
            # A reader that ends now is either seen or sets the event.
            if not self._ended:
                event.wait(timeout)
        finally:
            self._waiting.pop(event, None)
        return not self._ended


def _note_end(this: "weakref.ref[MailboxReader]", dead: "weakref.ref[_Mark]") -> None:
    reader = this()
    if reader is not None and reader._mark is dead:  # else another thread reads now
        reader._ended = True
        for event in tuple(reader._waiting):
            event.set()


def _lock_timeout(timeout: float | None) -> float:
    return -1 if timeout is None else max(0.0, min(timeout, threading.TIMEOUT_MAX))


class Bus:
    """The mailbox of a purgatory's loop. Any thread posts; the loop's thread calls `wait`.

    `do_command`: does commands for keys. `workers`: of the purgatory's own timer. While no loop
    runs, the thread that calls `Purgatory.step` is the loop.
    """

    def __init__(
        self,
        name: str,
        do_command: Callable[[KeyCommand], object],
        workers: WorkerPool | None = None,
    ) -> None:
        self.mailbox: Mailbox[LoopCommand] = Mailbox()
        self._name = name
        self._do_command = do_command
        self._workers = workers
        # Held while commands are taken out, never while they are done.
        self._reading = new_rlock()
        self._batch: deque[LoopCommand] = deque()
        self._reader = MailboxReader()
        self._stopped = False
        self._is_frozen = False
        self._starting = new_rlock()  # guards the two fields below; a leaf lock
        self._loop: Reaper | None = None  # None: the timer's reaper
        self._may_not_start = False
        at_exit.register_locks(self)  # and the purgatory's, by `do_command`

    def post(self, command: LoopCommand) -> None:
        """Send a command to the loop, also from signal handlers and finalizers.

        Raises PurgatoryClosed.
        """
        try:
            self.mailbox.send(command)
        except MailboxClosed as error:
            raise PurgatoryClosed(f"purgatory {self._name!r} is closed") from error

    def wake(self) -> None:
        """End the present sleep, or the next."""
        with contextlib.suppress(MailboxClosed):  # no loop sleeps any more
            self.mailbox.send(_WAKE)

    def wait(self, timeout: float | None) -> None:
        """Do as `do_posted`, in the loop's thread."""
        self._reader.enter()
        self.do_posted(timeout)

    def do_posted(self, timeout: float | None) -> None:
        """Wait up to `timeout` seconds for commands; handle all received.

        While another thread does the same, waits for that thread.
        """
        self._take(self._until_next_look(timeout))
        while (command := self._next_command()) is not None:
            try:
                self._do(command)
            except Exception:
                if isinstance(command, Wake | Barrier | StopLoop):
                    raise  # by a signal handler: a thread may wait for the interrupted barrier
                log.exception("%r of %r failed", command, self._name)

    def _next_command(self) -> LoopCommand | None:
        try:
            return self._batch.popleft()
        except IndexError:  # a closing thread took it
            return None

    def _until_next_look(self, timeout: float | None) -> float | None:
        look = None if self._workers is None else self._workers.relieve()
        return shorter(timeout, look)

    def _take(self, timeout: float | None) -> None:
        taken: list[bool] = []
        try:
            # In one call of C: after an interrupt the list tells if the lock was taken.
            taken.extend(starmap(self._reading.acquire, ((False,),)))
            if not taken[0]:  # another thread reads: wait for that thread, and for no command
                taken.extend(starmap(self._reading.acquire, ((True, _lock_timeout(timeout)),)))
                timeout = 0
            if taken[-1] and not self._batch:  # else a command called: go on with the others
                self._receive(timeout)
        finally:
            if taken and taken[-1]:
                self._reading.release()

    def _receive(self, timeout: float | None) -> None:
        with contextlib.suppress(MailboxClosed):
            command = self.mailbox.recv(timeout)
            while command is not None:
                self._batch.append(command)
                command = self.mailbox.recv(0) if len(self._batch) < BATCH else None

    def _do(self, command: LoopCommand) -> None:
        match command:
            case Wake():
                pass
            case Barrier(reached):
                reached.set()
            case StopLoop():
                self._stopped = True
            case _:
                self._do_command(command)

    def flush(
        self, loop_runs: Callable[[], bool], timeout: float | None, *, wait: bool = True
    ) -> None:
        """Return when all earlier commands are done, or after `timeout` seconds.

        In the loop's own thread, or if no loop runs, they are done here. Without `wait` too, as far
        as the loop has not begun them.
        """
        if self.mailbox.closed or self._is_frozen:
            return
        reached = InterruptibleEvent()
        try:
            self.post(Barrier(reached))
        except PurgatoryClosed:  # another thread closes, too, and has flushed
            return
        if timeout == 0:
            return
        is_loop = self._reader.is_here() or not loop_runs()
        if is_loop or not wait:
            self._do_until(reached, None if is_loop else JOIN_GRACE_S)
        elif not self._reader.wait_unless_ended(reached, timeout):
            self.flush(lambda: False, timeout)

    def _do_until(self, reached: threading.Event, timeout: float | None) -> None:
        """Do commands here until a barrier is reached."""
        end_s = None if timeout is None else real_seconds() + timeout
        while not reached.is_set() and (end_s is None or real_seconds() < end_s):
            self.do_posted(0)
            if not self.mailbox.peek():  # else there were more than `BATCH`
                reached.wait(_OTHER_READER_S)

    def after_freeze(self) -> None:
        """Note whether the interpreter's exit has frozen a thread in `_take`."""
        if self._reading.acquire(blocking=False):
            self._reading.release()
        else:
            self._is_frozen = True

    def start_loop(self) -> None:
        """Start a loop for the commands alone, unless it runs, or after `stop_loop`."""
        loop = Reaper(self, self, f"{self._name}-bus")
        with self._starting:
            if self._loop is not None or self._may_not_start:
                return
            self._loop = loop
        # Without the lock: a finalizer in the new thread may close the purgatory.
        try:
            loop.start()
        finally:
            if not loop.started:
                self._loop = None

    def loop_runs(self) -> bool:
        """Whether a loop for the commands alone runs."""
        loop = self._loop
        return loop is not None and loop.started and not loop.ended()

    def holds_lock(self) -> bool:
        """Return whether the calling thread has a lock that the loop's thread needs."""
        return is_owned(self._reading)

    def stop_loop(self, timeout: float | None) -> None:
        """End that loop, behind the commands posted before, and wait for it."""
        with self._starting:
            self._may_not_start = True
            loop = self._loop
        if loop is not None:
            with contextlib.suppress(PurgatoryClosed):  # already stopped
                self.post(StopLoop())
            if loop.started:
                loop.join(timeout)

    # Takes a timer's place in a loop for commands.

    def advance_clock(self) -> bool:
        """See `Advanceable`."""
        return False

    def max_sleep(self) -> float | None:
        """See `Advanceable`."""
        return None

    def finished(self) -> bool:
        """See `Advanceable`."""
        return self._stopped or self.mailbox.closed

    def shut_down(self) -> None:
        """See `Advanceable`."""
