"""ServerConnection: the socket of a client, kept connected, with its session.

Used by the thread with the `Turn`. A ZeroMQ descriptor is edge-triggered: readable once for several
messages, and any use of the socket may consume the readiness. So `frames_pending` and
`monitor_pending` are updated before a sleep on the `Doorbell`.

A new socket replaces a lost connection, so no message is left in an old socket. The session goes on
there, also at another server: the replies are in the store.
"""

import contextlib
import logging
import math
from collections.abc import Iterable
from typing import Any, Final

import zmq

from purgatory.service import encoding
from purgatory.service.client.calls import Call, RequestType
from purgatory.service.client.route.address_route import AddressRoute
from purgatory.service.client.route.scout import LOOK_S, Scout
from purgatory.service.client.route.socket_options import SocketOptions
from purgatory.service.client.session import Session
from purgatory.service.encoding import encode
from purgatory.service.forked_child import OPEN
from purgatory.service.monitor_messages import recv_monitor_message
from purgatory.service.platform import REAL_PLATFORM, Doorbell, Platform
from purgatory.service.protocol import VERSION, Bye

log: logging.Logger = logging.getLogger(__name__)

# Most frames between two looks at the other descriptors.
FRAMES_PER_STEP: Final = 64
#: Seconds until the next try.
RECONNECT_DELAY_S: Final = 0.3

# Plain numbers: combining enumeration members takes two microseconds.
_NOBLOCK: Final = int(zmq.NOBLOCK)
_EVENTS: Final = int(zmq.EVENTS)
_POLLIN: Final = int(zmq.POLLIN)
_MONITORED_EVENTS: Final = (
    zmq.EVENT_CONNECTED
    | zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_DISCONNECTED
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
)

# Parts of `lost_after` without an expected frame.
_PROBE_PART: Final = 0.33  # probe the server; there are others
_PROBE_ALONE_PART: Final = 1.0  # probe the only server
_SCOUT_PART: Final = 0.67  # look for another server
_GIVE_UP_PART: Final = 4.0  # drop the connection


class ServerConnection:
    """Connects `session` to one of `addresses`; its descriptors are on `doorbell`."""

    def __init__(
        self,
        addresses: tuple[str, ...],
        session: Session,
        options: SocketOptions,
        doorbell: Doorbell,
        platform: Platform = REAL_PLATFORM,
    ) -> None:
        self._monotonic = platform.monotonic
        self._route = AddressRoute(addresses, platform.uniform)
        self._session = session
        self._options = options
        self._doorbell = doorbell
        self._context: zmq.Context[zmq.Socket[bytes]] = platform.context()
        self._socket: zmq.Socket[bytes]
        self._monitor: zmq.Socket[bytes]
        self._sent = False  # since the socket's events were read
        #: Of socket and monitor.
        self.descriptors: tuple[int, int] = (-1, -1)
        self._connected = -1  # the connection's own descriptor
        self._scout = Scout(self._open_scout, platform.monotonic)
        self._has_choice = False  # for this connection
        self._is_welcome = False
        self._attempt_until: float | None = None  # then the next address, without a welcome
        self._heard_at = 0.0  # when a frame came last, or none was expected
        #: Seconds from `_heard_at` to the probe; a caller waits no longer for a frame.
        self.probe_s: float = math.inf
        self._is_probed = False
        # Waiting frames or events, which the descriptor may not report.
        self.frames_pending: bool = False
        self.monitor_pending: bool = False
        self.reconnect_at: float | None = None  # no connection until then
        # When something came last, while calls are unanswered.
        self.silent_since: float = 0.0
        # Since when no server answers; None while connected.
        self._away_since: float | None = self._monotonic()
        #: For error messages; empty while the connection is up.
        self.error: str = "not connected yet"

    def open(self) -> None:
        """Make a connecting socket. Raises ZMQError for a bad address, ValueError for a bad key."""
        self._socket = self._context.socket(zmq.DEALER)
        try:
            self._connect()
        except BaseException:  # descriptors are used up, or the address is bad
            self._socket.close(0)
            raise

    def _connect(self) -> None:
        self._is_welcome = self._is_probed = False
        self._has_choice = self._route.has_choice
        # With several servers a scout replaces pings.
        self._options.configure(self._socket, self._route.current, pings=not self._has_choice)
        self._attempt_until = None
        part = _PROBE_PART if self._has_choice else _PROBE_ALONE_PART
        self.probe_s = self._options.lost_after_s * part
        events = int(_MONITORED_EVENTS)
        if self._has_choice:
            events |= int(zmq.EVENT_CONNECT_RETRIED)
            seconds = self._route.attempt_s(self._options.lost_after_s)
            self._attempt_until = self._monotonic() + seconds
        self._monitor = self._socket.get_monitor_socket(events)
        try:
            self._socket.connect(self._route.current)
            self.descriptors = self._socket.FD, self._monitor.FD
            for descriptor in self.descriptors:
                self._doorbell.register(descriptor)
        except BaseException:  # left open, it would keep the context from its end
            self._monitor.close(0)
            raise
        self.frames_pending = self.monitor_pending = True

    def _disconnect(self, lost: bool) -> None:
        OPEN.remove(self._connected)
        self._session.on_disconnected(lost)
        for descriptor in self.descriptors:
            self._doorbell.unregister(descriptor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(0)

    def discard(self) -> None:
        """Clean up after a failed `open`."""
        self._context.destroy(0)

    def close(self) -> None:
        """Say bye and close the socket, within 200 ms."""
        self._scout.close()
        if self.reconnect_at is None:
            with contextlib.suppress(zmq.ZMQError):
                self._socket.send(encode(Bye(0)), zmq.NOBLOCK)
            self._socket.setsockopt(zmq.LINGER, 200)
            self._socket.disable_monitor()
            self._monitor.close(0)
            self._socket.close()
            OPEN.remove(self._connected)
        self._context.term()

    @property
    def no_answer_since(self) -> float | None:
        """Since when no server answers; None: a server answers, or was not asked."""
        if self._away_since is not None:
            return self._away_since
        return self.silent_since if self._session.busy else None

    @property
    def next_look_at(self) -> float | None:
        """When to look whether the server is alive; None: not planned."""
        if self.reconnect_at is not None:
            return None
        if not self._is_welcome:
            return self._attempt_until
        if self._scout.is_under_way:
            return self._monotonic() + LOOK_S
        if not self._is_probed:
            return self._heard_at + self.probe_s
        part = _SCOUT_PART if self._has_choice else _GIVE_UP_PART
        return self._heard_at + self._options.lost_after_s * part

    @property
    def is_calm(self) -> bool:
        """Whether no work waits."""
        return not (self.frames_pending or self.monitor_pending or self._session.connection_lost)

    def step(self) -> None:
        """Do what is due: connect, receive, send."""
        if self.reconnect_at is not None:
            if self._monotonic() >= self.reconnect_at:
                self._reopen()
            return
        if self.monitor_pending:
            self._read_monitor()
        self.send_messages()
        if self.frames_pending:
            self._receive()
            self.send_messages()
        if self._session.connection_lost:
            standby = self._session.standby
            why = "the server has sent us away" if standby is None else f"the server is a {standby}"
            self.drop(why, RECONNECT_DELAY_S)
        else:
            self._look_for_life()

    def _reopen(self) -> None:
        """Connect again; at a bad address, or without a descriptor left, go on after a pause."""
        try:
            self.open()
        except (zmq.ZMQError, OSError) as error:
            self.error = f"cannot connect: {error.strerror}"
            pause_s = max(self._route.advance(), RECONNECT_DELAY_S)
            self.reconnect_at = self._monotonic() + pause_s
        else:
            self.reconnect_at = None

    def _look_for_life(self) -> None:
        if self.reconnect_at is not None:
            return
        now = self._monotonic()
        if not self._is_welcome:
            if self._attempt_until is not None and now >= self._attempt_until:
                self.drop("the server does not answer", RECONNECT_DELAY_S)
            return
        silent_s, lost_s = now - self._heard_at, self._options.lost_after_s
        if silent_s < self.probe_s:
            self._scout.close()
        elif not self._session.expects_frames:
            self._note_heard()
        elif not self._is_probed:
            self._is_probed = True
            self._send(self._session.probe())
            self._check_readable()
        elif silent_s >= lost_s * _GIVE_UP_PART:
            self.drop("the server is silent", RECONNECT_DELAY_S)
        elif self._has_choice and silent_s >= lost_s * _SCOUT_PART:
            others = self._route.others()
            if self._scout.look(others, self._session.trial_hello):
                self.drop("the server is silent, another is active", 0, go_to=self._scout.address)

    def _open_scout(self, address: str) -> "zmq.Socket[bytes]":
        socket = self._context.socket(zmq.DEALER)
        self._options.configure(socket, address)
        with contextlib.suppress(zmq.ZMQError):  # at a bad address no server answers
            socket.connect(address)
        return socket

    def send_call(self, request: RequestType, call: Call) -> bool:
        """Send a call; False if calls are unanswered, or cannot be sent."""
        messages = self._session.begin(request, call)
        if messages is None:
            return False
        self.silent_since = self._monotonic()
        for message in messages:
            self._send(message)
        self._check_readable()
        return True

    def send_messages(self) -> None:
        """Send the session's messages."""
        if self.reconnect_at is None:
            self.send_all(self._session.take_messages())
            self._check_readable()

    def _check_readable(self) -> None:
        if self._sent:
            self._sent = False
            if not self.frames_pending:
                self.frames_pending = self._is_readable()

    def _is_readable(self) -> bool:
        return bool(int(self._socket.getsockopt(_EVENTS)) & _POLLIN)

    def _read_monitor(self) -> None:
        self.monitor_pending = False
        while self.reconnect_at is None and self._monitor.poll(0):
            event, value = recv_monitor_message(self._monitor)
            if event == zmq.EVENT_CONNECTED:
                self._connected = value
                OPEN.add(self._connected, self._route.current)
            elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
                self.error = ""
                self._send(self._session.on_connected())
            elif event == zmq.EVENT_DISCONNECTED:
                self._on_disconnected()
            elif event == zmq.EVENT_CONNECT_RETRIED:
                reason = f"no server can be reached at {self._route.current}"
                self.drop(reason, RECONNECT_DELAY_S)
            else:
                self.drop("the server refused the connection", RECONNECT_DELAY_S)

    def _on_disconnected(self) -> None:
        self.frames_pending = True
        while self.frames_pending:
            self._receive()  # what the server said before the end still counts
        if self.error:  # the handshake never succeeded: back off
            self.drop(self.error, RECONNECT_DELAY_S)
        else:
            self.drop("the connection was lost", 0, lost=True)

    def drop(
        self,
        reason: str,
        seconds: float,
        *,
        lost: bool = False,
        stay: bool = False,
        go_to: str = "",
    ) -> None:
        """Close the socket; open a new socket after `seconds`, or at once at another address.

        `lost`: a request may be the cause. `stay`: keep the address. `go_to`: an address with a
        welcome.
        """
        if self.reconnect_at is not None:
            return
        self.error = reason
        if self._away_since is None:
            self._away_since = self._monotonic()
        self._scout.close()
        self._session.connection_lost = False
        self._disconnect(lost)
        self.frames_pending = self.monitor_pending = False
        if not stay:
            seconds = self._next_address(seconds, go_to)
        self.reconnect_at = self._monotonic() + seconds

    def _next_address(self, seconds: float, go_to: str) -> float:
        standby, self._session.standby = self._session.standby, None
        named = go_to or ("" if standby is None else standby.address)
        if self._has_choice or named:
            return self._route.advance(named, failed=not self._is_welcome)
        return seconds

    def _receive(self) -> None:
        frames: list[bytes] = []
        try:
            while len(frames) < FRAMES_PER_STEP:
                frames.append(self._socket.recv(_NOBLOCK))
                if not self._is_readable():  # cheaper than a recv that raises Again
                    self.frames_pending = self._sent = False
                    break
        except zmq.Again:
            self.frames_pending = self._sent = False
        for frame in frames:
            message = _decode(frame)
            if message is not None:
                self.send_all(self._session.handle(message))
        if frames:
            self.note_frames()

    def note_frames(self) -> None:
        """Note that frames have come; a standby's are no answers."""
        if self._session.standby is not None:
            return
        self._away_since = None
        if not self._is_welcome and self._session.welcome is not None:
            self._is_welcome = True
            self._route.note_welcome()
        self._note_heard()
        self.silent_since = self._monotonic()

    def _note_heard(self) -> None:
        self._heard_at = self._monotonic()
        self._is_probed = False

    def receive_one(self) -> Any:
        """Receive and decode the next message, if any."""
        try:
            frame = self._socket.recv(zmq.NOBLOCK)
        except zmq.Again:
            self.frames_pending = self._sent = False
            return None
        self._note_heard()
        self._sent, self.frames_pending = True, False  # receiving may have consumed the event
        self._check_readable()
        return _decode(frame)

    def send_all(self, frames: Iterable[bytes]) -> None:
        """Send frames."""
        for frame in frames:
            self._send(frame)

    def _send(self, frame: bytes) -> None:
        # Only acknowledgements could exceed the socket's high-water mark, as the session limits
        # unanswered messages. The server then sends the outcomes again.
        self._sent = True
        try:
            self._socket.send(frame, _NOBLOCK)
        except zmq.Again:
            pass


def _decode(frame: bytes) -> Any:
    try:
        return encoding.decode_answer(frame)
    except encoding.NOT_A_MESSAGE as error:
        log.warning("the server sent a message that is not of protocol %d: %s", VERSION, error)
        return None
