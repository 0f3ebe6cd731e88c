"""Servers of one store in a simulated world: active, standby, silent or gone, as a test says.

They speak as much of the protocol as `complete` and the probe of a client need. What was done lies
in the store, as it does in a database: a request that was done is answered again, and not done
again.
"""

from purgatory.service.client.client import Client
from purgatory.service.encoding import decode_request, encode
from purgatory.service.protocol import (
    VERSION,
    Complete,
    Completed,
    Failure,
    Hello,
    Query,
    States,
    Welcome,
)
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.world import World
from tests.testing.step_server import limits


class Member:
    """One server, at `address` of the machine `host`; it is down at first."""

    def __init__(self, servers, host, address):
        self.host = host
        self.address = address
        self.answers = True  # else it is stopped, or its guard lets nothing leave
        self.names = None  # as a standby: the address of the active server; None: it is active
        self.hellos = []  # the world's time of each
        self._servers = servers
        self._connections = {}

    def up(self, *, standby_of=None, answers=True):
        """Listen: active, or as a standby that names an address ("" if it knows none)."""
        self.names, self.answers = standby_of, answers
        self._servers.network.listen(self.address, self)

    def down(self):
        """End as a process that is killed does."""
        self._servers.network.stop_listening(self)
        for connection in list(self._connections):
            self._servers.network.break_off(connection)

    def on_connected(self, connection):
        """Have a connection."""
        self._connections[connection] = ""

    def on_broken(self, connection):
        """Have it no more."""
        self._connections.pop(connection, None)
        self._servers.network.forget(connection)

    def on_frame(self, connection, frame):
        """Answer a request, unless nothing leaves this server."""
        request = decode_request(frame) if frame is not None else None
        if isinstance(request, Hello):
            self.hellos.append(self._servers.world.now_ns / 1e9)
        if request is not None and self.answers and connection in self._connections:
            answer = self._answer(connection, request)
            if answer is not None:
                connection.to_dialer.send(encode(answer))

    def _answer(self, connection, request):
        if self.names is not None:
            text = f"standby of {self.names}" if self.names else "standby: no server is active"
            return Failure(request.seq, "standby", text)
        if isinstance(request, Hello):
            self._connections[connection] = request.session
            return Welcome(request.seq, VERSION, self.host, limits())
        if isinstance(request, Query):
            return States(request.seq, [])
        if isinstance(request, Complete):
            return self._servers.complete(self._connections[connection], request)
        return None


class SimulatedMembers:
    """Servers named `hosts`, each at port 7411 of its own machine, and clients of them."""

    def __init__(self, seed, hosts=("a", "b")):
        self.world = World(seed)
        self.network = SimulatedNetwork(self.world)
        self.members = {host: Member(self, host, address_of(host)) for host in hosts}
        self.done = []  # the keys that were completed, in order
        self.lost_answers = 0  # so many of the next answers are lost: the server is killed
        self._replies = {}
        self._clients = []

    def complete(self, session, request):
        """Complete keys once; returns the answer."""
        which = session, request.seq
        if which not in self._replies:
            self.done += [each.key for each in request.completions]
            self._replies[which] = Completed(request.seq, [1] * len(request.completions))
            if self.lost_answers:
                self.lost_answers -= 1
                return None
        return self._replies[which]

    def client(self, addresses=None, **options):
        """Return a client of these addresses, by default all."""
        text = addresses or ",".join(each.address for each in self.members.values())
        process = Process(Machine(self.world, f"client-{len(self._clients)}"), self.network)
        made = Client(text, platform=process, name="c", timeout=600.0, **options)
        self._clients.append(made)
        return made

    def close(self):
        """Close the clients."""
        for client in self._clients:
            client.close(0)


def address_of(host):
    """Return where a server listens."""
    return f"tcp://{host}:7411"
