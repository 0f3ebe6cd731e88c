"""LeaseBook: which programs of a world have which named leases, and what must hold of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from purgatory.service.client.leases.lease_calls import KeptLease
from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.records import NEVER
from tests.simulation.steering.kind_rules import KindRules

#: A name that was given back is with the next program after so long, if nothing is wrong.
_PROMPT_NS: Final = 5 * NS_PER_S
#: In a world without faults a program waits for so long at most, when others hold a name shortly.
_PATIENCE_NS: Final = 120 * NS_PER_S


@dataclass(slots=True, eq=False)
class LeaseWish:
    """A program's wish for a name, from the first request to the end of the lease."""

    program: str
    name: str
    holder: str
    keep_ms: int
    asked_ns: int
    #: When the program was told first that another one has the name.
    queued_ns: int = NEVER
    #: By how much times on disk were wrong when the lease was told.
    lost_time_ns: int = 0
    token: int = 0
    kept: KeptLease | None = None
    is_asking: bool = False


class LeaseBook:
    """The named leases of one world; `rules` know when something was wrong last."""

    def __init__(self, world: World, report: Callable[[str], None], rules: KindRules) -> None:
        self._world = world
        self._report = report
        self._rules = rules
        self._tokens: dict[str, int] = {}  # the highest that was told, by name
        self._free_ns: dict[str, int] = {}  # since when a name is free that was given back
        #: By how much the times of leases may be wrong, see `JobBook`.
        self.lost_time_ns: Callable[[], int] = int
        #: How many leases were granted.
        self.granted: int = 0
        #: What programs hold, with their clocks, and what they wait for.
        self._held: dict[LeaseWish, Callable[[], float]] = {}
        self._waiting: dict[LeaseWish, None] = {}

    def queue(self, wish: LeaseWish) -> None:
        """Note that a program has to wait."""
        self._waiting[wish] = None
        if wish.queued_ns == NEVER:
            wish.queued_ns = self._world.now_ns

    def hold(self, wish: LeaseWish, clock: Callable[[], float]) -> None:
        """Note a lease that a program was told of; `clock`: the program's."""
        self._waiting.pop(wish, None)
        self.granted += 1
        assert wish.kept is not None
        if wish.kept.ends_at > clock():  # else the answer comes too late
            self._check_alone(wish)
            if wish.token <= self._tokens.get(wish.name, 0):
                self._report(f"a token that has been there: {wish}")
        if self._rules.is_calm:
            self._check_turn(wish)
        self._tokens[wish.name] = max(wish.token, self._tokens.get(wish.name, 0))
        wish.lost_time_ns = self.lost_time_ns()
        self._held[wish] = clock

    def _check_alone(self, wish: LeaseWish) -> None:
        for other, clock in self._held.items():
            assert other.kept is not None
            lost_s = (self.lost_time_ns() - other.lost_time_ns) / NS_PER_S
            if other.name == wish.name and other.kept.ends_at - lost_s > clock():
                self._report(f"two programs have a lease: {other} and {wish}")

    def _check_turn(self, wish: LeaseWish) -> None:
        """Check that a program was not passed over, and got a free name soon."""
        for other in self._waiting:
            if other.name == wish.name and NEVER < other.queued_ns < wish.asked_ns:
                self._report(f"{wish} came before {other}")
        free_ns = self._free_ns.pop(wish.name, NEVER)
        if NEVER < wish.queued_ns < free_ns < self._world.now_ns - _PROMPT_NS:
            self._report(f"was free since {free_ns}: {wish}")

    def leave(self, wish: LeaseWish, *, is_lost: bool = False) -> None:
        """Note that a program does not have a lease any more, or waits no longer."""
        self._waiting.pop(wish, None)
        if self._held.pop(wish, None) is None:
            return
        if not is_lost:
            self._free_ns[wish.name] = self._world.now_ns
        elif self._rules.is_calm:
            self._report(f"was lost: {wish}")

    def kill(self, program: str) -> None:
        """Note that a program is gone, with what it has and waits for."""
        for wish in [wish for wish in (*self._held, *self._waiting) if wish.program == program]:
            self._held.pop(wish, None)
            self._waiting.pop(wish, None)

    def check_patience(self) -> None:
        """Check, when nothing is wrong any more, that no program has waited for long."""
        for wish in self._waiting:
            if wish.queued_ns < self._world.now_ns - _PATIENCE_NS:
                self._report(f"waits since {wish.queued_ns}: {wish}")
