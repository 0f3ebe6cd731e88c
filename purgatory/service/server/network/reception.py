"""Reception: makes a request, a connection or a refusal of each message.

Network thread alone; any thread may read the counters.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from purgatory.service.auth.access import EVERYTHING, Access
from purgatory.service.auth.authenticator import SocketSecurity
from purgatory.service.encoding import decode_request, encode, seq_of, type_of
from purgatory.service.errors import (
    HelloRequired,
    Malformed,
    Refused,
    ServerClosing,
    TooManyClients,
    WrongVersion,
)
from purgatory.service.protocol import OLDEST_VERSION, VERSION, Bye, Failure, Hello, Request, Work
from purgatory.service.server.commands import ClientConnected, ClientRequest, StoreLoopCommand
from purgatory.service.server.network.connections import GONE_ROUTES, Connection, Connections
from purgatory.service.server.network.flood_gates import FloodGates
from purgatory.service.server.network.router_socket import descriptor_of, end_connection
from purgatory.service.server.network.unread_connections import UnreadConnections
from purgatory.service.server.network.waiting_messages import WaitingMessages
from purgatory.service.server.validation import RequestValidator

if TYPE_CHECKING:
    import zmq


# Messages allowed before a hello; None: broken ones, refused as malformed.
_OF_STRANGERS: Final = (Hello.__struct_config__.tag, None)
_NO_HELLO: Final = "no hello on this connection yet, or it was cut off"
# Least cost of a request.
MIN_REQUEST_BYTES = 256
# Requests without a hello that are answered, before the connection is ended.
MAX_REFUSALS = 2000


class Reception:
    """Checks messages; `post` passes requests on. `security`: None allows everything."""

    def __init__(
        self,
        validator: RequestValidator,
        connections: Connections,
        post: Callable[[StoreLoopCommand], None],
        *,
        security: "SocketSecurity | None",
        max_clients: int,
    ) -> None:
        self._validator = validator
        self._connections = connections
        self._post = post
        self._security = security
        self._max_clients = max_clients
        # Requests refused before a hello, by route.
        self._strangers: OrderedDict[bytes, int] = OrderedDict()
        unread = UnreadConnections()
        self.waiting: WaitingMessages = WaitingMessages(unread)
        #: Whether further requests and connections are refused.
        self.closing: bool = False
        self.gates: FloodGates = FloodGates(unread, is_encrypted=security is not None)
        # For any thread.
        self.messages: int = 0
        self.refused: int = 0

    def on_frame(self, route: bytes, frame: "zmq.Frame", others: "list[bytes]", now: float) -> None:
        """Take a message that came at `now`; only a wrong peer sends `others`."""
        self.gates.note(route, frame, others)
        user = "" if self._security is None else str(frame.get("User-Id"))
        access = self._access_of(user)
        if access is None:
            self._refuse_stranger(route, frame)  # no longer allowed
            return
        self.messages += 1
        content = frame.bytes
        connection = self._connections.by_route.get(route)
        if connection is not None and connection.user != user:
            # A client may choose its route (ZMQ_ROUTING_ID), also that of a lost connection.
            self._connections.drop(connection)
            connection = None
        if connection is None and type_of(content) not in _OF_STRANGERS:
            self._refuse_stranger(route, frame)
            return
        waiting = self.waiting
        try:
            if others:
                raise Malformed(f"{1 + len(others)} frames; expected one")
            self._validator.check_message(content)
            if (
                connection is not None
                and (waiting.is_shared or waiting.bytes)
                and waiting.is_for(connection, len(content))
            ):
                waiting.append(connection, frame)
            else:
                self._on_message(route, content, connection, user, access, now)
        except Refused as refusal:
            self._refuse(route, others[-1] if others else content, refusal.code, str(refusal))

    def take_waiting(self, now: float) -> None:
        """Take the next waiting message. Raises IndexError without any."""
        connection, content = self.waiting.popleft()
        route, user = connection.route, connection.user
        present = self._connections.by_route.get(route)
        access = self._access_of(user)
        if present is None:
            self._refuse_unread(route, content)
        elif present is connection and access is not None:
            try:
                self._on_message(route, content, connection, user, access, now)
            except Refused as refusal:
                self._refuse(route, content, refusal.code, str(refusal))

    def _access_of(self, user: str) -> Access | None:
        return EVERYTHING if self._security is None else self._security.access_of(user)

    def _refuse_stranger(self, route: bytes, frame: "zmq.Frame") -> None:
        """Refuse a request; end a connection that does not stop."""
        refusals = self._strangers[route] = self._strangers.get(route, 0) + 1
        if refusals <= MAX_REFUSALS + 1:
            self._refuse_unread(route, frame.bytes)
        if refusals == MAX_REFUSALS + 1 and not self._connections.has_gone(route):
            end_connection(descriptor_of(frame))  # not gone: still its own
        if len(self._strangers) > GONE_ROUTES:
            self._strangers.popitem(last=False)

    def _refuse_unread(self, route: bytes, content: bytes) -> None:
        # A lost peer may have left many messages: answers would cost more than all else.
        if not self._connections.has_gone(route):
            self._refuse(route, content, HelloRequired.code, _NO_HELLO)

    def _refuse(self, route: bytes, content: bytes, code: str, why: str) -> None:
        self.refused += 1
        frame = encode(Failure(seq_of(content), code, why))
        connection = self._connections.by_route.get(route)
        if connection is None:
            self._connections.send_before_hello(route, frame)
        else:
            self._connections.send(connection, frame)

    def _on_message(
        self,
        route: bytes,
        content: bytes,
        connection: Connection | None,
        user: str,
        access: Access,
        now: float,
    ) -> None:
        request: Request = decode_request(content)
        if isinstance(request, Hello):
            self._on_hello(route, request, connection, user, access, now)
        elif connection is None:
            raise HelloRequired(_NO_HELLO)
        elif isinstance(request, Bye):
            self._connections.drop(connection)
        elif self.closing:
            raise ServerClosing("the server is about to end")
        else:
            connection.last_seen = now
            if access is not EVERYTHING:
                access.check_request(request)
            if isinstance(request, Work):
                self._connections.workers[route] = connection
            size = max(len(content), MIN_REQUEST_BYTES)
            self._post(
                ClientRequest(
                    route,
                    connection.client,
                    request,
                    size,
                    connection.session,
                    access.own_only,
                    user,
                )
            )

    def _on_hello(
        self,
        route: bytes,
        hello: Hello,
        before: Connection | None,
        user: str,
        access: Access,
        now: float,
    ) -> None:
        self._check_hello(hello, before, access, now)
        connection = Connection(route, hello.client, now, user, hello.session, access, hello.takes)
        self._connections.add(connection)
        self._strangers.pop(route, None)
        self._post(ClientConnected(route, hello.client, hello.seq, hello.version, user))
        self._connections.fetch_outcomes(connection)

    def _check_hello(
        self, hello: Hello, before: Connection | None, access: Access, now: float
    ) -> None:
        if not OLDEST_VERSION <= hello.version <= VERSION:
            raise WrongVersion(
                f"version is {hello.version}; expected {OLDEST_VERSION} to {VERSION}"
            )
        if before is not None:
            raise Malformed(f"client {before.client!r} sent a second hello on a connection")
        if self.closing:
            raise ServerClosing("the server is about to end")
        access.check_name(hello.client)
        self._validator.check_text(hello.client)
        self._validator.check_text(hello.session, empty=True)
        if not self._connections.has_room(self._max_clients, now):
            raise TooManyClients(
                f"{self._max_clients} clients are connected, as many as max_clients allows"
            )
