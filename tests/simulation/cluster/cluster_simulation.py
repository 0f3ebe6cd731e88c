"""ClusterSimulation: a world of two servers over one database, clients, and faults, from a seed.

The oracle is that of all worlds. Besides, the database keeps no group of a server that lost the
lease, and no group that a server took for refused. No answer of a server may leave it after the
next holder of the lease has answered anything; and time may neither go back nor be ahead.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from purgatory.testing.world.connection import Side, SimulatedConnection
from purgatory.testing.world.machine import EPOCH_NS, Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S, World
from tests.simulation.cluster.cluster_host import ClusterHost
from tests.simulation.cluster.database_machine import DatabaseMachine
from tests.simulation.cluster.reader import Reader
from tests.simulation.collector import seldom_collecting
from tests.simulation.oracle import Oracle
from tests.simulation.programs.program import Program
from tests.simulation.programs.workload import draw_workload
from tests.simulation.simulation import SETTLE_S, Verdict
from tests.simulation.troubles import Troubles

#: The kinds of faults.
KINDS: Final = (
    "host_killed",
    "host_suspended",
    "link_hangs",
    "link_cut",
    "link_slow",
    "answer_lost",
    "group_half_sent",
    "sessions_ended",
    "database_away",
    "handover",
    "client_killed",
    "connection_broken",
    "all_killed",
)
# Seconds after the last fault in which each world ends: a host that waits for ever is a failure.
_LONGEST_S: Final = 3600.0
# Milliseconds by which the service's clock may be ahead of the true one: both are cut off.
_AHEAD_MS: Final = 3
# Milliseconds by which it may be behind, after all takeovers of a world: for as long as an answer
# to one is under way, no time passes.
_BEHIND_MS: Final = 3000


class ClusterNetwork(SimulatedNetwork):
    """A network that tells `on_answer` of each frame that a server sends to a client."""

    on_answer: Callable[[str], None] = staticmethod(lambda _: None)
    #: Whether a host is suspended: it accepts nothing, so clients try again elsewhere.
    is_asleep: Callable[[str], bool] = staticmethod(lambda _: False)

    def _accept(self, address: str, dialer: Side, refused: Callable[[], None]) -> None:
        listener = self.listener(address)
        if listener is not None and self.is_asleep(listener.host):
            refused()
        else:
            super()._accept(address, dialer, refused)

    def watch(self, connection: SimulatedConnection) -> None:
        """Tell of the frames of a connection."""
        send, host = connection.to_dialer.send, connection.listener.host

        def told(frame: bytes | None) -> None:
            if frame is not None:
                self.on_answer(host)
            send(frame)

        connection.to_dialer.send = told  # type: ignore[method-assign]


class _Watched(dict[int, SimulatedConnection]):
    """The connections of a network, each of which is watched from its beginning."""

    def __init__(self, network: ClusterNetwork) -> None:
        super().__init__()
        self._network = network

    def __setitem__(self, number: int, connection: SimulatedConnection) -> None:
        self._network.watch(connection)
        super().__setitem__(number, connection)


class ClusterSimulation:
    """The world of a seed."""

    def __init__(self, seed: int, seconds: float = 60.0, *, with_history: bool = False) -> None:
        world = self.world = World(seed)
        if with_history:
            world.history = []
        self._seconds = seconds
        self.troubles = Troubles(world)
        self.oracle = Oracle(world, self.troubles)
        self.network = ClusterNetwork(world)
        self.network._connections = _Watched(self.network)
        self.network.on_answer = self._note_answer
        self.network.is_asleep = self._is_asleep
        self.database = DatabaseMachine(world)
        self.database.report = self.oracle.report
        self.hosts = [self._make_host(name) for name in ("a", "b")]
        # When the database's clock is wrong, the service's is as well, from its first moment on.
        offset_ms = self.database.clock_error_ns // NS_PER_MS
        self.oracle.latest_now_ms = lambda: self._true_ms() + offset_ms + _AHEAD_MS
        self.workload = draw_workload(world)
        self.programs: list[Program] = [
            Program(
                Machine(world, f"client-{n}"),
                self.network,
                f"client-{n}",
                self.oracle,
                self.workload,
            )
            for n in range(self.workload.clients)
        ]
        #: Clients that change nothing; see `Reader`.
        self.readers = [Reader(self.network, f"reader-{n}") for n in range(4)]
        self.faults = ClusterFaults(self)
        self._answered: str = ""  # the holder that has answered last
        self._before: set[str] = set()  # holders before that one
        self._last_clock_ms = 0
        self._behind_ms = 0

    def _make_host(self, name: str) -> ClusterHost:
        machine = Machine(self.world, name)
        machine.wall_error_ns = self.world.random.randint(-600, 600) * NS_PER_S
        return ClusterHost(machine, self.network, self.database)

    def _is_asleep(self, name: str) -> bool:
        return any(
            host.machine.name == name and host.machine.awake_at_ns > self.world.now_ns
            for host in self.hosts
        )

    def _true_ms(self) -> int:
        return (EPOCH_NS + self.world.now_ns) // NS_PER_MS

    def _note_answer(self, name: str) -> None:
        """Check that no answer of an earlier holder comes after one of a later."""
        (host,) = [host for host in self.hosts if host.machine.name == name]
        server = host.server
        if server is None or server.lease is None:  # type: ignore[attr-defined]
            return
        holder = server.lease.holder  # type: ignore[attr-defined]
        if holder in self._before:
            self.oracle.report(f"{name} has answered after another server had taken over")
        if holder != self._answered:
            self._before.add(self._answered)
            self._answered = holder
        self._check_clock(server.service_ms())  # type: ignore[attr-defined]

    def _check_clock(self, now_ms: int) -> None:
        if now_ms < self._last_clock_ms - 1:
            self.oracle.report(
                f"the service's clock went back by {self._last_clock_ms - now_ms} ms"
            )
        self._last_clock_ms = max(now_ms, self._last_clock_ms)
        if now_ms > self.oracle.latest_now_ms():
            ahead_ms = now_ms - self.oracle.latest_now_ms()
            self.oracle.report(f"the service's clock is {ahead_ms} ms ahead")
        behind_ms = self.oracle.latest_now_ms() - _AHEAD_MS - now_ms
        if behind_ms > _BEHIND_MS:
            self.oracle.report(f"the service's clock is {behind_ms} ms behind")
        if behind_ms < self._behind_ms - _AHEAD_MS:  # what waits since before would expire early
            made_up_ms = self._behind_ms - behind_ms
            self.oracle.report(f"the service's clock has made up for {made_up_ms} ms")
        self._behind_ms = max(behind_ms, self._behind_ms)

    def run(self) -> Verdict:
        """Run it to the end, or to the first violation."""
        with seldom_collecting():
            return self._run()

    def _run(self) -> Verdict:
        verdict = Verdict(self.world.seed)
        try:
            self.faults.begin()
            self.world.after(int(self._seconds * NS_PER_S), self._calm_down)
            self.world.after(int((self._seconds + _LONGEST_S) * NS_PER_S), self._end)
            self._run_for(self._seconds)
            self._settle()
            for program in self.programs:
                self.oracle.check_answered(program.unanswered.values())
            self.oracle.check_all()
            self._raise_violation()
        except Exception as error:
            verdict.violation = f"{type(error).__name__}: {error}"
        finally:
            verdict.history, self.world.history = self.world.history or [], None
            self.discard()
        verdict.simulated_s = self.world.now_ns / NS_PER_S
        verdict.steps = self.world.steps
        verdict.operations = len(self.oracle.operations)
        verdict.kinds, verdict.faults = KINDS, self.faults.counts
        return verdict

    def discard(self) -> None:
        """End all processes, and close the database."""
        for process in self.programs:
            process.kill()
        for host in self.hosts:
            host.kill()
        self.database.store.close()

    def _run_for(self, seconds: float) -> None:
        self.world.run_until(self._is_over, seconds)
        self._raise_violation()

    def _is_over(self) -> bool:
        return self.oracle.has_violation() or any(host.failure for host in self.hosts)

    def _raise_violation(self) -> None:
        if self.oracle.violation is not None:
            raise self.oracle.violation
        for host in self.hosts:
            if host.failure is not None:
                raise host.failure

    def _calm_down(self) -> None:
        """End faults and requests.

        An event of the world: `_run_for` returns later if hosts wait in their links, and while
        machines are suspended again and again, hosts wait for ever.
        """
        self.faults.stop()
        for reader in self.readers:
            reader.is_busy = False
        for program in self.programs:
            program.is_busy = False
            if not program.running:
                program.start()

    def _end(self) -> None:
        """End a world that does not end; again, as the loop of a server may take the error."""
        self.world.after(NS_PER_S, self._end)
        raise AssertionError("a host waits for ever")

    def _settle(self) -> None:
        """Let all that is due come."""
        awake_at_ns = max(host.machine.awake_at_ns for host in self.hosts)
        asleep_s = max(0, awake_at_ns - self.world.now_ns) / NS_PER_S
        self._run_for(asleep_s + 30 + self.workload.longest_timeout + SETTLE_S)


class ClusterFaults:
    """Lets things go wrong in the world of `simulation`; `counts` tells how often each kind did."""

    def __init__(self, simulation: ClusterSimulation) -> None:
        self._simulation = simulation
        self._world = simulation.world
        self._active = True
        # Behind a pooler, calm: a group has to be on its way for as long as a takeover takes.
        is_pooled = simulation.database.is_pooled
        self._mean_s = self._world.spread(4.0 if is_pooled else 0.5, 20.0)
        self.kinds = [
            kind
            for kind in KINDS
            if self._world.chance(0.5) or (is_pooled and kind in ("link_hangs", "link_slow"))
        ] or list(KINDS)
        self.counts: dict[str, int] = {}

    def begin(self) -> None:
        """Plan the first."""
        self._plan()

    def stop(self) -> None:
        """Begin no more; those that last end now."""
        self._active = False
        self._mend()
        self._simulation.troubles.add()

    def _mend(self) -> None:
        self._simulation.database.is_away = False
        for host in self._simulation.hosts:
            host.link.mend()
            host.start()

    def _plan(self) -> None:
        delay_ns = int(self._world.random.expovariate(1 / self._mean_s) * NS_PER_S)
        self._world.after(delay_ns, self._happen)

    def _happen(self) -> None:
        if not self._active:
            return
        kind = self._world.random.choice(self.kinds)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._world.note(f"fault: {kind}")
        self._simulation.troubles.add()
        getattr(self, f"_{kind}")()
        self._plan()

    def _later(self, low: float, high: float, call: Callable[[], None]) -> None:
        delay_ns = int(self._world.spread(low, high) * NS_PER_S)
        self._simulation.troubles.add(delay_ns)
        self._world.after(delay_ns, call)

    def _host(self) -> ClusterHost:
        """Return the active host, mostly."""
        hosts: Sequence[ClusterHost] = self._simulation.hosts
        active = [host for host in hosts if host.server is not None]
        return self._world.random.choice(active if active and self._world.chance(0.8) else hosts)

    def _host_killed(self) -> None:
        host = self._host()
        host.kill()
        self._later(0.01, 10.0, host.start)

    def _all_killed(self) -> None:
        for host in self._simulation.hosts:
            host.kill()
            self._later(0.01, 10.0, host.start)

    def _host_suspended(self) -> None:
        """Suspend a machine; some of its clients give up and go to another server, some wait."""
        machine = self._host().machine
        machine.suspend(int(self._world.spread(0.05, 20.0) * NS_PER_S))
        self._break_connections(machine.name, 0.5)
        self._simulation.troubles.add(machine.awake_at_ns - self._world.now_ns)

    def _link_hangs(self) -> None:
        """Let the link of a host hang; some of its clients go elsewhere, some wait."""
        link = self._host().link
        link.hangs = True
        self._break_connections(link.machine.name, 0.5)
        self._later(0.1, 20.0, link.mend)

    def _link_cut(self) -> None:
        link = self._host().link
        link.is_cut = True
        self._later(0.001, 10.0, link.mend)

    def _link_slow(self) -> None:
        """Let each way take up to 2 s: a lease may end before its renewal is answered."""
        link = self._host().link
        link.slow_ns = int(self._world.spread(0.1, 2.0) * NS_PER_S)
        self._later(1.0, 10.0, link.mend)

    def _answer_lost(self) -> None:
        self._host().link.lose_answer = True

    def _group_half_sent(self) -> None:
        link = self._host().link
        link.send_half = True
        self._later(0.5, 20.0, link.mend)

    def _sessions_ended(self) -> None:
        database = self._simulation.database
        for session in database.sessions:
            if self._world.chance(0.5):
                database.end(session)

    def _database_away(self) -> None:
        database = self._simulation.database
        database.is_away = True
        for session in database.sessions:
            database.end(session)

        def back() -> None:
            database.is_away = False

        self._later(0.01, 10.0, back)

    def _handover(self) -> None:
        self._simulation.database.row.handover = True

    def _client_killed(self) -> None:
        program = self._world.random.choice(self._simulation.programs)
        if program.running:
            program.kill()
            self._later(0.001, 10.0, program.start)

    def _connection_broken(self) -> None:
        for host in self._simulation.hosts:
            self._break_connections(host.machine.name, 0.3)

    def _break_connections(self, name: str, share: float) -> None:
        network = self._simulation.network
        for connection in network.of_host(name):
            if self._world.chance(share):
                network.break_off(connection)


def simulate(seed: int, seconds: float = 60.0, *, with_history: bool = False) -> Verdict:
    """Run a seed. The log of the service is turned off meanwhile."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return ClusterSimulation(seed, seconds, with_history=with_history).run()
    finally:
        logging.disable(before)
