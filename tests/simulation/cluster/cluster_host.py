"""ClusterHost: a machine with a server that stands by, takes over, serves and is fenced.

What a member does is the product's: it looks by `LeaseWatch`, takes over by `take_over`, keeps the
lease by `Heartbeat`, serves while `StoreLease` is valid. Here the world steps these parts.
"""

from collections.abc import Callable
from typing import Final

from purgatory.errors import StoreError
from purgatory.service.cluster.heartbeat import Heartbeat
from purgatory.service.cluster.lease_watch import LeaseWatch
from purgatory.service.cluster.store_lease import StoreLease
from purgatory.service.cluster.takeover import take_over
from purgatory.service.server.server import build_parts
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS, CONFIG, ServerProcess
from tests.simulation.cluster.database_link import DatabaseLink
from tests.simulation.cluster.database_machine import DatabaseMachine
from tests.simulation.cluster.shared_store import SharedStore
from tests.simulation.cluster.simulated_row import SimulatedRow

#: Seconds without a sign of the holder after which a standby takes over.
TAKEOVER_AFTER_S: Final = 2.0
# Seconds between two looks.
_LOOK_S: Final = 0.1
_NO_LIMIT_S: Final = 1e9


class ClusterHost:
    """The machine `name` of a world, whose member is started again a moment after it was killed."""

    def __init__(
        self, machine: Machine, network: SimulatedNetwork, database: DatabaseMachine
    ) -> None:
        self.machine = machine
        self.network = network
        self.link: DatabaseLink = DatabaseLink(machine, database)
        self.member: Member | None = None
        self.takeovers: int = 0
        #: What ended a server that should not have ended.
        self.failure: Exception | None = None
        self.start()

    def start(self) -> None:
        """Start the member unless it runs."""
        if self.member is None or not self.member.alive:
            self.member = Member(self)

    def kill(self) -> None:
        """End the member and its server as SIGKILL does."""
        if self.member is not None:
            self.machine.world.note(f"{self.machine.name}: killed")
            self.member.kill()

    @property
    def server(self) -> ServerProcess | None:
        """The server that this host believes to be active; None: it stands by."""
        return None if self.member is None or not self.member.alive else self.member.server


class Member(Process):
    """A member, as a process, and as the loop of its thread."""

    def __init__(self, host: ClusterHost) -> None:
        super().__init__(host.machine, host.network)
        self._host = host
        self.server: ClusterServer | None = None
        self.lease: StoreLease | None = None
        self._heartbeat: Heartbeat | None = None
        self._handover = False
        self._sleep_s = 0.0
        self._stand_by(None)
        self._thread = self.thread(self, "service-member")
        self._thread.start()

    def _stand_by(self, handed_over: int | None) -> None:
        self._holder = self.new_id()[:16]
        self._row = SimulatedRow(self._host.link, self._holder, self.machine.name, self._is_alive)
        self._watch = LeaseWatch(
            self._holder, TAKEOVER_AFTER_S, handed_over=handed_over, boot_ns=self.boot_ns
        )

    def kill(self) -> None:
        """See `Process`."""
        super().kill()
        if self.server is not None:
            self.server.kill()

    # The loop of the thread.

    def finished(self) -> bool:
        """See `Loop`, as all of these."""
        return not self.alive

    def sleep_seconds(self) -> float | None:
        return self._sleep_s

    def shut_down(self) -> None:
        pass

    def step(self) -> None:
        try:
            self._sleep_s = _LOOK_S
            if self.server is None:
                self._look()
            else:
                self._keep()
        except StoreError as error:
            if self.alive and self.server is None:
                self._watch.failed()
                self.world.note(f"{self.machine.name}: {error}")

    def _look(self) -> None:
        seen = self._row.look()
        if not self._watch.saw(seen):
            return
        lease = take_over(
            self._row,
            seen,
            TAKEOVER_AFTER_S,
            stopped=lambda: not self.alive,
            boot_ns=self.boot_ns,
        )
        if lease is not None and self.alive:
            self._serve(lease)

    def _serve(self, lease: StoreLease) -> None:
        self._host.takeovers += 1
        self.world.note(f"{self.machine.name}: takes over with epoch {lease.epoch}")
        self._handover = False
        self.lease = lease
        self._heartbeat = Heartbeat(
            self._row, lease, TAKEOVER_AFTER_S, on_handover=self._note_handover
        )
        self.server = ClusterServer(self._host, self, lease)
        try:
            self.server.begin()
        except StoreError as error:
            self.world.note(f"{self.machine.name}: could not load: {error}")
            self._end(None)

    def _note_handover(self) -> None:
        self._handover = True

    def _keep(self) -> None:
        server, lease, heartbeat = self.server, self.lease, self._heartbeat
        assert server is not None
        assert lease is not None
        assert heartbeat is not None
        self._sleep_s = heartbeat.step()
        if lease.lost or server.ended:
            failure = server.failure
            if failure is not None and not isinstance(failure, StoreError):
                self._host.failure = failure
            self._end(None)
        elif self._handover:
            self._hand_over(server, lease)

    def _hand_over(self, server: "ClusterServer", lease: StoreLease) -> None:
        server.close(1.0)
        self.world.run_until(lambda: server.ended or not self.alive or lease.lost, 5.0)
        server.kill()
        if not lease.lost:
            self._row.release(lease.read_clock())
            lease.lose("released")
        self._end(lease.epoch)

    def _end(self, handed_over: int | None) -> None:
        """Stand by again."""
        if self.server is not None:
            self.world.note(f"{self.machine.name}: stands by")
            self.server.stop()
            self.server.kill()
        self.server = self.lease = self._heartbeat = None
        if self.alive:
            self._stand_by(handed_over)


class ClusterServer(ServerProcess):
    """The server of a member, for the time of one lease."""

    def __init__(self, host: ClusterHost, member: Member, lease: StoreLease) -> None:
        super().__init__(host.machine, host.network)
        self._host = host
        self._member = member
        self.lease = lease
        self._store: SharedStore | None = None

    def begin(self) -> None:
        """Load, listen and start the threads. Raises StoreError."""
        is_alive: Callable[[], bool] = self._is_alive
        store = SharedStore(self.world, self._host.link, self.lease, is_alive)
        self._store = store
        self.parts = build_parts(
            store,
            CONFIG,
            stats=self._stats,
            ended=self._end,
            platform=self,
            clocks=self.machine.clocks(),
            guard=self.lease.is_valid,
        )
        store_loop = self.parts.store_loop
        store_loop.requests.seconds = store_loop.read_seconds = _NO_LIMIT_S
        store_loop.start()
        if self.alive and not self.lease.lost:
            self.parts.network.listen(self.context(), ADDRESS, None)
            self._start_threads(store_loop, self.parts.network)

    def stop(self) -> None:
        """End what waits for the database."""
        if self._store is not None:
            self._store.stop()

    def service_ms(self) -> int:
        """Return the service time, as this server has it."""
        return self.lease.now_ms()
