"""One address before several servers, for clients that know one: it leads to the active server.

A thread asks each server again and again; where the answer is a welcome, connections go.
"""

import threading

import zmq

from purgatory.service.client import session
from purgatory.service.encoding import decode_answer, encode
from purgatory.service.errors import Standby
from purgatory.service.protocol import VERSION, Hello, Welcome
from tests.drill.hosts import Host
from tests.postgres.proxy import Link, Proxy

_ASK_EVERY_S = 0.05
_PATIENCE_MS = 200


class Front:
    """The address of some hosts."""

    def __init__(self, hosts: list[Host]) -> None:
        if Standby.code not in session._TRANSIENT_CODES:
            session._TRANSIENT_CODES += (Standby.code,)
        self._hosts = hosts
        self._proxy = Proxy(hosts[0].port)
        self.address = f"tcp://127.0.0.1:{self._proxy.port}"
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._watch, args=(host,)) for host in hosts]
        for thread in self._threads:
            thread.start()

    def _watch(self, host: Host) -> None:
        """Ask one host again and again; each time by a new connection, which has nothing queued."""
        context = zmq.Context()
        while not self._stop.wait(_ASK_EVERY_S):
            with context.socket(zmq.DEALER) as socket:
                socket.setsockopt(zmq.LINGER, 0)
                socket.connect(host.address)
                socket.send(encode(Hello(1, VERSION, "front", "", False)))
                if socket.poll(_PATIENCE_MS) and self._is_welcome(socket.recv()):
                    self._lead_to(host)
        context.destroy(0)

    def _is_welcome(self, frame: bytes) -> bool:
        return isinstance(decode_answer(frame), Welcome)

    def _lead_to(self, host: Host) -> None:
        if self._proxy.port_of_server != host.port:
            self._proxy.port_of_server = host.port
            self._proxy.set(Link.CUT)
            self._proxy.set(Link.FORWARD)

    def close(self) -> None:
        """End."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
        self._proxy.close()
