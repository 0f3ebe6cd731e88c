"""LeaseProgram: a process that takes named leases, holds them for a while, and gives them back.

What `LeaseHandle` and the thread of `LeaseKeeper` do, as steps of the world.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.client.client import Client
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.client.leases.lease_calls import ASK_AGAIN_S, WAIT_MS, KeptLease
from purgatory.service.errors import ServiceError
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.steering.lease_book import LeaseBook, LeaseWish

#: The names that are leased.
NAMES: Final = ("printer", "migration")
# Seconds between two looks at a lease, at least, and while an answer is under way.
_LEAST_S: Final = 0.001
_LOOK_S: Final = 0.02


class LeaseProgram:
    """A program of its own client name; it is started again after a kill."""

    def __init__(self, machine: Machine, network: SimulatedNetwork, book: LeaseBook) -> None:
        self.machine = machine
        self._world = machine.world
        self._network = network
        self._book = book
        self._wish: LeaseWish | None = None
        self._process: Process | None = None
        #: Whether leases are held shortly.
        self.is_calm: bool = False
        self.start()

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.running:
            return
        process = self._process = Process(self.machine, self._network)
        client = Client(ADDRESS, name=self.machine.name, platform=process)
        self._calls = client.lease_calls
        self._calls.keeper._is_running = True  # the world steps it, no thread
        self._wish = None
        self._rest()

    @property
    def running(self) -> bool:
        """Whether it was not killed since it was started."""
        return self._process is not None and self._process.alive

    def kill(self) -> None:
        """Kill the process: its leases end by time."""
        if self._process is not None and self.running:
            self._process.kill()
            self._book.kill(self.machine.name)

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        """Make a call if the process lives then, when its machine is awake."""
        process = self._process

        def look() -> None:
            asleep_ns = self.machine.awake_at_ns - self._world.now_ns
            if process is None or not process.alive:
                return
            if asleep_ns > 0:
                self._world.after(asleep_ns, look)
            else:
                call()

        self._world.after(int(seconds * NS_PER_S), look)

    def _rest(self) -> None:
        self._wish = None
        self._later(self._world.spread(0.001, 3.0), self._begin)

    def _begin(self) -> None:
        """Wish for a lease."""
        name = self._world.random.choice(NAMES)
        keep_ms = int(self._world.spread(1.0, 20.0) * 1000)
        holder = self._calls.new_holder()
        wish = LeaseWish(self.machine.name, name, holder, keep_ms, self._world.now_ns)
        self._wish = wish
        self._calls.expect(name, holder, lambda: self._later(0.0, lambda: self._ask(wish)))
        self._ask(wish)

    def _ask(self, wish: LeaseWish) -> None:
        if self._wish is not wish or wish.is_asking or wish.kept is not None:
            return
        wish.is_asking = True
        asked_at = self._calls.now()
        try:
            answer = self._calls.take(wish.name, wish.holder, wish.keep_ms, WAIT_MS)
        except ServiceError:
            wish.is_asking = False
            self._later(1.0, lambda: self._ask(wish))
            return
        process = self._process

        def on_answer(_: object) -> None:
            if process is self._process and self.running and self._wish is wish:
                self._on_answer(wish, asked_at, answer)

        answer.add_done_callback(on_answer)

    def _on_answer(self, wish: LeaseWish, asked_at: float, answer: ReplyFuture[int | None]) -> None:
        """Hold the lease, or wait; now and then a program does not wait."""
        wish.is_asking = False
        token = None if answer.exception() else answer.result()
        if token is None:
            if answer.exception() is None:
                self._book.queue(wish)
            if self._world.chance(0.05):
                self._give_back(wish)
            else:
                self._later(ASK_AGAIN_S, lambda: self._ask(wish))
            return
        self._world.note(f"{wish.program}: has {wish.name} token={token}")
        wish.token = token
        wish.kept = KeptLease(
            wish.name, wish.holder, wish.keep_ms, asked_at, lambda: self._lose(wish)
        )
        self._book.hold(wish, self._calls.now)
        self._calls.keeper.add(wish.kept)
        longest_s = 1.0 if self.is_calm else 20.0
        self._later(self._world.spread(0.01, longest_s), lambda: self._give_back(wish))
        self._keep(wish)

    def _keep(self, wish: LeaseWish) -> None:
        """Have the lease kept, as the keeper's thread does."""
        if self._wish is wish and wish.kept is not None:
            self._calls.keeper.step()
            seconds = wish.kept.due_at - self._calls.now()
            if wish.kept.is_asking:  # the answer would wake the keeper's thread
                seconds = min(seconds, _LOOK_S)
            self._later(max(seconds, _LEAST_S), lambda: self._keep(wish))

    def _lose(self, wish: LeaseWish) -> None:
        self._world.note(f"{wish.program}: has lost {wish.name}")
        self._book.leave(wish, is_lost=True)
        self._calls.forget(wish.name, wish.holder)
        self._rest()

    def _give_back(self, wish: LeaseWish) -> None:
        if self._wish is not wish:
            return
        if wish.kept is None or self._calls.keeper.remove(wish.kept):
            self._book.leave(wish)
            self._calls.forget(wish.name, wish.holder)
            self._calls.end(wish.name, wish.holder)
            self._rest()
