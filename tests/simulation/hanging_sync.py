"""HangingSync: a sync of a server's disk that does not return for long.

The thread that asked for it stands still, with its transaction. All else in the world goes on: the
server's other thread, its clients, and other faults.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.server.server_health import READY_BOUND_S, STUCK_S, report_health
from purgatory.testing.world.disk import Handles
from purgatory.testing.world.server import ServerHost, ServerProcess
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.troubles import Troubles

# The server may compare a time that was rounded.
_ROUNDING_S: Final = 0.001


class HangingSync:
    """The next sync of a server that runs: it takes so many `seconds`, unless it is killed.

    `report` is told if the server takes itself for well meanwhile.
    """

    def __init__(
        self, server: ServerHost, troubles: Troubles, seconds: float, report: Callable[[str], None]
    ) -> None:
        self._server = server
        self._troubles = troubles
        self._seconds = seconds
        self._report = report

    def before_sync(self, handles: Handles) -> None:
        """Hang, and see what the server says of its health."""
        process = self._server.process
        if process is None or process.handles is not handles or not process.started:
            return
        self._server.machine.disk.work_well()
        self._troubles.add(int(self._seconds * NS_PER_S))
        process.world.note(f"disk: a sync hangs for {self._seconds:g} s")
        began_s = process.monotonic()
        self._let_pass(process)
        if process.running:
            self._check_health(process, process.monotonic() - began_s)

    def _let_pass(self, process: ServerProcess) -> None:
        """Let the world go on meanwhile; also while the machine is suspended in the end."""
        world, machine = process.world, process.machine
        world.run_until(lambda: not process.alive, self._seconds)
        while process.alive and machine.awake_at_ns > world.now_ns:
            asleep_s = (machine.awake_at_ns - world.now_ns) / NS_PER_S
            world.run_until(lambda: not process.alive, asleep_s)

    def _check_health(self, process: ServerProcess, hung_s: float) -> None:
        store_loop = process.parts.store_loop
        if store_loop.finished():  # it closes: it is not asked any more
            return
        report = report_health(store_loop.activity, "", store_loop.clock.now_ms())
        if hung_s > READY_BOUND_S + _ROUNDING_S and not report.not_ready:
            self._report(f"a sync has hung for {hung_s:g} s, and the server says it is ready")
        if hung_s > STUCK_S + _ROUNDING_S and not report.broken:
            self._report(f"a sync has hung for {hung_s:g} s, and the server says it works")
