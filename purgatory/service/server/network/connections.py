"""Connections: sends to clients. Network thread alone.

Unread replies are kept up to a bound; then the connection is cut off. Outcomes are not kept: a
connection with room fetches them.
"""

import logging
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

import zmq

from purgatory.service.auth.access import EVERYTHING, Access
from purgatory.service.auth.authenticator import SocketSecurity
from purgatory.service.encoding import encode, for_futures_only
from purgatory.service.protocol import Ping
from purgatory.service.rare_log import RareLog
from purgatory.service.server.commands import (
    ClientDisconnected,
    FetchOutcomes,
    OutcomeFrame,
    OutcomePush,
    StoreLoopCommand,
)

log: logging.Logger = logging.getLogger(__name__)

_COUNT: Final = "connections of client '%s': %d"
_CUT_OFF: Final = "client '%s' does not read its answers: cut off"
_FULL: Final = "a client was refused: %s clients are connected, as many as max_clients allows"
# Plain numbers: a combination of members takes two microseconds.
_NOBLOCK: Final = int(zmq.NOBLOCK)
_MORE: Final = int(zmq.NOBLOCK | zmq.SNDMORE)
# Bounds of a connection's unread replies, before it is cut off.
BACKLOG_FRAMES = 1000
BACKLOG_BYTES = 8 << 20
# Bound of all unread replies; beyond, the longest unread are cut off. A reply's cost beside its
# bytes.
ALL_BACKLOGS_BYTES = 32 << 20
FRAME_BYTES = 100
# Pause between attempts to send to blocked connections, as a multiple of the attempt: each
# connection raises an exception. Its most seconds, in case the process was stopped.
RETRY_PAUSE = 10
MAX_RETRY_PAUSE_S = 1.0
# Remembered routes of lost connections.
GONE_ROUTES = 10_000
# Seconds between searches of a full server for lost connections.
PING_ALL_S = 1.0


class Connection:
    """A connection: `route` in the socket, name of the client, public key (`user`).

    `session`: see `ClientRequest`. `takes`: whether the client handles outcomes that no future
    awaits.
    """

    def __init__(
        self,
        route: bytes,
        client: str,
        now: float,
        user: str,
        session: str = "",
        access: Access = EVERYTHING,
        takes: bool = True,
    ) -> None:
        self.route: bytes = route
        self.client: str = client
        self.user: str = user
        self.session: str = session
        self.access: Access = access
        self.takes: bool = takes
        self.last_seen: float = now  # monotonic seconds
        self.backlog: deque[bytes] = deque()  # replies that the socket could not take
        self.backlog_bytes: int = 0
        # Outcomes are pushed. Otherwise the connection first fetches those beyond `resume_after`.
        self.streaming: bool = False
        self.resume_after: int = 0
        # To fetch all outcomes again.
        self.wants_all: bool = False
        # To fetch the next repeated outcomes when its backlog is sent.
        self.wants_repeated: bool = False


class Connections:
    """All connections that have said hello; `post` sends commands to the store loop.

    While `guard`, asked before each frame, returns False, frames are kept as for blocked
    connections.
    """

    def __init__(
        self,
        socket: "zmq.Socket[bytes]",
        post: Callable[[StoreLoopCommand], None],
        monotonic: Callable[[], float],
        guard: Callable[[], bool] | None = None,
    ) -> None:
        self._socket = socket
        self._guard = guard
        self._post = post
        self._monotonic = monotonic
        # By route; any thread may read the length.
        self.by_route: dict[bytes, Connection] = {}
        self._by_client: dict[str, list[Connection]] = {}
        self.workers: dict[bytes, Connection] = {}  # by route
        # Blocked connections, the longest blocked first.
        self.blocked: dict[Connection, None] = {}
        self._backlog_bytes = 0  # of all connections
        self._cut_off_log = RareLog(_CUT_OFF, monotonic, logging.WARNING)
        self._full_log = RareLog(_FULL, monotonic, logging.WARNING)
        self._next_ping_all = self._next_retry = 0.0
        # Routes that were unreachable, oldest first.
        self._gone: OrderedDict[bytes, None] = OrderedDict()
        #: Set by each send: it may consume the event of readable frames.
        self.sent: bool = False

    @property
    def backlog(self) -> bool:
        """Whether a reply waits to be sent."""
        return any(connection.backlog for connection in self.blocked)

    def add(self, connection: Connection) -> None:
        """Add a connection that has said hello."""
        self._gone.pop(connection.route, None)  # clients choose routes, and may reuse them
        self.by_route[connection.route] = connection
        connections = self._by_client.setdefault(connection.client, [])
        connections.append(connection)
        log.info(_COUNT, connection.client, len(connections))

    def drop(self, connection: Connection) -> None:
        """Forget a connection: its messages are refused."""
        taker = self._taker(connection.client)
        self._backlog_bytes -= connection.backlog_bytes
        del self.by_route[connection.route]
        self.workers.pop(connection.route, None)
        self.blocked.pop(connection, None)
        others = self._by_client[connection.client]
        others.remove(connection)
        if not others:
            del self._by_client[connection.client]
        log.info(_COUNT, connection.client, len(others))
        self._post(ClientDisconnected(connection.client, connection.route))
        self._change_taker(connection.client, taker)

    def _taker(self, client: str) -> Connection | None:
        """Return the client's newest connection that takes outcomes."""
        for connection in reversed(self._by_client.get(client, ())):
            if connection.takes and connection.access.acknowledges:
                return connection
        return None

    def _change_taker(self, client: str, before: Connection | None) -> None:
        """Send all outcomes to a connection that has become the taker."""
        taker = self._taker(client)
        if taker is None or taker is before:
            return
        if taker.streaming:
            self._fetch_all(taker)
        else:
            taker.wants_all = True

    def _fetch_all(self, connection: Connection) -> None:
        connection.streaming = connection.wants_all = False
        connection.resume_after = 0
        self.fetch_outcomes(connection)

    def apply_access(self, security: "SocketSecurity") -> None:
        """Limit or drop connections by what `security` allows now.

        A dropped connection may say hello again.
        """
        for connection in list(self.by_route.values()):
            access = security.access_of(connection.user)
            if access is None or not access.allows_name(connection.client):
                log.warning("client %r is no longer allowed", connection.client)
                self.drop(connection)
            elif access != connection.access:
                if self._asks_for_more(connection, access):
                    self.drop(connection)
                else:
                    self._set_access(connection, access)

    def _asks_for_more(self, connection: Connection, access: Access) -> bool:
        """Whether the store may send on jobs, or ends of jobs, that `access` forbids."""
        before = connection.access
        if connection.route in self.workers:
            return before.has("work") and not access.has("work")
        return (before.has("read") and not access.has("read")) or (
            access.own_only and not before.own_only
        )

    def _set_access(self, connection: Connection, access: Access) -> None:
        had_outcomes = connection.access.gets_outcomes
        taker = self._taker(connection.client)
        connection.access = access
        connection.streaming = connection.streaming and access.gets_outcomes
        if not had_outcomes:
            self.fetch_outcomes(connection)
        self._change_taker(connection.client, taker)

    def send(self, connection: Connection, frame: bytes) -> None:
        """Send a reply, or queue it within the bounds."""
        if not connection.backlog and self._try_send(connection, frame):
            return
        if connection.route in self.by_route:
            connection.backlog.append(frame)
            self._count(connection, FRAME_BYTES + len(frame))
            if len(connection.backlog) > BACKLOG_FRAMES or connection.backlog_bytes > BACKLOG_BYTES:
                self._cut_off(connection)
            elif self._backlog_bytes > ALL_BACKLOGS_BYTES:
                self._cut_off_slowest()

    def _count(self, connection: Connection, size: int) -> None:
        connection.backlog_bytes += size
        self._backlog_bytes += size

    def _cut_off(self, connection: Connection) -> None:
        self._cut_off_log.add(connection.client)
        self.drop(connection)

    def _cut_off_slowest(self) -> None:
        """Drop the longest blocked, until half of the bound is free."""
        for connection in list(self.blocked):
            if self._backlog_bytes <= ALL_BACKLOGS_BYTES // 2:
                return
            if connection.backlog:
                self._cut_off(connection)

    def send_before_hello(self, route: bytes, frame: bytes) -> None:
        """Send to a peer without a hello."""
        try:
            self._write(route, frame)
        except zmq.Again:
            pass
        except zmq.ZMQError:
            self._note_gone(route)

    def _try_send(self, connection: Connection, frame: bytes) -> bool:
        """Send now; False if the connection is blocked, or lost and dropped."""
        try:
            self._write(connection.route, frame)
        except zmq.Again:
            self.blocked[connection] = None
            return False
        except zmq.ZMQError:
            self._note_gone(connection.route)
            self.drop(connection)
            return False
        return True

    def has_gone(self, route: bytes) -> bool:
        """Whether the peer has closed its connection."""
        return route in self._gone

    def _note_gone(self, route: bytes) -> None:
        self._gone[route] = None
        if len(self._gone) > GONE_ROUTES:
            self._gone.popitem(last=False)

    def _write(self, route: bytes, frame: bytes) -> None:
        """Write a frame. Raises ZMQError."""
        if self._guard is not None and not self._guard():
            raise zmq.Again
        self.sent = True
        self._socket.send(route, _MORE)
        self._socket.send(frame, _NOBLOCK)

    def push(self, push: OutcomePush) -> None:
        """Send committed outcomes to a client's streaming connections."""
        taker = self._taker(push.client)
        for connection in list(self._by_client.get(push.client, ())):
            if not connection.streaming:
                continue
            frame = push.frame
            if frame is not None and connection is not taker:
                frame = for_futures_only(frame)
            if frame is None or connection.backlog or not self._try_send(connection, frame):
                connection.streaming = False
                connection.resume_after = push.first - 1
                if frame is None:
                    self.fetch_outcomes(connection)

    def send_fetched(self, outcomes: OutcomeFrame) -> None:
        """Send fetched outcomes, and fetch the next."""
        connection = self.by_route.get(outcomes.route)
        if connection is None or not connection.access.gets_outcomes:
            return
        frame = outcomes.frame
        if frame is not None and connection is not self._taker(connection.client):
            frame = for_futures_only(frame)
        if outcomes.repeated and frame is not None:
            self._send_repeated(connection, frame)
        elif frame is None:
            connection.streaming = True
            if connection.wants_all:
                self._fetch_all(connection)
        elif not connection.backlog and self._try_send(connection, frame):
            connection.resume_after = outcomes.last
            self.fetch_outcomes(connection)

    def _send_repeated(self, connection: Connection, frame: bytes) -> None:
        self.send(connection, frame)
        if connection.backlog:
            connection.wants_repeated = True
        else:
            self._fetch_repeated(connection)

    def _fetch_repeated(self, connection: Connection) -> None:
        connection.wants_repeated = False
        route, client, key = connection.route, connection.client, connection.user
        self._post(FetchOutcomes(route, client, 0, repeated=True, key=key))

    def fetch_outcomes(self, connection: Connection) -> None:
        """Fetch a connection's further outcomes, if allowed."""
        if connection.access.gets_outcomes:
            route, client, key = connection.route, connection.client, connection.user
            self._post(FetchOutcomes(route, client, connection.resume_after, key=key))

    def retry_blocked(self) -> None:
        """Send to blocked connections, if due."""
        begin = self._monotonic()
        if begin >= self._next_retry:
            self._retry_all()
            now = self._monotonic()
            self._next_retry = now + min((RETRY_PAUSE - 1) * (now - begin), MAX_RETRY_PAUSE_S)

    def _retry_all(self) -> None:
        for connection in list(self.blocked):
            while connection.backlog and self._try_send(connection, connection.backlog[0]):
                self._count(connection, -FRAME_BYTES - len(connection.backlog.popleft()))
            if not connection.backlog and connection.route in self.by_route:
                self.blocked.pop(connection, None)
                if not connection.streaming:
                    self.fetch_outcomes(connection)
                if connection.wants_repeated:
                    self._fetch_repeated(connection)

    def has_room(self, most: int, now: float) -> bool:
        """Whether fewer than `most` connections exist, after a search for lost ones.

        The search pings all, once in PING_ALL_S seconds at most.
        """
        if len(self.by_route) >= most and now >= self._next_ping_all:
            self._next_ping_all = now + PING_ALL_S
            self.ping_idle(math.inf)
        if len(self.by_route) < most:
            return True
        self._full_log.add(str(most))
        return False

    def ping_idle(self, since: float) -> None:
        """Ping connections silent since then."""
        self.ping([each for each in self.by_route.values() if each.last_seen < since])

    def ping(self, connections: list[Connection]) -> None:
        """Ping connections: only a failed send shows a loss."""
        frame = encode(Ping())
        for connection in connections:
            if not connection.backlog:
                self._try_send(connection, frame)
