"""Link: the thread of a client that owns its socket.

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
from purgatory.service.client.batcher import Batch
from purgatory.service.client.futures import CloseLink, Flush
from purgatory.service.client.session import Session
from purgatory.service.errors import Malformed, ServiceError, Unavailable
from purgatory.service.protocol import Bye, encode

log = logging.getLogger(__name__)

# Commands taken before the socket is looked at again.
COMMANDS_AT_ONCE: Final = 64
FRAMES_AT_ONCE: Final = 64
# Seconds before a server that sent us away is asked again.
PAUSE: Final = 0.3

_NEWS: Final = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)

LinkCommand = Batch | Flush | CloseLink

#: Told of each new socket before it connects: sets CURVE.
Secure = Callable[["zmq.Socket[bytes]"], None]


class Link:
    """``session``: what to say. Any thread may `post`; the thread ends after a `CloseLink`."""

    def __init__(self, address: str, session: Session, secure: Secure | None, name: str) -> None:
        self._mailbox: Mailbox[LinkCommand] = Mailbox()
        self._address = address
        self._session = session
        self._secure = secure
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._socket: zmq.Socket[bytes]
        self._monitor: zmq.Socket[bytes]
        self._poller = select.poll()
        self._descriptors: tuple[int, int]  # the socket's and its news'
        # There may be frames, or news, that the descriptor says nothing of.
        self._unread = False
        self._unheard = False
        self._sent = False  # something was sent since the socket was looked at
        self._pause_until: float | None = None  # not connected until then
        self._give_up_at: float | None = None  # closing, until then
        self._flushes: list[Flush] = []
        self._over = False
        #: What the connection lacks, in words; empty while it is there. For messages of errors.
        self.trouble = "not connected yet"
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        try:
            self._connect()  # here, where a bad address or key can be told
            self.thread.start()
        except BaseException:
            self._context.destroy(0)
            raise

    def post(self, command: LinkCommand) -> None:
        """Hand over a command, from any thread. Raises Unavailable once closed or forked."""
        try:
            self._mailbox.send(command)
        except MailboxClosed as error:
            raise Unavailable("the client is closed") from error
        if self._over:  # it may have come too late to be found there
            raise Unavailable("the client is closed")

    def over(self) -> bool:
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
        if self._secure is not None:
            self._secure(self._socket)
        self._monitor = self._socket.get_monitor_socket(_NEWS)
        self._socket.connect(self._address)
        self._descriptors = self._socket.FD, self._monitor.FD
        for descriptor in (self._mailbox.fileno(), *self._descriptors):
            self._poller.register(descriptor, select.POLLIN)
        self._unread = self._unheard = True

    def _disconnect(self) -> None:
        self._session.disconnected()
        for descriptor in self._descriptors:
            self._poller.unregister(descriptor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)

    def _run(self) -> None:
        error: ServiceError = Unavailable("the client is closed")
        try:
            while not self._finished():
                self._step()
        except Exception as failure:
            log.exception("the link of a client ends")
            error = Unavailable(f"the client has failed: {failure}")
        finally:
            self._end(error)

    def _finished(self) -> bool:
        if self._give_up_at is None:
            return False
        return not self._session.busy or time.monotonic() >= self._give_up_at

    def _step(self) -> None:
        self._sleep()
        if self._pause_until is None:
            if self._unheard:
                self._hear_news()
            self._exchange()
            if self._session.lost:
                self._lose("the server has sent us away", PAUSE)
        elif time.monotonic() >= self._pause_until:
            self._pause_until = None
            self._connect()
        if self._flushes and not self._session.busy:
            self._flush()

    def _sleep(self) -> None:
        """Sleep until there is something to do, and take what was posted."""
        for descriptor, _ in self._poller.poll(self._patience_ms()):
            if descriptor == self._mailbox.fileno():
                self._take()
            elif descriptor == self._descriptors[0]:
                self._unread = True
            else:
                self._unheard = True

    def _exchange(self) -> None:
        """Send what is to be sent, take what has come, and send what follows from that."""
        self._send_messages()
        if self._is_readable():
            self._receive()
            self._send_messages()
            self._is_readable()  # or else it would not be seen in sleep

    def _send_messages(self) -> None:
        if self._pause_until is None:
            for frame in self._session.messages():
                self._send(frame)

    def _is_readable(self) -> bool:
        if self._sent and self._pause_until is None:
            self._sent = False
            if not self._unread:
                self._unread = bool(int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)
        return self._unread

    def _patience_ms(self) -> int | None:
        if self._unread or self._unheard:
            return 0
        moments = [at for at in (self._pause_until, self._give_up_at) if at is not None]
        if not moments:
            return None
        return max(0, int(1000 * (min(moments) - time.monotonic())) + 1)

    def _take(self) -> None:
        for _ in range(COMMANDS_AT_ONCE):
            command = self._mailbox.recv(0)
            if command is None:
                return
            if isinstance(command, Flush):
                self._flushes.append(command)
            elif isinstance(command, CloseLink):
                self._give_up_at = time.monotonic() + command.seconds
            else:
                self._session.add(command.request, command.take())

    def _hear_news(self) -> None:
        self._unheard = False
        while self._pause_until is None and self._monitor.poll(0):
            event = recv_monitor_message(self._monitor)["event"]
            if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.trouble = ""
                self._send(self._session.connected())
            elif event == zmq.EVENT_DISCONNECTED:
                self._unread = True
                while self._unread:
                    self._receive()  # what was said before the end still counts
                # Who was never let in comes back in a while, and does not knock without end.
                self._lose(self.trouble or "the connection was lost", PAUSE if self.trouble else 0)
            else:
                self._lose("the server has not let us in", PAUSE)

    def _lose(self, trouble: str, seconds: float) -> None:
        self.trouble = trouble
        self._session.lost = False
        self._disconnect()
        self._unread = self._unheard = False
        self._pause_until = time.monotonic() + seconds

    def _receive(self) -> None:
        """Take some of what has come; `_unread` says whether there may be more."""
        frames: list[bytes] = []
        try:
            while len(frames) < FRAMES_AT_ONCE:
                frames.append(self._socket.recv(zmq.NOBLOCK))
        except zmq.Again:
            self._unread = self._sent = False
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

    def _flush(self) -> None:
        flushes, self._flushes = self._flushes, []
        for flush in flushes:
            flush.done()

    def _end(self, error: ServiceError) -> None:
        self._mailbox.close()
        self._over = True  # before the last look, so that nothing is missed
        with contextlib.suppress(MailboxClosed):
            while True:
                self._take()
        self._session.fail(error)
        self._flush()
        if self._pause_until is None:
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send(encode(Bye(0)), zmq.NOBLOCK)
            self._socket.setsockopt(zmq.LINGER, 200)
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close()
        self._context.term()
