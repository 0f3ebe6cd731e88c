"""StandbySocket: tells clients the address of the active server, at this server's address.

The thread `service-standby` owns the socket; another thread starts and closes the `StandbySocket`.
"""

import contextlib
import logging
from collections.abc import Callable
from typing import Final

import zmq

from _purgatory_cpython.threads import InterruptibleThread
from mq import Mailbox
from purgatory.service.auth.authenticator import SocketSecurity
from purgatory.service.cluster.cluster_status import standby_message
from purgatory.service.encoding import encode, seq_of
from purgatory.service.errors import Standby
from purgatory.service.protocol import Failure
from purgatory.service.server.network.accept_gate import AcceptGate
from purgatory.service.server.network.flood_gates import CLOSED_S, FloodGates
from purgatory.service.server.network.router_socket import bind, set_options
from purgatory.service.server.network.unfinished_messages import looks_at_peers
from purgatory.service.server.network.unread_connections import UnreadConnections
from purgatory.service.server.watchdog import Watchdog

log: logging.Logger = logging.getLogger(__name__)

# Most answers queued for a connection, and messages answered at once.
_FRAMES: Final = 16
# Most bytes of a client's message.
_MESSAGE_BYTES: Final = 4 << 20
# Between two looks at the connections.
_LOOK_MS: Final = 1000
_CLOSED_MS: Final = int(1000 * CLOSED_S)


class StandbySocket:
    """Binds `address`; `active` returns the address of the active server, empty without any.

    `secure`: see `SocketSecurity`. With more than `most_descriptors` descriptors open, the socket
    accepts no connection; 0: no limit. `max_memory`: bytes, see `looks_at_peers`.
    """

    def __init__(
        self,
        address: str,
        active: Callable[[], str],
        *,
        secure: "SocketSecurity | None" = None,
        most_descriptors: int = 0,
        max_memory: int = 0,
    ) -> None:
        self._active = active
        self._secure = secure
        self._most = most_descriptors
        self._wake: Mailbox[bool] = Mailbox()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._router = self._context.socket(zmq.ROUTER)
        self._gate: AcceptGate
        self._flood_gates = FloodGates(UnreadConnections(), is_encrypted=secure is not None)
        #: The bound address, with its port.
        self.address: str = self._bind(address)
        self._thread = InterruptibleThread(target=self._run, name="service-standby", daemon=True)
        self._watchdog = Watchdog(
            looks_at_peers(
                self.address,
                self._flood_gates,
                message_bytes=_MESSAGE_BYTES,
                max_memory=max_memory,
                is_crowded=lambda: not self._gate.is_open,
            )
        )
        self._thread.start()
        self._watchdog.start()

    def _bind(self, address: str) -> str:
        set_options(self._router, address, _FRAMES, _MESSAGE_BYTES)
        try:
            if self._secure is not None:
                self._secure(self._context, self._router)
            listener = bind(self._router, address)
        except BaseException:
            self._release()
            raise
        self._gate = AcceptGate(listener, self._most, self._wake.fileno(), self._flood_gates)
        return self._router.getsockopt_string(zmq.LAST_ENDPOINT)

    def _run(self) -> None:
        try:
            poller = zmq.Poller()
            poller.register(self._router, zmq.POLLIN)
            poller.register(self._wake.fileno(), zmq.POLLIN)
            while not self._wake.peek():
                poller.poll(_CLOSED_MS if self._flood_gates.closed else _LOOK_MS)
                self._answer_all()
                if self._most:
                    self._gate.check(behind=not self._flood_gates.is_drained)
        except Exception:
            log.exception("the thread of the standby ends")

    def _answer_all(self) -> None:
        """Answer present messages; a peer that does not read gets no answer."""
        for _ in range(_FRAMES):
            try:
                route = self._router.recv(zmq.NOBLOCK)
            except zmq.Again:
                self._flood_gates.open(is_drained=True)
                return
            frame = self._router.recv(copy=False)
            others = self._router.recv_multipart() if frame.more else []
            self._flood_gates.note(route, frame, others)
            if self._secure is not None and not self._secure.access_of(str(frame.get("User-Id"))):
                continue
            failure = Failure(seq_of(frame.bytes), Standby.code, standby_message(self._active()))
            with contextlib.suppress(zmq.ZMQError):
                self._router.send(route, zmq.SNDMORE | zmq.NOBLOCK)
                self._router.send(encode(failure), zmq.NOBLOCK)
        self._flood_gates.open(is_drained=False)

    def close(self) -> None:
        """End the thread, and release the address. Idempotent."""
        if not self._wake.closed:
            self._wake.send(True)
            self._thread.join()
            self._watchdog.close()
            self._release()

    def _release(self) -> None:
        self._wake.close()
        if self._secure is not None:
            self._secure.close()
        self._context.destroy(0)
