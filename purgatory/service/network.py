"""Network: the thread that owns the socket. Frames in, commands to the keeper, and back.

It never waits for the disk, nor for a client: what a client does not read is kept up to a bound,
then its connection is cut off; outcomes are not kept at all, they come from the store when it can
take them. When the keeper has more to do than it can remember, the socket is left unread, and so
the clients have to wait.

`listen` is for who starts the thread, all else for the thread; its mailbox is for any.
"""

import contextlib
import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import zmq

from mq import Mailbox, MailboxClosed
from purgatory.service.checks import Checks
from purgatory.service.commands import (
    Asked,
    Attach,
    Close,
    Deliver,
    Detach,
    KeeperCommand,
    More,
    NetworkCommand,
    Push,
    Recheck,
    Stop,
    Stopped,
    Told,
)
from purgatory.service.connection import Connection
from purgatory.service.errors import (
    Closing,
    Malformed,
    NoHello,
    Refused,
    ServerError,
    TooLarge,
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

if TYPE_CHECKING:
    from purgatory.service.guard import Secure

    _Context = zmq.Context[zmq.Socket[bytes]]

log = logging.getLogger(__name__)

# Frames read before answers are looked at again.
READ_AT_ONCE = 256
# Bytes that may be on their way through the keeper.
IN_FLIGHT_BYTES = 32 << 20
# Frames that the socket keeps for one connection, each way.
SOCKET_FRAMES = 64
# Seconds between two tries to tell a connection that does not read.
RETRY = 0.1
# A connection that said nothing for so long is asked whether it is there; looked at as often.
IDLE = 30.0


class Network:
    """``ask``: posts to the keeper. ``ended``: called as the last thing, with what went wrong."""

    def __init__(
        self,
        checks: Checks,
        mailbox: Mailbox[NetworkCommand],
        ask: Callable[[KeeperCommand], None],
        ended: Callable[[Exception | None], None],
        *,
        max_clients: int,
    ) -> None:
        self.mailbox = mailbox
        self._checks = checks
        self._ask = ask
        self._ended = ended
        self._max_clients = max_clients
        self._socket: zmq.Socket[bytes]
        self._secure: Secure | None = None
        self._by_route: dict[bytes, Connection] = {}
        self._by_client: dict[str, list[Connection]] = {}
        self._blocked: set[Connection] = set()
        self._in_flight = 0  # bytes with the keeper
        self._look_at = time.monotonic() + IDLE
        self._give_up_at: float | None = None  # closing, until then
        self._stopped: Stopped | None = None  # the keeper has ended
        # Counted here, read by any thread.
        self.messages = 0
        self.refused = 0

    @property
    def connections(self) -> int:
        """How many connections have said hello."""
        return len(self._by_route)

    def listen(self, context: "_Context", address: str, secure: "Secure | None") -> str:
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
            (zmq.MAXMSGSIZE, 4 * self._checks.limits.message_bytes),
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
            self._post(Stop())
        finally:
            self._socket.close(0 if self._stopped is None else int(1000 * self._time_left(1.0)))
            self.mailbox.close()
            self._ended(error or (self._stopped.error if self._stopped else None))

    def _serve(self) -> None:
        everything = zmq.Poller()
        everything.register(self._socket, zmq.POLLIN)
        everything.register(self.mailbox.fileno(), zmq.POLLIN)
        commands = zmq.Poller()
        commands.register(self.mailbox.fileno(), zmq.POLLIN)
        while not self._finished():
            reading = self._in_flight < IN_FLIGHT_BYTES
            poller = everything if reading else commands
            poller.poll(math.ceil(1000 * self._patience()))
            while (command := self.mailbox.recv(0)) is not None:
                self._obey(command)
            if reading:
                self._read()
            if self._blocked:
                self._retry()
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + IDLE
                self._look_for_dead()

    def _patience(self) -> float:
        if self._blocked:
            return RETRY
        return self._time_left(max(0.0, self._look_at - time.monotonic()))

    def _time_left(self, most: float) -> float:
        """Seconds until the end, if we are to end, and not more than that."""
        if self._give_up_at is None:
            return most
        return min(most, max(0.0, self._give_up_at - time.monotonic()))

    def _finished(self) -> bool:
        if self._give_up_at is not None and time.monotonic() >= self._give_up_at:
            return True
        return self._stopped is not None and not any(c.backlog for c in self._blocked)

    def _obey(self, command: NetworkCommand) -> None:
        if isinstance(command, Deliver):
            self._in_flight -= command.size
            for route, frame in command.answers:
                connection = self._by_route.get(route)
                if connection is not None:
                    self._send(connection, frame)
            for push in command.pushes:
                self._push(push)
        elif isinstance(command, Told):
            self._told(command)
        elif isinstance(command, Close):
            self._close(command)
        elif isinstance(command, Recheck):
            self._recheck()
        else:
            self._stopped = command

    def _recheck(self) -> None:
        secure = self._secure
        for connection in list(self._by_route.values()):
            if secure is not None and not secure.lets_in(connection.user):
                log.warning("client %r is let in no longer", connection.client)
                self._drop(connection)

    def _close(self, command: Close) -> None:
        self._give_up_at = time.monotonic() + command.seconds
        with contextlib.suppress(zmq.ZMQError):
            self._socket.unbind(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self._post(Stop())

    def _post(self, command: KeeperCommand) -> None:
        with contextlib.suppress(MailboxClosed):  # it has ended, and says so
            self._ask(command)

    def _read(self) -> None:
        for _ in range(READ_AT_ONCE):
            try:
                route, frames, user = self._receive()
            except zmq.Again:
                return
            if self._secure is not None and not self._secure.lets_in(user):
                continue  # taken off the list since it connected: it is not answered
            self.messages += 1
            try:
                self._take(route, self._request_of(frames), len(frames[0]), user)
            except Refused as refusal:
                self.refused += 1
                seq = seq_of(frames[-1]) if frames else None
                self._answer(route, Failure(seq, refusal.code, str(refusal)))

    def _receive(self) -> tuple[bytes, list[bytes], str]:
        """Route, frames, and who sent them, where the socket is guarded."""
        if self._secure is None:
            route, *frames = self._socket.recv_multipart(zmq.NOBLOCK)
            return route, frames, ""
        parts = self._socket.recv_multipart(zmq.NOBLOCK, copy=False)
        return parts[0].bytes, [part.bytes for part in parts[1:]], str(parts[-1].get("User-Id"))

    def _request_of(self, frames: list[bytes]) -> Request:
        if len(frames) != 1:
            raise Malformed(f"{len(frames)} frames; expected one")
        most = self._checks.limits.message_bytes
        if len(frames[0]) > most:
            raise TooLarge(f"message of {len(frames[0])} bytes; expected at most {most}")
        return decode_request(frames[0])

    def _take(self, route: bytes, request: Request, size: int, user: str) -> None:
        connection = self._by_route.get(route)
        if isinstance(request, Hello):
            self._welcome(route, request, connection, user)
        elif connection is None:
            raise NoHello("nobody has said hello on this connection, or it was cut off")
        elif isinstance(request, Bye):
            self._drop(connection)
        elif self._give_up_at is not None or self._stopped is not None:
            raise Closing("the server is about to end")
        else:
            connection.seen = time.monotonic()
            self._in_flight += size
            self._post(Asked(route, connection.client, request, size))

    def _welcome(self, route: bytes, hello: Hello, before: Connection | None, user: str) -> None:
        if hello.version != VERSION:
            raise WrongVersion(f"version is {hello.version}; expected {VERSION}")
        if before is not None:
            raise Malformed(f"{before.client!r} has said hello on this connection")
        if self._give_up_at is not None or self._stopped is not None:
            raise Closing("the server is about to end")
        refusal = self._checks.text(hello.client)
        if refusal is not None:
            raise refusal
        if len(self._by_route) >= self._max_clients:
            raise TooManyClients(f"{self._max_clients} connections are there already")
        connection = Connection(route, hello.client, time.monotonic(), user)
        self._by_route[route] = connection
        self._by_client.setdefault(hello.client, []).append(connection)
        self._post(Attach(route, hello.client, hello.seq))
        self._post(More(route, hello.client, 0))

    def _drop(self, connection: Connection) -> None:
        """Forget a connection; what it says from now on is answered with an error."""
        del self._by_route[connection.route]
        self._blocked.discard(connection)
        others = self._by_client[connection.client]
        others.remove(connection)
        if not others:
            del self._by_client[connection.client]
        self._post(Detach(connection.client))

    def _answer(self, route: bytes, failure: Failure) -> None:
        connection = self._by_route.get(route)
        if connection is not None:
            self._send(connection, encode(failure))
            return
        with contextlib.suppress(zmq.ZMQError):  # a stranger who does not read, or has gone
            self._socket.send_multipart([route, encode(failure)], zmq.NOBLOCK)

    def _send(self, connection: Connection, frame: bytes) -> None:
        if not connection.backlog and self._try(connection, frame):
            return
        if connection.route in self._by_route and not connection.keep(frame):
            log.warning("client %r does not read its answers: cut off", connection.client)
            self._drop(connection)

    def _try(self, connection: Connection, frame: bytes) -> bool:
        """Send now; False if it cannot take any, or has gone."""
        try:
            self._socket.send_multipart([connection.route, frame], zmq.NOBLOCK)
        except zmq.Again:
            self._blocked.add(connection)
            return False
        except zmq.ZMQError:  # EHOSTUNREACH
            self._drop(connection)
            return False
        return True

    def _push(self, push: Push) -> None:
        for connection in list(self._by_client.get(push.client, ())):
            if not connection.live:
                continue
            if connection.backlog or not self._try(connection, push.frame):
                connection.live = False
                connection.behind = push.first - 1
                self._blocked.add(connection)

    def _told(self, told: Told) -> None:
        connection = self._by_route.get(told.route)
        if connection is None:
            return
        if told.frame is None:
            connection.live = True
        elif connection.backlog:
            self._blocked.add(connection)
        elif self._try(connection, told.frame):
            connection.behind = told.last
            self._post(More(connection.route, connection.client, told.last))

    def _retry(self) -> None:
        for connection in list(self._blocked):
            while connection.backlog and self._try(connection, connection.backlog[0]):
                connection.sent()
            if not connection.backlog and connection.route in self._by_route:
                self._blocked.discard(connection)
                if not connection.live:
                    self._post(More(connection.route, connection.client, connection.behind))

    def _look_for_dead(self) -> None:
        """Nobody tells us of a connection's end, but a send does."""
        since = time.monotonic() - IDLE
        for connection in list(self._by_route.values()):
            if connection.seen < since and not connection.backlog:
                self._try(connection, encode(Ping()))
