"""Faults: what goes wrong in a world: processes, machines, disks, network and clocks.

Each seed draws which kinds happen, and how often. Each fault ends by itself after a while; none
begins after `stop`.
"""

import random
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from purgatory.testing.world.disk import DiskError, Handles
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.server import ServerHost
from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.drifting_machine import MAX_DRIFT_PPM, DriftingMachine
from tests.simulation.hanging_sync import HangingSync
from tests.simulation.jobs.world_worker import WorldWorker
from tests.simulation.old_schema import downgrade
from tests.simulation.troubles import Troubles

#: The kinds of faults.
KINDS: Final = (
    "server_killed",
    "server_closed",
    "server_killed_at_a_write",
    "power_lost",
    "power_lost_at_a_write",
    "disk_full",
    "disk_full_unanswered",
    "disk_error",
    "disk_slow",
    "connection_broken",
    "connection_half_open",
    "server_cut_off",
    "client_cut_off",
    "server_suspended",
    "client_suspended",
    "wall_clock_set",
    "client_killed",
)
#: Those of worlds with workers.
WORKER_KINDS: Final = ("worker_stopped", "worker_suspended", "worker_cut_off")
#: Those of worlds without workers alone, so that worlds with workers stay as they were.
UPGRADE_KINDS: Final = ("server_upgraded",)
#: Those that were added when mutants had their seeds: in the others worlds stay as they are.
LATER_KINDS: Final = ("disk_hangs", "client_clock_drifts", *UPGRADE_KINDS)
_LATER_SEEDS: Final = (6, 8, 9, 13)  # modulo 16
#: Modulo 16, the seeds in which nothing else happens than upgrades: elsewhere these are seldom.
_UPGRADE_SEEDS: Final = (10,)
#: Those with which a server refuses requests.
REFUSING: Final = frozenset(("disk_full", "disk_full_unanswered", "disk_error"))


class Victim(Protocol):
    """A process that a fault can hit: a client, or a worker."""

    machine: Machine

    @property
    def running(self) -> bool:
        """Whether it was not killed since it was started."""

    def start(self) -> None:
        """Start it."""

    def kill(self) -> None:
        """Kill it."""


class Faults:
    """Lets things go wrong in a world; `counts` tells how often each kind did.

    `report` is told of a promise that is broken meanwhile, and `note` of each fault as it happens;
    `held_up` for how many nanoseconds messages are held up.
    """

    def __init__(
        self,
        world: World,
        network: SimulatedNetwork,
        server: ServerHost,
        programs: Sequence[Victim],
        workers: Sequence[WorldWorker],
        troubles: Troubles,
        report: Callable[[str], None],
        kinds: tuple[str, ...] | None = None,
        note: Callable[[str], None] = lambda _: None,
        held_up: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._report = report
        self._note_kind = note
        self._note_held_up = held_up
        self._world = world
        self._troubles = troubles
        self._network = network
        self._server = server
        self._programs = [*programs, *workers]
        self._workers = workers
        chance = world.random
        known: tuple[str, ...] = KINDS + WORKER_KINDS if workers else KINDS
        drawn = tuple(kind for kind in known if chance.random() < 0.4)
        chosen = _with_later_kinds(drawn, world.seed) if kinds is None else kinds
        known += tuple(kind for kind in LATER_KINDS if not workers or kind not in UPGRADE_KINDS)
        #: The kinds that happen.
        self.kinds: tuple[str, ...] = tuple(kind for kind in chosen if kind in known)
        self._mean_s = world.spread(0.5, 60.0)
        self._active = True
        self.counts: dict[str, int] = {}
        if self.kinds:
            self._plan()

    def stop(self) -> None:
        """Begin no more faults; those that last end now."""
        self._active = False
        self._troubles.add()
        self._server.machine.disk.work_well()
        self._network.heal(self._server.machine.name)
        for program in self._programs:
            self._network.heal(program.machine.name)

    def _plan(self) -> None:
        delay_ns = int(self._world.random.expovariate(1 / self._mean_s) * NS_PER_S)
        self._world.after(delay_ns, self._happen)

    def _happen(self) -> None:
        if not self._active:
            return
        kind = self._world.random.choice(self.kinds)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self._world.note(f"fault: {kind}")
        if not kind.endswith("_at_a_write"):
            self._note_kind(kind)
        self._troubles.add()
        getattr(self, f"_{kind}")()
        self._plan()

    def _later(self, low: float, high: float, call: Callable[[], None]) -> None:
        """Make a call after a time between these, in seconds; until then there is trouble."""
        delay_ns = int(self._world.spread(low, high) * NS_PER_S)
        self._troubles.add(delay_ns)
        self._world.after(delay_ns, call)

    def _suspend(self, machine: Machine) -> None:
        """Suspend a machine for a while."""
        delay_ns = int(self._world.spread(0.01, 30.0) * NS_PER_S)
        machine.suspend(delay_ns)
        lasting_ns = machine.awake_at_ns - self._world.now_ns  # also by earlier suspensions
        self._troubles.add(lasting_ns)
        self._note_held_up(lasting_ns)

    # The server's process

    def _server_killed(self) -> None:
        self._server.kill()

    def _server_closed(self) -> None:
        process = self._server.process
        if process is not None:
            seconds = self._world.spread(0.1, 10.0)
            self._troubles.add(int(seconds * NS_PER_S))
            process.close(seconds)

    def _server_killed_at_a_write(self) -> None:
        self._at_a_write(self._server.kill, "server_killed_at_a_write")

    def _server_upgraded(self) -> None:
        """Have the server started on the schema before; now and then it is gone in the middle."""
        self._server.machine.disk.work_well()
        self._server.kill()
        downgrade(self._server.machine)
        gone = self._world.random.choice((None, self._server.kill, self._server.lose_power))
        if gone is not None:
            self._world.random.choice((self._at_a_write, self._at_a_sync))(gone)

    def _power_lost(self) -> None:
        self._server.lose_power()

    def _power_lost_at_a_write(self) -> None:
        self._at_a_write(self._server.lose_power, "power_lost_at_a_write")

    def _at_a_write(self, call: Callable[[], None], kind: str = "") -> None:
        """Make a call before one of the next writes or syncs of the server's disk."""

        def happen() -> None:
            if kind:
                self._note_kind(kind)
            call()

        before_step = self._before_a_step(happen, 20)
        self._server.machine.disk.set_faults(before_step, before_step)

    def _at_a_sync(self, call: Callable[[], None]) -> None:
        """Make a call before one of the next syncs, as many as a start with a migration has."""
        self._server.machine.disk.set_faults(_nothing, self._before_a_step(call, 7))

    def _before_a_step(self, call: Callable[[], None], most: int) -> Callable[[Handles], None]:
        left = self._world.random.randint(0, most)

        def before_step(handles: Handles) -> None:
            nonlocal left
            left -= 1
            if left < 0 and handles.alive:
                self._server.machine.disk.work_well()
                self._troubles.add()
                call()

        return before_step

    # Its disk

    def _disk_full(self) -> None:
        self._fail_writes(full=True)

    def _disk_error(self) -> None:
        self._fail_writes(full=False)

    def _fail_writes(self, *, full: bool) -> None:
        """Let writes fail, all or some, for a while."""
        share = self._world.random.choice((1.0, 0.3, 0.05))
        self._server.machine.disk.fail_steps(share, full=full)
        self._later(0.01, 20.0, self._mend_disk)

    def _disk_full_unanswered(self) -> None:
        """Let one write fail for want of room, and the connections break before it is told."""

        def before_write(handles: Handles) -> None:
            if handles.alive and self._world.chance(0.5):
                disk.set_faults(_nothing, _nothing)  # the next one succeeds
                self._later(0.001, 1.0, self._mend_disk)
                for connection in self._network.of_host(self._server.machine.name):
                    self._network.break_off(connection)
                raise DiskError(full=True)

        disk = self._server.machine.disk
        disk.set_faults(before_write, _nothing)
        disk.is_faulty = True

    def _disk_slow(self) -> None:
        slow_ns = int(self._world.spread(0.001, 10.0) * NS_PER_S)

        def before_step(handles: Handles) -> None:
            if handles.alive and self._world.chance(0.2):
                lost_ns = self._world.random.randint(0, slow_ns)
                self._troubles.add(lost_ns)  # a commit has many steps
                self._world.now_ns += lost_ns

        self._server.machine.disk.set_faults(before_step, before_step)
        self._later(0.1, 30.0, self._mend_disk)

    def _disk_hangs(self) -> None:
        """Let the next sync hang, mostly for longer than a server is taken for ready."""
        seconds = self._world.spread(1.0, 300.0)
        sync = HangingSync(self._server, self._troubles, seconds, self._report)
        self._server.machine.disk.set_faults(_nothing, sync.before_sync)

    def _mend_disk(self) -> None:
        self._server.machine.disk.work_well()

    # The network

    def _connection_broken(self) -> None:
        self._break_connections(half_open=False)

    def _connection_half_open(self) -> None:
        self._break_connections(half_open=True)

    def _break_connections(self, *, half_open: bool) -> None:
        for connection in self._network.of_host(self._server.machine.name):
            if self._world.chance(0.3):
                self._network.break_off(connection, half_open=half_open)

    def _server_cut_off(self) -> None:
        self._cut_off(self._server.machine.name)

    def _client_cut_off(self) -> None:
        self._cut_off(self._some_program().machine.name)

    def _cut_off(self, host: str) -> None:
        self._network.cut_off(host)
        self._note_held_up(0)
        self._later(0.05, 60.0, lambda: self._network.heal(host))

    # Clocks

    def _server_suspended(self) -> None:
        self._suspend(self._server.machine)

    def _client_suspended(self) -> None:
        self._suspend(self._some_program().machine)

    def _wall_clock_set(self) -> None:
        """Set the server's wall clock: back or ahead, by up to minutes."""
        error_ns = int(self._world.spread(0.01, 300.0) * NS_PER_S)
        self._server.machine.wall_error_ns = self._world.random.choice((-1, 0, 1)) * error_ns

    def _client_clock_drifts(self) -> None:
        """Let the clock of a client or worker run at another speed from now on."""
        ppm = self._world.random.choice((-MAX_DRIFT_PPM, 0, MAX_DRIFT_PPM))
        machine = self._some_program().machine
        assert isinstance(machine, DriftingMachine)
        machine.drift(ppm)

    # Clients

    def _client_killed(self) -> None:
        program = self._some_program()
        if program.running:
            program.kill()
            self._later(0.001, 10.0, program.start)

    # Workers

    def _worker_stopped(self) -> None:
        """Stop a worker, as an upgrade does; it may have to leave what runs."""
        seconds = self._world.spread(0.1, 30.0)
        self._troubles.add(int(seconds * NS_PER_S))
        self._some_worker().stop(seconds)

    def _worker_suspended(self) -> None:
        """Suspend a worker's machine while jobs wait in it."""
        self._when_jobs_wait(self._suspend)

    def _worker_cut_off(self) -> None:
        """Cut a worker off while jobs wait in it."""
        self._when_jobs_wait(lambda machine: self._cut_off(machine.name))

    def _when_jobs_wait(self, call: Callable[[Machine], None]) -> None:
        worker = self._some_worker()

        def hit() -> None:
            if self._active:
                self._troubles.add()
                call(worker.machine)

        worker.when_jobs_wait(hit)

    def _some_worker(self) -> WorldWorker:
        return self._world.random.choice(self._workers)

    def _some_program(self) -> Victim:
        return self._world.random.choice(self._programs)


def _with_later_kinds(drawn: tuple[str, ...], seed: int) -> tuple[str, ...]:
    """Return the kinds of a seed: what was drawn, and LATER_KINDS by chance of its own."""
    if seed % 16 in _UPGRADE_SEEDS:
        return UPGRADE_KINDS
    if seed % 16 not in _LATER_SEEDS:
        return drawn
    chance = random.Random(f"later kinds {seed}")
    return drawn + tuple(kind for kind in LATER_KINDS if chance.random() < 0.6)


def _nothing(handles: Handles) -> None:
    """Let a step of the disk succeed."""
