"""DatabaseLink: between a server's machine and the database: it delays, hangs, cuts, loses answers.

A call waits by letting the world go on. What it has sent may arrive although nothing is heard of it
any more, and late: also when its process is gone.
"""

from collections.abc import Callable
from typing import Any, Final

from purgatory.errors import StoreError
from purgatory.service.store.postgres.sessions.postgres_errors import SessionLost
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S, World
from tests.simulation.cluster.database_machine import DatabaseMachine, Session

# Nanoseconds of one way; one in SLOW_ONE_IN takes up to SLOW_NS.
_LATENCY_NS: Final = (50_000, 400_000)
_SLOW_NS: Final = 400 * NS_PER_MS
_SLOW_ONE_IN: Final = 200
# How long something waits for a lock before it looks again.
_LOCK_LOOK_NS: Final = 50 * NS_PER_MS


class DatabaseLink:
    """The link of `machine`."""

    def __init__(self, machine: Machine, database: DatabaseMachine) -> None:
        self.machine = machine
        self.database = database
        self._world: World = machine.world
        #: Nothing gets through, and nothing says so.
        self.hangs: bool = False
        #: Connections are refused, and those that there are end.
        self.is_cut: bool = False
        #: The next group is done, and its answer lost.
        self.lose_answer: bool = False
        #: The next group arrives without its end: its session has the lease locked until it comes.
        self.send_half: bool = False
        #: Nanoseconds that each way takes at most while the link is slow; 0: it is not.
        self.slow_ns: int = 0
        self._held: list[Callable[[], None]] = []

    def mend(self) -> None:
        """Let all through again; what was held arrives, or does not."""
        self.hangs = self.is_cut = self.lose_answer = self.send_half = False
        self.slow_ns = 0
        held, self._held = self._held, []
        for deliver in held:
            if self._world.chance(0.7):
                self._world.after(self._latency_ns(), deliver)

    def call(
        self,
        session: Session,
        do: Callable[[], Any],
        timeout_s: float,
        is_alive: Callable[[], bool],
        *,
        is_group: bool = False,
    ) -> Any:
        """Have the database do something; returns its answer. Raises SessionLost, StoreError."""
        call = _Call(self, session, do, is_group)
        deadline_ns = self._world.now_ns + int(timeout_s * NS_PER_S)
        call.send()
        self._world.run_until(
            lambda: call.is_done or session.is_ended or self.is_cut or not is_alive(),
            (deadline_ns - self._world.now_ns) / NS_PER_S,
        )
        self._wait_until_awake()
        if not is_alive():
            raise StoreError("the process is gone", fatal=True)
        if not call.is_done:
            raise SessionLost("no answer")
        if call.error is not None:
            raise call.error
        return call.answer

    def _wait_until_awake(self) -> None:
        """Wait while the machine is suspended; then its threads go on in any order."""
        while (left_ns := self.machine.awake_at_ns - self._world.now_ns) > 0:
            self._world.run(left_ns / NS_PER_S + self._world.spread(1e-5, 0.02))

    def _latency_ns(self) -> int:
        draw = self._world.random.random()
        if self.slow_ns:
            return int(draw * self.slow_ns)
        if draw * _SLOW_ONE_IN < 1:
            return int(draw * _SLOW_ONE_IN * _SLOW_NS)
        low, high = _LATENCY_NS
        return low + int(draw * (high - low))

    def travel(self, arrive: Callable[[], None]) -> None:
        """Carry something one way."""
        if self.hangs:
            self._held.append(arrive)
        elif not self.is_cut:
            self._world.after(self._latency_ns(), arrive)


class _Call:
    """One question on its way to the database and back."""

    def __init__(
        self, link: DatabaseLink, session: Session, do: Callable[[], Any], is_group: bool
    ) -> None:
        self._link = link
        self._session = session
        self._do = do
        self._is_group = is_group
        self.is_done = False
        self.answer: Any = None
        self.error: StoreError | None = None

    def send(self) -> None:
        """Send it."""
        link = self._link
        if self._is_group and link.send_half and not link.database.is_locked_for(self._session):
            link.send_half, link.hangs = False, True
            link.database.lock(self._session)
        link.travel(self._arrive)

    def _arrive(self) -> None:
        database = self._link.database
        if database.is_away or self._session.is_ended:
            return
        if self._is_group and database.is_locked_for(self._session):
            database.world.after(_LOCK_LOOK_NS, self._arrive)
            return
        try:
            self.answer = self._do()
        except StoreError as error:
            self.error = error
        if self._is_group and self._link.lose_answer:
            self._link.lose_answer = False
            database.end(self._session)
            return
        self._link.travel(self._finish)

    def _finish(self) -> None:
        self.is_done = True
