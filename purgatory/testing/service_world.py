"""ServiceWorld: a server and its clients for a test, in a simulated world.

No thread, socket or file is real, and nothing waits: time passes in `advance`, and in calls of
clients waiting for an answer. The seed decides how long messages take. Not thread-safe.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Self

from purgatory.service.client.client import Client
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS, ServerHost
from purgatory.testing.world.world import NS_PER_S, World
from timingwheel.lowlevel import to_ns

_SERVER: Final = "server"


class ServiceWorld:
    """A world with a server; also a context manager."""

    def __init__(self, seed: int = 0) -> None:
        self._world = World(seed)
        self._network = SimulatedNetwork(self._world)
        self._server = ServerHost(Machine(self._world, _SERVER), self._network)
        self._machines: dict[str, Machine] = {}
        self._clients: list[tuple[Client, Process]] = []

    @property
    def now(self) -> float:
        """Seconds since the world began."""
        return self._world.now_ns / NS_PER_S

    def client(self, name: str, **options: Any) -> Client:
        """Return a client of the server, in a process of its own on the machine `name`.

        `options`: as for `Client`. Time passes in waiting calls, and in `result` and `exception` of
        the futures of `defer`, but not in `concurrent.futures.wait`.
        """
        if name == _SERVER:
            raise ValueError(f"name is {name!r}, which is the server's")
        machine = self._machines.setdefault(name, Machine(self._world, name))
        process = Process(machine, self._network)
        made = Client(ADDRESS, name=name, platform=process, **options)
        self._clients.append((made, process))
        return made

    def advance(self, seconds: float | timedelta) -> None:
        """Let time pass. Raises ValueError for less than 0 seconds."""
        self._world.run(to_ns(seconds, "seconds") / NS_PER_S)

    def run_until(self, done: Callable[[], object], seconds: float = 60.0) -> bool:
        """Let time pass until `done`, for `seconds` at most; return `done()`."""
        return self._world.run_until(done, seconds)

    def crash(self, seconds: float | timedelta = 1.0) -> None:
        """Kill the server, as SIGKILL does; it starts again after `seconds`."""
        down_ns = to_ns(seconds, "seconds")
        self._server.kill()
        self._server.stay_down(down_ns)

    def lose_power(self, seconds: float | timedelta = 1.0) -> None:
        """Cut the power of the server's machine: unsynced data may be lost."""
        down_ns = to_ns(seconds, "seconds")
        self._server.lose_power()
        self._server.stay_down(down_ns)

    def kill(self, client: Client) -> None:
        """Kill the process of a client."""
        for made, process in self._clients:
            if made is client:
                process.kill()

    def partition(self, name: str = _SERVER) -> None:
        """Cut a machine off the network until `heal`: a client's, or the server's."""
        self._check_name(name)
        self._network.cut_off(name)

    def heal(self, name: str = _SERVER) -> None:
        """Take back `partition`."""
        self._check_name(name)
        self._network.heal(name)

    def _check_name(self, name: str) -> None:
        if name != _SERVER and name not in self._machines:
            expected = ", ".join(map(repr, [_SERVER, *self._machines]))
            raise ValueError(f"name is {name!r}; expected one of {expected}")

    def fill_disk(self) -> None:
        """Let all writes of the server fail until `free_disk`."""
        self._server.machine.disk.fail_steps(1.0, full=True)

    def free_disk(self) -> None:
        """Take back `fill_disk`."""
        self._server.machine.disk.work_well()

    def close(self) -> None:
        """End the world. Idempotent."""
        for _, process in self._clients:
            process.kill()
        self._server.kill()
        self._server.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
