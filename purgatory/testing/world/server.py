"""ServerHost: a machine with a server, started again whenever it does not run.

A `ServerProcess` is a `Server` whose parts the world steps: the network thread sleeps on the
descriptors of mailbox and socket, and the store thread is a `Reaper`.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.config import Config
from purgatory.service.server.commands import CloseServer
from purgatory.service.server.journal.journal_sink import JournalSink
from purgatory.service.server.network.network import Network
from purgatory.service.server.server import ServerParts, build_parts
from purgatory.service.server.store_loop import StoreLoop
from purgatory.service.server.transactions.transaction_observer import TransactionObserver
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from purgatory.testing.world.database_files import SimulatedDatabaseFiles
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.world import NS_PER_S

ADDRESS: Final = "tcp://server:7411"
DATABASE: Final = Path("/data/purgatory.db")
# Most seconds of a transaction, which takes no time in a simulation.
_NO_LIMIT_S: Final = 1e9
CONFIG = Config(
    max_keys=10,
    max_text_bytes=1000,
    max_payload_bytes=10_000,
    max_pending_per_client=100_000,
    max_pending=1_000_000,
    max_timeout=1e6,
    max_clients=10_000,
    max_memory=0,
)
# Nanoseconds between two looks of the service manager.
_LOOK_NS = NS_PER_S


class ServerHost:
    """The machine of a server.

    `portion`: operations of an event that a transaction ends; 0: the default.
    """

    portion: int = 0

    def __init__(self, machine: Machine, network: SimulatedNetwork) -> None:
        self.machine = machine
        self._world = machine.world
        self._network = network
        self._process: ServerProcess | None = None
        self._look_planned = False
        self._down_until_ns = 0  # not started before
        self.starts: int = 0
        self.start()

    @property
    def process(self) -> "ServerProcess | None":
        """The server, if it runs."""
        process = self._process
        return process if process is not None and process.running else None

    def start(self) -> None:
        """Start the server unless it runs, now and at each look."""
        if self.process is None:
            self.note_trouble(0)
            self._check_failure()
            self._try_to_start()
        self._plan_look(_LOOK_NS)

    def _look(self) -> None:
        self._look_planned = False
        not_before_ns = max(self._down_until_ns, self.machine.awake_at_ns)
        if self._world.now_ns < not_before_ns:
            self._plan_look(not_before_ns - self._world.now_ns)
        else:
            self.start()

    def _plan_look(self, delay_ns: int) -> None:
        if not self._look_planned:
            self._look_planned = True
            self._world.after(delay_ns, self._look)

    def stay_down(self, delay_ns: int) -> None:
        """Start no server for so long."""
        self._down_until_ns = self._world.now_ns + delay_ns

    def _try_to_start(self) -> None:
        self.kill()
        process = self._process = ServerProcess(self.machine, self._network)
        try:
            sink, observer = self.make_sink(process), self.make_observer(process)
            process.start(sink, observer, self.portion)
            self.starts += 1
            self._world.note("server: started")
            self.note_start(process)
        except StoreError:
            if process.alive and not self.machine.disk.is_faulty:
                raise
            self.kill()

    def make_sink(self, process: Process) -> JournalSink | None:
        """Return the journal of a process, if any."""
        del process
        return None

    def make_observer(self, process: "ServerProcess") -> TransactionObserver | None:
        """Return the observer of a process's transactions, if any."""
        del process
        return None

    def note_start(self, process: "ServerProcess") -> None:
        """Do nothing; a simulation notes the server's time."""

    def note_trouble(self, lasting_ns: int) -> None:
        """Do nothing; a simulation notes the server's absence for at least so long."""

    def _check_failure(self) -> None:
        failure = None if self._process is None else self._process.failure
        if failure is not None and not isinstance(failure, StoreError):
            raise failure

    def kill(self) -> None:
        """Kill the server, if it runs."""
        if self._process is not None and self._process.alive:
            self._world.note("server: gone")
            self.note_trouble(_LOOK_NS)
            self._process.kill()

    def discard(self) -> None:
        """Release SQLite's resources, at the end of the world."""
        if self._process is not None:
            self._process.discard()

    def lose_power(self) -> None:
        """Cut the power of the machine."""
        self.kill()
        self.machine.lose_power()


class ServerProcess(Process):
    """A server, from `start` until it is closed, killed, or fails."""

    def __init__(self, machine: Machine, network: SimulatedNetwork) -> None:
        super().__init__(machine, network)
        #: The error that ended the server, if any.
        self.failure: Exception | None = None
        self.ended: bool = False
        self.started: bool = False
        self.parts: ServerParts
        self._files = SimulatedDatabaseFiles(self.world, machine.disk, self.handles)

    def start(
        self,
        sink: JournalSink | None = None,
        observer: TransactionObserver | None = None,
        portion: int = 0,
    ) -> None:
        """Load the disk, listen, and start the threads, unless killed meanwhile. Raises StoreError.

        `portion`: see `ServerHost`.
        """
        store = SqliteStore(DATABASE, connect=self._files.connect, files=self._files)
        self.parts = build_parts(
            store,
            CONFIG,
            stats=self._stats,
            ended=self._end,
            sink=sink,
            platform=self,
            clocks=self.machine.clocks(),
            observer=observer,
        )
        store_loop = self.parts.store_loop
        store_loop.requests.seconds = store_loop.read_seconds = _NO_LIMIT_S
        if portion:
            store_loop.state.portion = portion
        store_loop.start()
        if self.alive:
            self.parts.network.listen(self.context(), ADDRESS, None)
            self._start_threads(store_loop, self.parts.network)

    def _start_threads(self, store_loop: StoreLoop, network: Network) -> None:
        store_thread = self.thread(_StoreThread(store_loop), "service-store")
        self.descriptors.watch(store_loop.mailbox.fileno(), store_thread.wake)
        network_thread = self.thread(_NetworkThread(network, self), "service-network")
        for descriptor in network.descriptors:
            self.descriptors.watch(descriptor, network_thread.wake)
        store_thread.start()
        network_thread.start()
        self.started = True

    def _stats(self) -> dict[str, int]:
        state = self.parts.store_loop.state
        return {
            "pending": state.purgatory.delayed,
            "unacknowledged": state.retention.unacknowledged,
            "held": len(state.held),
        }

    def _end(self, failure: Exception | None) -> None:
        self.failure = failure
        self.ended = True

    def close(self, seconds: float) -> None:
        """Begin to close, as SIGTERM does."""
        self.parts.network.mailbox.send(CloseServer(seconds))

    @property
    def running(self) -> bool:
        """Whether neither killed nor ended."""
        return self.alive and not self.ended

    def kill(self) -> None:
        super().kill()
        self.world.after(0, self.discard)  # not now: perhaps within a step of SQLite

    def discard(self) -> None:
        """Release SQLite's resources. Idempotent."""
        self._files.close()


class _NetworkThread:
    """The network thread, as a `Loop`."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._is_readable: Callable[[int], bool] = process.descriptors.is_readable
        self._descriptors = network.descriptors
        self.finished = network.finished
        self.sleep_seconds = network.sleep_seconds
        self.shut_down = network.shut_down

    def step(self) -> None:
        self._network.step([each for each in self._descriptors if self._is_readable(each)])


class _StoreThread:
    """The store thread, as a `Loop`: steps the store loop like a `Reaper`.

    The real thread sleeps within `wait`. Here `wait` returns, and the step ends.
    """

    def __init__(self, store_loop: StoreLoop) -> None:
        self._store_loop = store_loop
        self.finished = store_loop.finished
        self.shut_down = store_loop.shut_down

    def sleep_seconds(self) -> float | None:
        return 0.0 if self._store_loop.unreleased else None

    def step(self) -> None:
        store_loop = self._store_loop
        store_loop.wait(store_loop.max_sleep() if store_loop.unreleased else None)
        if store_loop.unreleased:
            store_loop.advance_clock()
