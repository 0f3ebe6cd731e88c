"""Network: the thread that owns the socket. Frames in, commands to the keeper, and back.

It sleeps on two descriptors, its mailbox's and the socket's, which speaks up once for news;
whatever is done with the socket may consume that, so before each sleep it is read until there is
no more. What was read is handed over last: the keeper's thread then finds the interpreter free.

It never waits for the disk, nor for a client: what a client does not read is kept up to a bound,
then its connection is cut off; outcomes are not kept at all, they come from the store when it can
take them. When the keeper has more to do than it can remember, the socket is left unread, and so
the clients have to wait.

`listen` is for who starts the thread, all else for the thread; its mailbox is for any.
"""

import contextlib
import logging
import math
import select
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import zmq

from mq import Mailbox, MailboxClosed
from purgatory.service.errors import (
    HelloRequired,
    Malformed,
    Refused,
    ServerClosing,
    ServerError,
    TooManyClients,
    WrongVersion,
)
from purgatory.service.protocol import (
    VERSION,
    Bye,
    Failure,
    Hello,
    Ping,
    Request,
    decode_request,
    encode,
    seq_of,
)
from purgatory.service.server.commands import (
    ClientConnected,
    ClientDisconnected,
    ClientRequest,
    CloseServer,
    FetchOutcomes,
    NetworkCommand,
    OutcomeFrame,
    OutcomePush,
    ReloadAllowList,
    StopStoreLoop,
    StoreLoopCommand,
    StoreLoopStopped,
    TransactionReplies,
)
from purgatory.service.server.connection import Connection
from purgatory.service.server.validation import RequestValidator

if TYPE_CHECKING:
    from purgatory.service.auth.authenticator import SocketSecurity

log = logging.getLogger(__name__)

# Frames read before answers are looked at again.
FRAMES_PER_READ = 256
# Bytes that may be on their way through the keeper.
IN_FLIGHT_BYTES = 32 << 20
# Frames that the socket keeps for one connection, each way.
SOCKET_FRAMES = 64
# Seconds between two tries to tell a connection that does not read.
RETRY_S = 0.1
# A connection that said nothing for so long is asked whether it is there; looked at as often.
IDLE_S = 30.0


class Network:
    """``ask``: posts to the store loop. ``ended``: called last, with what went wrong."""

    def __init__(
        self,
        validator: RequestValidator,
        mailbox: Mailbox[NetworkCommand],
        ask: Callable[[StoreLoopCommand], None],
        ended: Callable[[Exception | None], None],
        *,
        max_clients: int,
    ) -> None:
        self.mailbox = mailbox
        self._validator = validator
        self._post_to_store = ask
        self._ended = ended
        self._max_clients = max_clients
        self._socket: zmq.Socket[bytes]
        self._secure: SocketSecurity | None = None
        self._by_route: dict[bytes, Connection] = {}
        self._by_client: dict[str, list[Connection]] = {}
        self._blocked: set[Connection] = set()
        self._in_flight = 0  # bytes with the keeper
        self._for_store: list[StoreLoopCommand] = []  # not handed over yet
        # There may be frames that the socket's descriptor says nothing of: not all was read, or
        # something was sent since.
        self._unread = False
        self._sent = False
        self._now = time.monotonic()  # when it woke up
        self._next_ping = time.monotonic() + IDLE_S
        self._close_deadline: float | None = None  # closing, until then
        self._stopped: StoreLoopStopped | None = None  # the keeper has ended
        # Counted here, read by any thread.
        self.messages = 0
        self.refused = 0

    @property
    def connections(self) -> int:
        """How many connections have said hello."""
        return len(self._by_route)

    def listen(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        address: str,
        secure: "SocketSecurity | None",
    ) -> str:
        """Make the socket and bind it; returns the address with its port. Raises ServerError."""
        self._socket = context.socket(zmq.ROUTER)
        self._secure = secure
        for option, value in (
            (zmq.LINGER, 0),
            # Unreachable and full are told, instead of a silent drop.
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.SNDHWM, SOCKET_FRAMES),
            (zmq.RCVHWM, SOCKET_FRAMES),
            # Above our own limit, so that who comes near it is told and not cut off.
            (zmq.MAXMSGSIZE, 4 * self._validator.limits.message_bytes),
            (zmq.HEARTBEAT_IVL, 5_000),
            (zmq.HEARTBEAT_TIMEOUT, 20_000),
            (zmq.HANDSHAKE_IVL, 10_000),
        ):
            self._socket.setsockopt(option, value)
        try:
            if secure is not None:
                secure(context, self._socket)
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self._socket.close(0)
            raise ServerError(f"cannot listen at {address}: {error.strerror}") from error
        except BaseException:
            self._socket.close(0)
            raise
        return self._socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def run(self) -> None:
        """Be the thread."""
        error: Exception | None = None
        try:
            self._serve()
        except Exception as failure:
            log.exception("the network thread ends")
            error = failure
            self._post(StopStoreLoop())
            self._hand_over()
        finally:
            self._socket.close(0 if self._stopped is None else int(1000 * self._time_left(1.0)))
            self.mailbox.close()
            self._ended(error or (self._stopped.error if self._stopped else None))

    def _serve(self) -> None:
        mailbox = self.mailbox.fileno()
        everything, commands = select.poll(), select.poll()
        everything.register(self._socket.FD, select.POLLIN)
        for poller in (everything, commands):
            poller.register(mailbox, select.POLLIN)
        while not self._finished():
            poller = everything if self._may_read() else commands
            for descriptor, _ in poller.poll(math.ceil(1000 * self._poll_timeout())):
                self._unread = self._unread or descriptor != mailbox
                while descriptor == mailbox and (command := self.mailbox.recv(0)) is not None:
                    self._handle_command(command)
            self._now = time.monotonic()
            if self._blocked:
                self._retry()
            if self._now >= self._next_ping:
                self._next_ping = self._now + IDLE_S
                self._ping_idle()
            if (self._unread or self._sent) and self._may_read():
                self._read()
            self._hand_over()

    def _may_read(self) -> bool:
        return self._in_flight < IN_FLIGHT_BYTES

    def _poll_timeout(self) -> float:
        if self._unread and self._may_read():
            return 0.0
        if self._blocked:
            return RETRY_S
        return self._time_left(max(0.0, self._next_ping - time.monotonic()))

    def _time_left(self, most: float) -> float:
        """Seconds until the end, if we are to end, and not more than that."""
        if self._close_deadline is None:
            return most
        return min(most, max(0.0, self._close_deadline - time.monotonic()))

    def _finished(self) -> bool:
        if self._close_deadline is not None and time.monotonic() >= self._close_deadline:
            return True
        return self._stopped is not None and not any(c.backlog for c in self._blocked)

    def _handle_command(self, command: NetworkCommand) -> None:
        if isinstance(command, TransactionReplies):
            self._in_flight -= command.size
            for route, frame in command.replies:
                connection = self._by_route.get(route)
                if connection is not None:
                    self._send(connection, frame)
            for push in command.pushes:
                self._push(push)
        elif isinstance(command, OutcomeFrame):
            self._on_outcome_frame(command)
        elif isinstance(command, CloseServer):
            self._close(command)
        elif isinstance(command, ReloadAllowList):
            self._drop_disallowed()
        else:
            self._stopped = command

    def _drop_disallowed(self) -> None:
        secure = self._secure
        for connection in list(self._by_route.values()):
            if secure is not None and not secure.is_allowed(connection.user):
                log.warning("client %r is let in no longer", connection.client)
                self._drop(connection)

    def _close(self, command: CloseServer) -> None:
        self._close_deadline = time.monotonic() + command.seconds
        with contextlib.suppress(zmq.ZMQError):
            self._sent = True  # or whatever else may consume news
            self._socket.unbind(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self._post(StopStoreLoop())

    def _post(self, command: StoreLoopCommand) -> None:
        self._for_store.append(command)

    def _hand_over(self) -> None:
        asked, self._for_store = self._for_store, []
        with contextlib.suppress(MailboxClosed):  # it has ended, and says so
            for command in asked:
                self._post_to_store(command)

    def _read(self) -> None:
        """Take frames, until there are no more or it is somebody else's turn."""
        # To ask is cheaper than to try in vain.
        if not self._unread and not int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            self._sent = False
            return
        self._unread = True
        for _ in range(FRAMES_PER_READ):
            if not self._may_read():
                return
            try:
                route = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                self._unread = self._sent = False
                return
            self._on_frame(route, self._socket.recv(copy=False))

    def _on_frame(self, route: bytes, frame: "zmq.Frame") -> None:
        others = self._socket.recv_multipart() if frame.more else []
        user = ""
        if self._secure is not None:
            user = str(frame.get("User-Id"))
            if not self._secure.is_allowed(user):
                return  # taken off the list since it connected: it is not answered
        self.messages += 1
        try:
            self._on_request(route, self._request_of(frame.bytes, len(others)), len(frame), user)
        except Refused as refusal:
            self.refused += 1
            seq = seq_of(others[-1] if others else frame.bytes)
            self._answer(route, Failure(seq, refusal.code, str(refusal)))

    def _request_of(self, frame: bytes, others: int) -> Request:
        if others:
            raise Malformed(f"{1 + others} frames; expected one")
        self._validator.check_message(frame)
        return decode_request(frame)

    def _on_request(self, route: bytes, request: Request, size: int, user: str) -> None:
        connection = self._by_route.get(route)
        if isinstance(request, Hello):
            self._on_hello(route, request, connection, user)
        elif connection is None:
            raise HelloRequired("nobody has said hello on this connection, or it was cut off")
        elif isinstance(request, Bye):
            self._drop(connection)
        elif self._close_deadline is not None or self._stopped is not None:
            raise ServerClosing("the server is about to end")
        else:
            connection.last_seen = self._now
            self._in_flight += size
            self._post(ClientRequest(route, connection.client, request, size))

    def _on_hello(self, route: bytes, hello: Hello, before: Connection | None, user: str) -> None:
        if hello.version != VERSION:
            raise WrongVersion(f"version is {hello.version}; expected {VERSION}")
        if before is not None:
            raise Malformed(f"{before.client!r} has said hello on this connection")
        if self._close_deadline is not None or self._stopped is not None:
            raise ServerClosing("the server is about to end")
        refusal = self._validator.check_text(hello.client)
        if refusal is not None:
            raise refusal
        if len(self._by_route) >= self._max_clients:
            raise TooManyClients(f"{self._max_clients} connections are there already")
        connection = Connection(route, hello.client, self._now, user)
        self._by_route[route] = connection
        self._by_client.setdefault(hello.client, []).append(connection)
        self._post(ClientConnected(route, hello.client, hello.seq))
        self._post(FetchOutcomes(route, hello.client, 0))

    def _drop(self, connection: Connection) -> None:
        """Forget a connection; what it says from now on is answered with an error."""
        del self._by_route[connection.route]
        self._blocked.discard(connection)
        others = self._by_client[connection.client]
        others.remove(connection)
        if not others:
            del self._by_client[connection.client]
        self._post(ClientDisconnected(connection.client))

    def _answer(self, route: bytes, failure: Failure) -> None:
        connection = self._by_route.get(route)
        if connection is not None:
            self._send(connection, encode(failure))
            return
        with contextlib.suppress(zmq.ZMQError):  # a stranger who does not read, or has gone
            self._write(route, encode(failure))

    def _send(self, connection: Connection, frame: bytes) -> None:
        if not connection.backlog and self._try_send(connection, frame):
            return
        if connection.route in self._by_route and not connection.keep(frame):
            log.warning("client %r does not read its answers: cut off", connection.client)
            self._drop(connection)

    def _try_send(self, connection: Connection, frame: bytes) -> bool:
        """Send now; False if it cannot take any, or has gone."""
        try:
            self._write(connection.route, frame)
        except zmq.Again:
            self._blocked.add(connection)
            return False
        except zmq.ZMQError:  # EHOSTUNREACH
            self._drop(connection)
            return False
        return True

    def _write(self, route: bytes, frame: bytes) -> None:
        self._sent = True
        self._socket.send(route, zmq.NOBLOCK | zmq.SNDMORE)
        self._socket.send(frame, zmq.NOBLOCK)

    def _push(self, push: OutcomePush) -> None:
        for connection in list(self._by_client.get(push.client, ())):
            if not connection.streaming:
                continue
            if connection.backlog or not self._try_send(connection, push.frame):
                connection.streaming = False
                connection.resume_after = push.first - 1
                self._blocked.add(connection)

    def _on_outcome_frame(self, told: OutcomeFrame) -> None:
        connection = self._by_route.get(told.route)
        if connection is None:
            return
        if told.frame is None:
            connection.streaming = True
        elif connection.backlog:
            self._blocked.add(connection)
        elif self._try_send(connection, told.frame):
            connection.resume_after = told.last
            self._post(FetchOutcomes(connection.route, connection.client, told.last))

    def _retry(self) -> None:
        for connection in list(self._blocked):
            while connection.backlog and self._try_send(connection, connection.backlog[0]):
                connection.sent()
            if not connection.backlog and connection.route in self._by_route:
                self._blocked.discard(connection)
                if not connection.streaming:
                    self._post(
                        FetchOutcomes(connection.route, connection.client, connection.resume_after)
                    )

    def _ping_idle(self) -> None:
        """Nobody tells us of a connection's end, but a send does."""
        since = self._now - IDLE_S
        for connection in list(self._by_route.values()):
            if connection.last_seen < since and not connection.backlog:
                self._try_send(connection, encode(Ping()))
