"""ClientIOThread: the thread of a client that sends, receives, and calls back.

Callers post commands to its mailbox. The thread sleeps on the descriptors of mailbox, socket and
monitor.

While nothing else is under way, a caller sends its call (`send_now`) and receives the answer
(`lead`) itself, which saves four changes of thread. Callbacks run in the I/O thread alone.

An interrupt (KeyboardInterrupt) may hit a caller between any two steps, and its messages may be
lost. `_interrupted` stays set, and the I/O thread reconnects.

Each step wakes waiting callers last: earlier they would compete for the interpreter.
"""

import contextlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from _purgatory_cpython.fork import FORK_COUNTER
from mq import Mailbox, MailboxClosed
from purgatory.core.operations.future import PENDING
from purgatory.service.client.calls import (
    Call,
    CallBatch,
    CallBatcher,
    RequestType,
    reject,
    resolve,
)
from purgatory.service.client.connection import RECONNECT_DELAY_S, ServerConnection
from purgatory.service.client.futures import MADE_BEFORE_FORK, ReplyFuture
from purgatory.service.client.outcomes import OutcomeHandled
from purgatory.service.client.patience import Patience
from purgatory.service.client.route.socket_options import SocketOptions
from purgatory.service.client.session import Session
from purgatory.service.client.turn import Turn
from purgatory.service.errors import ServiceError, Unavailable, summary_of
from purgatory.service.platform import REAL_PLATFORM, LoopThread, Platform

log: logging.Logger = logging.getLogger(__name__)

# Failed steps in a row that end the thread.
MAX_FAILURES: Final = 10
# Most commands between two looks at the other descriptors.
COMMANDS_PER_STEP: Final = 64


@dataclass(slots=True)
class FlushCommand:
    """Resolve `answered` when all earlier calls are answered."""

    answered: ReplyFuture[None]


@dataclass(slots=True)
class CloseCommand:
    """End the thread when all earlier calls are answered, or after `seconds`.

    `patience`: or after so many seconds of the server's silence.
    """

    seconds: float
    patience: float = math.inf


@dataclass(slots=True)
class WakeCommand:
    """Do the work that a caller with the turn has left."""


IOCommand = CallBatch | FlushCommand | CloseCommand | WakeCommand | OutcomeHandled


class ClientIOThread:
    """Connects the session to one of `addresses`; the thread runs until a `CloseCommand`.

    `post`, `wake`, `is_closed`, `batcher`, `turn`, `send_now` and `lead` are for any thread. Raises
    ZMQError for a bad address, ValueError for a bad key.
    """

    def __init__(
        self,
        addresses: tuple[str, ...],
        session: Session,
        options: SocketOptions,
        patience: Patience,
        name: str,
        platform: Platform = REAL_PLATFORM,
    ) -> None:
        self._monotonic = platform.monotonic
        self._mailbox: Mailbox[IOCommand] = platform.mailbox()
        self.batcher: CallBatcher = CallBatcher(
            self.post, self.is_closed, self.send_now, lambda: not self.turn.is_mine()
        )
        #: For the session, the connection and the fields below.
        self.turn: Turn = Turn()
        self._session = session
        if session.handler is not None:
            session.handler.post = self._post_unless_closed
        self._doorbell = platform.doorbell()
        self._connection = ServerConnection(addresses, session, options, self._doorbell, platform)
        self._patience = patience
        self._left: list[Any] = []  # a caller has received these messages
        self._interrupted = False  # set while a caller sends or receives
        self._is_lent = False  # the doorbell, to a caller
        self._close_deadline: float | None = None  # set while closing
        self._flushes: list[FlushCommand] = []
        self._closed = False
        self._error: ServiceError = Unavailable("the client is closed")
        self._forks = FORK_COUNTER.value
        self.thread: LoopThread = platform.thread(self, name)
        self._mailbox_descriptor = self._mailbox.fileno()
        self._doorbell.register(self._mailbox_descriptor)
        try:
            self._connection.open()  # a bad address raises here
            self.thread.start()
        except BaseException:
            self._connection.discard()
            self._doorbell.close()
            raise

    @property
    def connection_error(self) -> str:
        """See `ServerConnection.error`."""
        return self._connection.error

    def post(self, command: IOCommand) -> None:
        """Send a command. Raises Unavailable once closed or forked."""
        try:
            self._mailbox.send(command)
        except MailboxClosed as error:
            raise self._closed_error() from error
        if self._closed:  # the command may have been sent after the last was taken
            raise self._closed_error()

    def _closed_error(self) -> Unavailable:
        if self._forks != FORK_COUNTER.value:
            return Unavailable(MADE_BEFORE_FORK)
        return Unavailable(str(self._error))

    def wake(self) -> None:
        """Have the thread send waiting messages, unless closed."""
        self._post_unless_closed(WakeCommand())

    def _post_unless_closed(self, command: IOCommand) -> None:
        with contextlib.suppress(Unavailable):
            self.post(command)

    def is_closed(self) -> bool:
        """Tell whether `post` raises."""
        return self._mailbox.closed

    def run(self) -> None:
        """Run until a `CloseCommand`."""
        failures = 0
        try:
            while not self.finished():
                try:
                    self._doorbell.sleep(self.sleep_seconds())
                    self.step()
                    failures = 0
                except BaseException:  # a log handler raises, or descriptors are used up
                    failures += 1
                    if failures == MAX_FAILURES:
                        raise
                    log.exception("a client replaces its connection")
                    self._replace_connection()
        except BaseException as failure:
            log.exception("the I/O thread of a client failed")
            self._error = Unavailable("the client has failed: " + summary_of(failure))
        finally:
            self.shut_down()

    def _replace_connection(self) -> None:
        self.turn.take()
        try:
            self._connection.drop("the client failed", RECONNECT_DELAY_S, lost=True)
            self._connection.reconnect_at = self._monotonic() + RECONNECT_DELAY_S
        finally:
            self.turn.give_up()

    def finished(self) -> bool:
        """See `Loop`."""
        if self._close_deadline is None:
            return False
        return not self._session.busy or self._monotonic() >= self._close_deadline

    def sleep_seconds(self) -> float | None:
        """See `Loop`."""
        connection = self._connection
        if connection.frames_pending or connection.monitor_pending:
            return 0.0
        planned = (
            connection.reconnect_at,
            connection.next_look_at,
            self._close_deadline,
            self._next_retry_at(),
            self._patience.next_look_at,
        )
        # A caller may have sent a call itself.
        soonest = self._monotonic() + max(1.0, self._patience.seconds)
        times = [at for at in planned if at is not None]
        return max(0.0, min([soonest, *times]) - self._monotonic())

    def _next_retry_at(self) -> float | None:
        handler = self._session.handler
        return None if handler is None else handler.next_retry_at

    def step(self) -> None:
        """See `Loop`."""
        self.turn.take()
        try:
            self._look_at_descriptors()
            self._finish_for_callers()
            if self._next_retry_at() is not None:
                self._session.received.retry(self._monotonic())
            self._connection.step()
            self._patience.look(self._connection.no_answer_since)
            self.batcher.set_finished_calls(self._session.finished_calls)
            answered = self._take_answered_flushes()
        finally:
            self.turn.give_up()
        for flush in answered:  # without the turn: the caller needs the turn
            resolve(flush.answered, None)

    def _look_at_descriptors(self) -> None:
        for descriptor in self._doorbell.ready():
            if descriptor == self._mailbox_descriptor:
                self._take_commands()
            elif descriptor == self._connection.descriptors[0]:
                self._connection.frames_pending = True
            else:
                self._connection.monitor_pending = True

    def _take_commands(self) -> None:
        for _ in range(COMMANDS_PER_STEP):
            command = self._mailbox.recv(0)
            if command is None:
                return
            if isinstance(command, FlushCommand):
                self._flushes.append(command)
            elif isinstance(command, CloseCommand):
                self._close_deadline = self._deadline_of(command)
            elif isinstance(command, OutcomeHandled):
                self._session.received.finish(command)
            elif not isinstance(command, WakeCommand):
                if not self._session.busy:
                    self._connection.silent_since = self._monotonic()
                self._session.add(command.request, self.batcher.take(command))

    def _deadline_of(self, command: CloseCommand) -> float:
        """Return when a close ends the thread; a second close gives no more time."""
        before = math.inf if self._close_deadline is None else self._close_deadline
        now = self._monotonic()
        silent_since = self._connection.silent_since if self._session.busy else now
        return min(before, now + command.seconds, silent_since + command.patience)

    def _finish_for_callers(self) -> None:
        left, self._left = self._left, []
        for message in left:
            self._connection.send_all(self._session.handle(message))
        if left:
            self._connection.note_frames()  # one may be the welcome
        if self._interrupted:
            self._interrupted = False
            self._connection.drop("a caller was interrupted", 0, stay=True)

    def _take_answered_flushes(self) -> list[FlushCommand]:
        if self._session.busy:
            return []
        flushes, self._flushes = self._flushes, []
        return flushes

    def send_now(self, request: RequestType, item: Any, future: ReplyFuture[Any]) -> bool:
        """Send a call if none is under way; False: not sent."""
        if self._session.busy:
            return False
        return self._run_in_caller(lambda: self._send_now(request, (item, future)))

    def lead(self, reply: ReplyFuture[Any] | None, seconds: float) -> bool:
        """Receive the only awaited answer, in its caller's thread.

        Returns whether `reply` is done or, if None, no call is unanswered. Else the I/O thread has
        to receive the answer.
        """
        seconds = min(seconds, self._connection.probe_s)
        return self._run_in_caller(lambda: self._lead(reply, self._monotonic() + seconds))

    def _run_in_caller(self, step: Callable[[], bool]) -> bool:
        if not self._doorbell.can_lend or self.turn.is_mine():
            return False
        try:
            if not self.turn.try_take():
                return False
            try:
                return self._is_calm() and step()
            finally:
                self._end_turn()
        except BaseException:  # an interrupt may have hit any line, the last one too
            if self.turn.is_mine():
                self._end_turn()
            raise

    def _is_calm(self) -> bool:
        return (
            self._close_deadline is None
            and self._connection.reconnect_at is None
            and not (self._flushes or self._left or self._interrupted)
            and not self._mailbox.closed
            and not self._mailbox.peek()
            and self._connection.is_calm
            and self._next_retry_at() is None
        )

    def _send_now(self, request: RequestType, call: Call) -> bool:
        self._interrupted = True
        sent = self._connection.send_call(request, call)
        if sent:
            if self._connection.frames_pending:  # the reply may be here already
                self._receive_replies()
            self.batcher.set_finished_calls(self._session.finished_calls)
        self._interrupted = False
        return sent

    def _is_done(self, reply: ReplyFuture[Any] | None) -> bool:
        return not self._session.busy if reply is None else reply._state != PENDING

    def _lead(self, reply: ReplyFuture[Any] | None, deadline: float) -> bool:
        if self._is_done(reply) or not self._session.awaits_one:
            return self._is_done(reply)
        self._is_lent = True
        self._doorbell.lend()
        while True:
            ready = self._doorbell.ready(max(0.0, deadline - self._monotonic()))
            if ready != [self._connection.descriptors[0]]:
                return False  # something for the I/O thread, or the time is over
            self._interrupted = True
            self._receive_replies()
            self._interrupted = False
            is_done = self._is_done(reply)
            if is_done or self._left:
                return is_done

    def _receive_replies(self) -> None:
        while not self._left:
            message = self._connection.receive_one()
            if message is not None:
                self._connection.silent_since = self._monotonic()
                if self._session.has_callbacks(message):
                    self._left.append(message)
                else:
                    self._session.handle(message)
            if not self._connection.frames_pending:
                return

    def _end_turn(self) -> None:
        """End a caller's use of the connection. Idempotent."""
        if self._left or self._interrupted or not self._connection.is_calm:
            with contextlib.suppress(MailboxClosed):
                self._mailbox.send(WakeCommand())
        if self._is_lent:
            self._doorbell.take_back()
            self._is_lent = False
        self.turn.give_up()

    def shut_down(self) -> None:
        """Fail unanswered calls, and close the connection."""
        with contextlib.suppress(MailboxClosed):
            self._mailbox.send(WakeCommand())  # a caller that leads gives up the turn
        self.turn.take()
        self._mailbox.close()
        # Before the last commands are taken: `post` raises for later ones.
        self._closed = True
        with contextlib.suppress(MailboxClosed):
            while True:
                self._take_commands()
        is_answered = not self._session.busy
        self._session.fail(self._error)
        self.batcher.set_finished_calls(self._session.finished_calls)
        flushes = self._take_answered_flushes()
        self._connection.close()
        self._doorbell.close()
        self.turn.give_up()
        for flush in flushes:
            if is_answered:
                resolve(flush.answered, None)
            else:
                reject(flush.answered, self._closed_error())
