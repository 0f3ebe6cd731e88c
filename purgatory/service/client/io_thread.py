"""ClientIOThread: the thread of a client that owns its socket.

Callers post commands to its mailbox. The thread sleeps in one `poll` on three descriptors: of the
mailbox, of the socket, and of the monitor socket, which reports what becomes of the connection. A
ZeroMQ descriptor is edge-triggered: it becomes readable once for several messages, and any use of
its socket may consume that. So `_frames_pending` and `_monitor_pending` are brought up to date
before each sleep.

A lost connection is replaced by a new socket, so that no message is left in an old one. The session
then says hello, and sends again what was not answered.

Callers that wait for a flush, or for room in the backlog, are woken last in each step: earlier they
would compete with this thread for the interpreter.
"""

import contextlib
import logging
import math
import select
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from mq import Mailbox, MailboxClosed
from purgatory.service.client.batcher import CallBatch, CallBatcher
from purgatory.service.client.session import Session
from purgatory.service.errors import Malformed, ServiceError, Unavailable
from purgatory.service.protocol import Bye, encode

log: logging.Logger = logging.getLogger(__name__)

# Taken in one step, at most, before the other descriptors are looked at.
COMMANDS_PER_STEP: Final = 64
FRAMES_PER_STEP: Final = 64
#: Seconds to wait before a server that refused the connection is tried again.
RECONNECT_DELAY_S: Final = 0.3

_MONITORED_EVENTS: Final = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)


@dataclass(slots=True)
class FlushCommand:
    """Call `done` when all calls made before are answered."""

    done: Callable[[], object]


@dataclass(slots=True)
class CloseCommand:
    """End the thread when all calls made before are answered, or after `seconds`.

    `patience`: or as soon as the server has answered nothing for so many seconds.
    """

    seconds: float
    patience: float = math.inf


IOCommand = CallBatch | FlushCommand | CloseCommand

#: Called with each new socket before it connects: sets the keys.
ConfigureSocket = Callable[["zmq.Socket[bytes]"], None]


class ClientIOThread:
    """Connects the session to a server; the thread runs until a `CloseCommand`.

    `post`, `is_closed` and `batcher` are for any thread, the rest is for this one. Raises ZMQError
    for a bad address, ValueError for a bad key.
    """

    def __init__(
        self, address: str, session: Session, configure: ConfigureSocket | None, name: str
    ) -> None:
        self._mailbox: Mailbox[IOCommand] = Mailbox()
        self.batcher: CallBatcher = CallBatcher(self.post, self.is_closed)
        self._address = address
        self._session = session
        self._configure = configure
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes]
        self._monitor: zmq.Socket[bytes]
        self._poller = select.poll()
        self._descriptors: tuple[int, int]  # of the socket and of its monitor
        # Whether there may be frames, or events, that the descriptor does not report.
        self._frames_pending = False
        self._monitor_pending = False
        self._sent = False  # whether frames were sent since the socket's events were read
        self._reconnect_at: float | None = None  # no connection until then
        self._close_deadline: float | None = None  # set while closing
        # Since when calls are unanswered and nothing has come; None while no call is unanswered.
        self._silent_since: float | None = None
        self._flushes: list[FlushCommand] = []
        self._closed = False
        #: What is wrong with the connection, for error messages; empty while it is up.
        self.connection_error: str = "not connected yet"
        self.thread: threading.Thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._connect()  # not in the thread, so that a bad address raises here
            self.thread.start()
        except BaseException:
            self._context.destroy(0)
            raise

    def post(self, command: IOCommand) -> None:
        """Send a command, from any thread. Raises Unavailable once closed or forked."""
        try:
            self._mailbox.send(command)
        except MailboxClosed as error:
            raise Unavailable("the client is closed") from error
        if self._closed:  # the command may have been sent after the last was taken
            raise Unavailable("the client is closed")

    def is_closed(self) -> bool:
        """Tell whether `post` raises: the thread has ended, or this is a forked child."""
        return self._mailbox.closed

    def _connect(self) -> None:
        self._socket = self._context.socket(zmq.DEALER)
        for option, value in (
            (zmq.LINGER, 0),
            (zmq.RECONNECT_IVL, 50),
            (zmq.RECONNECT_IVL_MAX, 1000),
            (zmq.HEARTBEAT_IVL, 5_000),
            (zmq.HEARTBEAT_TIMEOUT, 20_000),
        ):
            self._socket.setsockopt(option, value)
        if self._configure is not None:
            self._configure(self._socket)
        self._monitor = self._socket.get_monitor_socket(_MONITORED_EVENTS)
        self._socket.connect(self._address)
        self._descriptors = self._socket.FD, self._monitor.FD
        for descriptor in (self._mailbox.fileno(), *self._descriptors):
            self._poller.register(descriptor, select.POLLIN)
        self._frames_pending = self._monitor_pending = True

    def _disconnect(self) -> None:
        self._session.on_disconnected()
        for descriptor in self._descriptors:
            self._poller.unregister(descriptor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)

    def _run(self) -> None:
        error: ServiceError = Unavailable("the client is closed")
        try:
            while not self._is_finished():
                self._step()
        except Exception as failure:
            log.exception("the I/O thread of a client failed")
            error = Unavailable(f"the client has failed: {failure}")
        finally:
            self._shut_down(error)

    def _is_finished(self) -> bool:
        if self._close_deadline is None:
            return False
        return not self._session.busy or time.monotonic() >= self._close_deadline

    def _step(self) -> None:
        self._wait_for_events()
        if self._reconnect_at is None:
            if self._monitor_pending:
                self._read_monitor()
            self._send_and_receive()
            if self._session.connection_lost:
                self._drop_connection("the server has sent us away", RECONNECT_DELAY_S)
        elif time.monotonic() >= self._reconnect_at:
            self._reconnect_at = None
            self._connect()
        self._wake_callers()

    def _wait_for_events(self) -> None:
        """Sleep until there is something to do; take what was posted."""
        for descriptor, _ in self._poller.poll(self._poll_timeout_ms()):
            if descriptor == self._mailbox.fileno():
                self._take_commands()
            elif descriptor == self._descriptors[0]:
                self._frames_pending = True
            else:
                self._monitor_pending = True

    def _poll_timeout_ms(self) -> int | None:
        if self._frames_pending or self._monitor_pending:
            return 0
        times = [at for at in (self._reconnect_at, self._close_deadline) if at is not None]
        if not times:
            return None
        return max(0, int(1000 * (min(times) - time.monotonic())) + 1)

    def _take_commands(self) -> None:
        for _ in range(COMMANDS_PER_STEP):
            command = self._mailbox.recv(0)
            if command is None:
                return
            if isinstance(command, FlushCommand):
                self._flushes.append(command)
            elif isinstance(command, CloseCommand):
                self._close_deadline = self._deadline_of(command)
            else:
                self._session.add(command.request, command.take())
                if self._silent_since is None:
                    self._silent_since = time.monotonic()

    def _deadline_of(self, command: CloseCommand) -> float:
        now = time.monotonic()
        silent_since = now if self._silent_since is None else self._silent_since
        return min(now + command.seconds, silent_since + command.patience)

    def _send_and_receive(self) -> None:
        """Send the session's messages, receive frames, and send what follows from these."""
        self._send_messages()
        if self._check_readable():
            self._receive()
            self._send_messages()
            self._check_readable()  # `poll` may not report what came in meanwhile

    def _send_messages(self) -> None:
        if self._reconnect_at is None:
            for frame in self._session.take_messages():
                self._send(frame)

    def _check_readable(self) -> bool:
        """Bring `_frames_pending` up to date after sending; returns it."""
        if self._sent and self._reconnect_at is None:
            self._sent = False
            if not self._frames_pending:
                events = int(self._socket.getsockopt(zmq.EVENTS))
                self._frames_pending = bool(events & zmq.POLLIN)
        return self._frames_pending

    def _read_monitor(self) -> None:
        """Handle the events of the connection."""
        self._monitor_pending = False
        while self._reconnect_at is None and self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.connection_error = ""
                self._send(self._session.on_connected())
            elif event == zmq.EVENT_DISCONNECTED:
                self._on_disconnected()
            else:
                self._drop_connection("the server has not let us in", RECONNECT_DELAY_S)

    def _on_disconnected(self) -> None:
        self._frames_pending = True
        while self._frames_pending:
            self._receive()  # what the server said before the end still counts
        if self.connection_error:  # the handshake never succeeded: back off
            self._drop_connection(self.connection_error, RECONNECT_DELAY_S)
        else:
            self._drop_connection("the connection was lost", 0)

    def _drop_connection(self, reason: str, seconds: float) -> None:
        """Close the socket; a new one is made after `seconds`."""
        self.connection_error = reason
        self._session.connection_lost = False
        self._disconnect()
        self._frames_pending = self._monitor_pending = False
        self._reconnect_at = time.monotonic() + seconds

    def _receive(self) -> None:
        """Receive some frames; `_frames_pending` then tells whether there may be more."""
        frames: list[bytes] = []
        try:
            while len(frames) < FRAMES_PER_STEP:
                frames.append(self._socket.recv(zmq.NOBLOCK))
        except zmq.Again:
            self._frames_pending = self._sent = False
        if frames and self._silent_since is not None:
            self._silent_since = time.monotonic()
        for frame in frames:
            try:
                replies = self._session.receive(frame)
            except Malformed as error:
                log.warning("the server sent: %s", error)
                continue
            for reply in replies:
                self._send(reply)

    def _send(self, frame: bytes) -> None:
        # The session limits unanswered messages to fewer than the socket's high-water mark. Only
        # acknowledgements could exceed it: the server then sends the outcomes again.
        self._sent = True
        with contextlib.suppress(zmq.Again):
            self._socket.send(frame, zmq.NOBLOCK)

    def _wake_callers(self) -> None:
        """Wake the callers that wait for room in the backlog, or for a flush."""
        self.batcher.set_finished_calls(self._session.finished_calls)
        if not self._session.busy:
            self._silent_since = None
            if self._flushes:
                self._run_flushes()

    def _run_flushes(self) -> None:
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush.done()

    def _shut_down(self, error: ServiceError) -> None:
        self._mailbox.close()
        # Set before the last commands are taken: `post` raises for a command that comes later.
        self._closed = True
        with contextlib.suppress(MailboxClosed):
            while True:
                self._take_commands()
        self._session.fail(error)
        self.batcher.set_finished_calls(self._session.finished_calls)
        self._run_flushes()
        if self._reconnect_at is None:
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send(encode(Bye(0)), zmq.NOBLOCK)
            self._socket.setsockopt(zmq.LINGER, 200)
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close()
        self._context.term()
