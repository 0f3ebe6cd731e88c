"""ClientIOThread: the thread of a client that owns its socket.

The client's threads post calls to its mailbox; the link sleeps on that, on the socket and on the
socket's own news of its connection: on their descriptors. The socket's speaks up once for news, and
whatever is done with the socket may consume that, so it is looked at again before each sleep. What
wakes a caller comes after all else: he then finds the interpreter free. A connection that
is lost is replaced by a new socket, so that nothing old is left in it; the session then says hello
and sends again what was not answered.
"""

import contextlib
import logging
import select
import threading
import time
from collections.abc import Callable
from typing import Final

import zmq
from zmq.utils.monitor import recv_monitor_message

from mq import Mailbox, MailboxClosed
from purgatory.service.client.batcher import CallBatch
from purgatory.service.client.futures import CloseCommand, FlushCommand
from purgatory.service.client.session import Session
from purgatory.service.errors import Malformed, ServiceError, Unavailable
from purgatory.service.protocol import Bye, encode

log = logging.getLogger(__name__)

# Commands taken before the socket is looked at again.
COMMANDS_PER_STEP: Final = 64
FRAMES_PER_STEP: Final = 64
# Seconds before a server that sent us away is asked again.
RECONNECT_DELAY_S: Final = 0.3

_MONITORED_EVENTS: Final = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)

IOCommand = CallBatch | FlushCommand | CloseCommand

#: Told of each new socket before it connects: sets CURVE.
ConfigureSocket = Callable[["zmq.Socket[bytes]"], None]


class ClientIOThread:
    """``session``: what to say. Any thread may `post`; the thread ends after a `CloseCommand`."""

    def __init__(
        self, address: str, session: Session, configure: ConfigureSocket | None, name: str
    ) -> None:
        self._mailbox: Mailbox[IOCommand] = Mailbox()
        self._address = address
        self._session = session
        self._configure = configure
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes]
        self._monitor: zmq.Socket[bytes]
        self._poller = select.poll()
        self._descriptors: tuple[int, int]  # the socket's and its news'
        # There may be frames, or news, that the descriptor says nothing of.
        self._frames_pending = False
        self._monitor_pending = False
        self._sent = False  # something was sent since the socket was looked at
        self._reconnect_at: float | None = None  # not connected until then
        self._close_deadline: float | None = None  # closing, until then
        self._flushes: list[FlushCommand] = []
        self._closed = False
        #: What the connection lacks, in words; empty while it is there. For messages of errors.
        self.connection_error = "not connected yet"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._connect()  # here, where a bad address or key can be told
            self.thread.start()
        except BaseException:
            self._context.destroy(0)
            raise

    def post(self, command: IOCommand) -> None:
        """Hand over a command, from any thread. Raises Unavailable once closed or forked."""
        try:
            self._mailbox.send(command)
        except MailboxClosed as error:
            raise Unavailable("the client is closed") from error
        if self._closed:  # it may have come too late to be found there
            raise Unavailable("the client is closed")

    def is_closed(self) -> bool:
        """Whether nothing can be posted any more; in a forked child, too."""
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
            log.exception("the link of a client ends")
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
        if self._flushes and not self._session.busy:
            self._run_flushes()

    def _wait_for_events(self) -> None:
        """Sleep until there is something to do, and take what was posted."""
        for descriptor, _ in self._poller.poll(self._poll_timeout_ms()):
            if descriptor == self._mailbox.fileno():
                self._take_commands()
            elif descriptor == self._descriptors[0]:
                self._frames_pending = True
            else:
                self._monitor_pending = True

    def _send_and_receive(self) -> None:
        """Send what is to be sent, take what has come, and send what follows from that."""
        self._send_messages()
        if self._check_readable():
            self._receive()
            self._send_messages()
            self._check_readable()  # or else it would not be seen in sleep

    def _send_messages(self) -> None:
        if self._reconnect_at is None:
            for frame in self._session.take_messages():
                self._send(frame)

    def _check_readable(self) -> bool:
        if self._sent and self._reconnect_at is None:
            self._sent = False
            if not self._frames_pending:
                self._frames_pending = bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)
        return self._frames_pending

    def _poll_timeout_ms(self) -> int | None:
        if self._frames_pending or self._monitor_pending:
            return 0
        moments = [at for at in (self._reconnect_at, self._close_deadline) if at is not None]
        if not moments:
            return None
        return max(0, int(1000 * (min(moments) - time.monotonic())) + 1)

    def _take_commands(self) -> None:
        for _ in range(COMMANDS_PER_STEP):
            command = self._mailbox.recv(0)
            if command is None:
                return
            if isinstance(command, FlushCommand):
                self._flushes.append(command)
            elif isinstance(command, CloseCommand):
                self._close_deadline = time.monotonic() + command.seconds
            else:
                self._session.add(command.request, command.take())

    def _read_monitor(self) -> None:
        self._monitor_pending = False
        while self._reconnect_at is None and self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.connection_error = ""
                self._send(self._session.on_connected())
            elif event == zmq.EVENT_DISCONNECTED:
                self._frames_pending = True
                while self._frames_pending:
                    self._receive()  # what was said before the end still counts
                # Who was never let in comes back in a while, and does not knock without end.
                self._drop_connection(
                    self.connection_error or "the connection was lost",
                    RECONNECT_DELAY_S if self.connection_error else 0,
                )
            else:
                self._drop_connection("the server has not let us in", RECONNECT_DELAY_S)

    def _drop_connection(self, reason: str, seconds: float) -> None:
        self.connection_error = reason
        self._session.connection_lost = False
        self._disconnect()
        self._frames_pending = self._monitor_pending = False
        self._reconnect_at = time.monotonic() + seconds

    def _receive(self) -> None:
        """Take some of what has come; `_frames_pending` says whether there may be more."""
        frames: list[bytes] = []
        try:
            while len(frames) < FRAMES_PER_STEP:
                frames.append(self._socket.recv(zmq.NOBLOCK))
        except zmq.Again:
            self._frames_pending = self._sent = False
        for frame in frames:
            try:
                replies = self._session.receive(frame)
            except Malformed as error:
                log.warning("the server sent: %s", error)
                continue
            for reply in replies:
                self._send(reply)

    def _send(self, frame: bytes) -> None:
        # The session has a bound on what is unanswered; only acknowledgements could be too many for
        # the socket, and are then asked for again.
        self._sent = True
        with contextlib.suppress(zmq.Again):
            self._socket.send(frame, zmq.NOBLOCK)

    def _run_flushes(self) -> None:
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush.done()

    def _shut_down(self, error: ServiceError) -> None:
        self._mailbox.close()
        self._closed = True  # before the last look, so that nothing is missed
        with contextlib.suppress(MailboxClosed):
            while True:
                self._take_commands()
        self._session.fail(error)
        self._run_flushes()
        if self._reconnect_at is None:
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send(encode(Bye(0)), zmq.NOBLOCK)
            self._socket.setsockopt(zmq.LINGER, 200)
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close()
        self._context.term()
