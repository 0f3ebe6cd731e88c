"""Network: the thread that owns the socket, between clients and store loop.

The thread sleeps on the descriptors of its mailbox and its socket. The socket's is edge-triggered:
readable once for new frames, until any call on the socket. So the thread reads all frames before it
sleeps.

The thread waits for no client, and for the disk only with little to do (see `LentStore`). While
much is in flight, it leaves the socket unread (backpressure).

The starting thread calls `listen`, the network thread all else; any thread may use the mailbox and
the counters.
"""

import contextlib
import logging
import math
import select
from collections.abc import Callable
from typing import Final

import zmq

from mq import Mailbox
from purgatory.service.auth.authenticator import SocketSecurity
from purgatory.service.platform import REAL_PLATFORM, Platform
from purgatory.service.server.commands import (
    CloseServer,
    JournalConfirmed,
    NetworkCommand,
    OutcomeFrame,
    ReloadAllowList,
    StopStoreLoop,
    StoreLoopStopped,
    StoreReleased,
    TransactionReplies,
)
from purgatory.service.server.network.accept_gate import IDLE_CHECK_S, AcceptGate
from purgatory.service.server.network.connections import Connections
from purgatory.service.server.network.flood_gates import CLOSED_S
from purgatory.service.server.network.lent_store import LentStore
from purgatory.service.server.network.reception import Reception
from purgatory.service.server.network.router_socket import bind, set_options
from purgatory.service.server.store_loop import StoreLoop
from purgatory.service.server.validation import RequestValidator
from timingwheel.lowlevel import reduce_timer_slack

log: logging.Logger = logging.getLogger(__name__)

_POLLIN: Final = int(zmq.POLLIN)
# Frames and seconds between looks at the mailbox: while the store thread computes, a frame can take
# a millisecond.
FRAMES_PER_READ = 256
READ_S = 0.001
# Bytes of requests in flight, at most; and while several clients have requests, as unread requests
# wait for these. Then waiting messages are not taken beyond the last number, unless none was taken
# for so many seconds.
IN_FLIGHT_BYTES = 8 << 20
SHARED_IN_FLIGHT_BYTES = 1 << 20
LARGE_IN_FLIGHT_BYTES = 64 << 10
PATIENCE_S = 0.05
# Bytes of waiting messages; beyond, nothing is read.
WAITING_BYTES = 32 << 20
# Seconds between reads while a connection has too many messages: other threads work.
FLOOD_PAUSE_S = 0.001
# While several clients have requests and the store thread works: on two cores, a client that sends
# on would keep the store thread from the GIL (see benchmarks/DIARY.md).
SHARED_PAUSE_S = 0.0004
# Frames in the socket's queue to a connection.
SOCKET_FRAMES = 64
# Most seconds between looks at blocked connections.
RETRY_S = 0.1
# Seconds of silence before a ping, and between looks.
IDLE_S = 30.0
# Seconds between pings of workers: other workers get a lost worker's jobs.
WORKER_PING_S = 1.0


class Network:
    """The network thread of a server; calls `ended` last, with the error if any."""

    def __init__(
        self,
        validator: RequestValidator,
        mailbox: Mailbox[NetworkCommand],
        store_loop: StoreLoop,
        ended: Callable[[Exception | None], None],
        *,
        max_clients: int,
        platform: Platform = REAL_PLATFORM,
        guard: Callable[[], bool] | None = None,
    ) -> None:
        self.mailbox = mailbox
        self._guard = guard
        self._monotonic: Callable[[], float] = platform.monotonic
        self._validator = validator
        self._store = LentStore(store_loop, self._on_own_answer)
        self._requests = store_loop.requests
        self._ended = ended
        self._max_clients = max_clients
        self._socket: zmq.Socket[bytes]
        self.descriptors: tuple[int, int]
        self.gate: AcceptGate
        self._security: SocketSecurity | None = None
        self.connections: Connections
        self.reception: Reception
        self._waiting_late = 0.0  # when waiting messages must be taken, monotonic
        # Whether the socket may have frames though not readable: reading stopped early, or a send
        # consumed the event.
        self._unread = False
        self._now = self._monotonic()  # of the last wake-up
        self._next_ping = self._now + IDLE_S
        self._next_worker_ping = 0.0
        self._close_deadline = math.inf  # set when the server closes
        self._stopped: StoreLoopStopped | None = None  # set when the store loop has ended

    def listen(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        address: str,
        security: "SocketSecurity | None",
        most_descriptors: int = 0,
    ) -> str:
        """Make and bind the socket; return its address with the port. Raises ServerError.

        `most_descriptors`: with more, no connection is accepted; 0: no limit.
        """
        router = self._socket = context.socket(zmq.ROUTER)
        self._security = security
        self.connections = Connections(router, self._store.take, self._monotonic, self._guard)
        self.reception = Reception(
            self._validator,
            self.connections,
            self._store.take,
            security=security,
            max_clients=self._max_clients,
        )
        set_options(router, address, SOCKET_FRAMES, 4 * self._validator.limits.message_bytes)
        try:
            if security is not None:
                security(context, router)
            listener = bind(router, address, finds_listener=most_descriptors > 0)
        except BaseException:
            router.close(0)
            raise
        self.descriptors = self.mailbox.fileno(), router.FD
        self.gate = AcceptGate(
            listener, most_descriptors, self.descriptors[0], self.reception.gates
        )
        return router.getsockopt_string(zmq.LAST_ENDPOINT)

    def run(self) -> None:
        """Run until the server is closed or has failed."""
        error: Exception | None = None
        try:
            self._serve()
        except Exception as failure:
            log.exception("the network thread ends")
            error = failure
            self._store.stop()
        finally:
            self.shut_down(error)

    def _serve(self) -> None:
        reduce_timer_slack()
        reception = self.reception
        mailbox, frames = self.descriptors
        while not self.finished():
            timeout = self.sleep_seconds()
            is_told = self._may_read() and not self._unread  # else frames would end a pause
            self.step(_sleep([mailbox, frames] if is_told else [mailbox], timeout))
            if not reception.closing:
                self.gate.check(behind=self._unread or reception.waiting.bytes > 0)

    def step(self, ready: list[int]) -> None:
        """Do all present work, given readable descriptors; never sleeps."""
        mailbox, _ = self.descriptors
        for descriptor in ready:
            self._unread = self._unread or descriptor != mailbox
            while descriptor == mailbox and (command := self.mailbox.recv(0)) is not None:
                self._handle_command(command)
        self._now = self._monotonic()
        if self.connections.blocked:
            self.connections.retry_blocked()
        self._ping_idle()
        waiting = self.reception.waiting
        if self._requests.is_shared or waiting.is_shared:
            waiting.begin(is_shared=self._requests.is_shared)
        if self._has_unread() and self._may_read():
            self._read()
        if self._may_take_waiting():
            self._take_waiting()
        self.reception.gates.open(is_drained=not self._unread)
        self._store.dispatch(self._now, is_closing=self.reception.closing)

    def shut_down(self, error: Exception | None = None) -> None:
        """Close socket and mailbox, and call `ended`."""
        self._socket.close(0 if self._stopped is None else int(1000 * self._time_left(1.0)))
        self.mailbox.close()
        self._ended(error or (self._stopped.error if self._stopped else None))

    def _may_read(self) -> bool:
        waiting = self.reception.waiting
        most = SHARED_IN_FLIGHT_BYTES if waiting.is_shared else IN_FLIGHT_BYTES
        return self._store.in_flight < most and waiting.bytes < WAITING_BYTES

    def _may_take_waiting(self) -> bool:
        waiting = self.reception.waiting
        if not waiting.bytes:
            return False
        if not waiting.is_shared:
            return self._store.in_flight < IN_FLIGHT_BYTES
        is_late = self._now >= self._waiting_late and self._may_read()
        return is_late or self._store.in_flight < LARGE_IN_FLIGHT_BYTES

    def _has_unread(self) -> bool:
        if self.connections.sent and not self._unread:
            self.connections.sent = False
            self._unread = self._is_readable()
        return self._unread

    def _is_readable(self) -> bool:
        return bool(int(self._socket.getsockopt(zmq.EVENTS)) & _POLLIN)

    def sleep_seconds(self) -> float:
        """See `Loop`."""
        if self._store.commands or self._may_take_waiting():
            return 0.0
        if self._has_unread() and self._may_read():
            return self._pause_seconds()
        timeout = RETRY_S if self.connections.blocked else IDLE_CHECK_S
        if self.connections.workers:
            timeout = min(timeout, WORKER_PING_S)
        if self.reception.gates.closed:
            timeout = min(timeout, CLOSED_S)
        if not self.gate.is_open:  # opens when connections end, silently
            timeout = min(timeout, RETRY_S)
        due = self._store.sleep_seconds(self._monotonic(), is_closing=self.reception.closing)
        return self._time_left(min(timeout, due))

    def _pause_seconds(self) -> float:
        if self.reception.gates.closed:
            return FLOOD_PAUSE_S
        is_shared = self._store.with_store_thread and self._requests.is_shared
        return SHARED_PAUSE_S if is_shared else 0.0

    def _time_left(self, most: float) -> float:
        if not self.reception.closing:
            return most
        return max(0.0, min(most, self._close_deadline - self._monotonic()))

    def finished(self) -> bool:
        """See `Loop`."""
        if self._stopped is not None and not self.connections.backlog:
            return True
        return self.reception.closing and self._monotonic() >= self._close_deadline

    def _on_own_answer(self, answer: NetworkCommand) -> None:
        if isinstance(answer, TransactionReplies):
            # A request before its sender has an answer is another client's.
            self._unread = self._unread or self._is_readable()
            if self._unread:
                self._store.note_crowd(self._now)
        self._handle_command(answer)

    def _handle_command(self, command: NetworkCommand) -> None:
        if isinstance(command, TransactionReplies):
            self._on_replies(command)
        elif isinstance(command, OutcomeFrame):
            self.connections.send_fetched(command)
        elif isinstance(command, CloseServer):
            self._close(command)
        elif isinstance(command, ReloadAllowList):
            if self._security is not None:
                self.connections.apply_access(self._security)
        elif isinstance(command, StoreReleased):
            for answer in command.answers:
                self._handle_command(answer)
            self._store.with_store_thread -= command.commands
        elif isinstance(command, JournalConfirmed):
            self._store.commands.append(command)
        else:
            self.reception.closing = True
            self._stopped = command

    def _on_replies(self, replies: TransactionReplies) -> None:
        connections = self.connections
        self._store.in_flight -= replies.size
        for route, frame in replies.replies:
            connection = connections.by_route.get(route)
            if connection is not None:
                connections.send(connection, frame)
        for push in replies.pushes:
            connections.push(push)

    def _close(self, command: CloseServer) -> None:
        self.reception.closing = True
        # A second close gives no more time.
        self._close_deadline = min(self._close_deadline, self._monotonic() + command.seconds)
        with contextlib.suppress(zmq.ZMQError):
            self.connections.sent = True  # unbind may consume the event as a send does
            self._socket.unbind(self._socket.getsockopt_string(zmq.LAST_ENDPOINT))
        self._store.commands.append(StopStoreLoop())

    def _read(self) -> None:
        end = self._monotonic() + READ_S
        for n in range(FRAMES_PER_READ):
            if not self._may_read() or (n and self._monotonic() >= end):
                return
            try:
                route = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                self._unread = self.connections.sent = False
                return
            frame = self._socket.recv(copy=False)
            others = self._socket.recv_multipart() if frame.more else []
            self.reception.on_frame(route, frame, others, self._now)
            if not self._is_readable():  # cheaper than a recv that raises Again
                self._unread = self.connections.sent = False
                return

    def _take_waiting(self) -> None:
        end = self._monotonic() + READ_S
        self._waiting_late = self._now + PATIENCE_S
        while True:
            self.reception.take_waiting(self._now)
            if not self._may_take_waiting() or self._monotonic() >= end:
                return

    def _ping_idle(self) -> None:
        if self._now >= self._next_ping:
            self._next_ping = self._now + IDLE_S
            self.connections.ping_idle(self._now - IDLE_S)
        if self.connections.workers and self._now >= self._next_worker_ping:
            self._next_worker_ping = self._now + WORKER_PING_S
            self.connections.ping(list(self.connections.workers.values()))


def _sleep(descriptors: list[int], seconds: float) -> list[int]:
    try:
        return select.select(descriptors, [], [], seconds)[0]  # the most precise
    except ValueError:  # too large a descriptor; poll(2) sleeps a millisecond longer
        poller = select.poll()
        for descriptor in descriptors:
            poller.register(descriptor, select.POLLIN)
        return [descriptor for descriptor, _ in poller.poll(math.ceil(1000 * seconds))]
