"""A TCP proxy whose link cuts, swallows and delays."""

import enum
import socket
import struct
import threading
from contextlib import suppress
from typing import Self

CHUNK = 65536


class Link(enum.Enum):
    """What happens to bytes. Both ends believe that a link which swallows works."""

    FORWARD = "forward"
    #: Connections are reset, and new ones, too, right after their handshake.
    CUT = "cut"
    #: Everything sent is confirmed and vanishes, both ways.
    SWALLOW = "swallow"
    #: Requests arrive, answers vanish: a commit happens, and its client does not learn of it.
    SWALLOW_ANSWERS = "swallow answers"
    #: Requests vanish, and the server says nothing.
    SWALLOW_REQUESTS = "swallow requests"


class Proxy:
    """Forwards a free port of this machine to a port. Threads of its own do the work.

    `set` and `cut_at` may be called from any thread; `port_of_server` says where new connections
    go, and may be changed.
    """

    def __init__(self, port_of_server: int) -> None:
        self.port_of_server = port_of_server
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._link, self.delay_s = Link.FORWARD, 0.0
        self._needle: tuple[bytes, Link] | None = None
        self._connections: set[_Connection] = set()
        self._threads: list[threading.Thread] = []
        self._closed = False
        #: How many bytes vanished, and how many connections were reset.
        self.swallowed = self.resets = 0
        self._start(self._accept)

    @property
    def link(self) -> Link:
        """What happens to bytes now."""
        return self._link

    @property
    def connections(self) -> int:
        """How many connections there are."""
        with self._lock:
            return len(self._connections)

    def set(self, link: Link, delay_s: float = 0.0) -> None:
        """Change what happens to bytes from now on, and how long each chunk takes.

        Connections that lost bytes are reset when the link forwards again: after a gap nothing
        that they carry makes sense.
        """
        with self._lock:
            self._link, self.delay_s, self._needle = link, delay_s, None
            ended = [
                each
                for each in self._connections
                if link is Link.CUT or (link is Link.FORWARD and any(each.has_gap))
            ]
        for each in ended:
            self._reset(each)

    def cut_at(self, needle: bytes, link: Link = Link.SWALLOW_ANSWERS) -> None:
        """Forward the next request that has these bytes; `link` begins right behind it."""
        with self._lock:
            self._needle = (needle, link)

    def close(self) -> None:
        """End all connections and threads."""
        self._closed = True
        # Linux wakes `accept` by this, and not by `close`.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._lock:
            connections = list(self._connections)
        for each in connections:
            self._reset(each)
        self._changed.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a thread of the proxy hangs"
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, call, *args: object) -> None:
        self._threads = [each for each in self._threads if each.is_alive()]
        thread = threading.Thread(target=call, args=args, name="proxy", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while not self._closed:
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            if self._link is Link.CUT or self._closed:
                raise ConnectionRefusedError
            server = socket.create_connection(("127.0.0.1", self.port_of_server), timeout=5)
        except OSError:
            self.resets += 1
            _close_at_once(client)
            return
        server.settimeout(None)
        connection = _Connection(client, server)
        with self._lock:
            self._connections.add(connection)
        self._start(self._carry, connection, client, server)
        self._start(self._carry, connection, server, client)
        if self._closed:
            self._reset(connection)

    def _carry(
        self, connection: "_Connection", source: socket.socket, target: socket.socket
    ) -> None:
        """Carry the bytes of one direction until one end has gone."""
        is_request = source is connection.client
        try:
            while data := source.recv(CHUNK):
                if self.delay_s:
                    self._changed.wait(self.delay_s)
                if self._vanishes(connection, data, is_request):
                    continue
                target.sendall(data)
            if not self._vanishes(connection, b"", is_request):
                target.shutdown(socket.SHUT_WR)
                self._end_way(connection)
        except OSError:
            self._reset(connection)

    def _vanishes(self, connection: "_Connection", data: bytes, is_request: bool) -> bool:
        """Decide, in one step with `set`, whether bytes vanish; bytes that do leave a gap."""
        with self._lock:
            hidden = Link.SWALLOW_REQUESTS if is_request else Link.SWALLOW_ANSWERS
            vanishes = connection.has_gap[is_request] or self._link in (Link.SWALLOW, hidden)
            if vanishes:
                connection.has_gap[is_request] = True
                self.swallowed += len(data)
            elif is_request and self._needle is not None and self._needle[0] in data:
                self._link = self._needle[1]
                self._needle = None
            return vanishes

    def _end_way(self, connection: "_Connection") -> None:
        with self._lock:
            connection.ended += 1
            if connection.ended < 2:
                return
            self._connections.discard(connection)
        connection.client.close()
        connection.server.close()

    def _reset(self, connection: "_Connection") -> None:
        with self._lock:
            if connection not in self._connections:
                return
            self._connections.discard(connection)
            self.resets += 1
        _close_at_once(connection.client)
        _close_at_once(connection.server)


class _Connection:
    """A client's connection and the one to the server that belongs to it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client, self.server = client, server
        #: Whether bytes have vanished: of answers, of requests.
        self.has_gap = [False, False]
        self.ended = 0
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _close_at_once(each: socket.socket) -> None:
    # Without lingering, closing sends RST. A thread in `recv` wakes by the shutdown only.
    with suppress(OSError):
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        each.shutdown(socket.SHUT_RD)
    each.close()
