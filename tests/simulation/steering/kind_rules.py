"""KindRules: which kinds of jobs are paused or limited in a world, and what that means."""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from typing import Final

from purgatory.service.job_messages import KindLimit
from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.records import NEVER
from tests.simulation.steering.steered_job import SteeredJob

# After a fault that may hold up messages, for so long nothing is said of what comes late.
_HELD_UP_NS: Final = 100 * NS_PER_S
# And so long after the end of a worker, which a server may have leased jobs meanwhile.
_GONE_NS: Final = 10 * NS_PER_S
# A job may be under way to a worker for so long when its kind is paused or limited.
_UNDER_WAY_NS: Final = 2 * NS_PER_S
_WINDOW_S: Final = 10
# Faults that hold up messages, besides those for a while (see `note_held_up`).
_HOLDING_UP: Final = frozenset(("connection_broken", "connection_half_open"))


class KindRules:
    """The rules of one world, as its program has set them."""

    def __init__(self, world: World, report: Callable[[str], None]) -> None:
        self._world = world
        self.report = report
        self._paused: dict[str, int] = {}  # since when
        self._running: dict[str, tuple[int, int]] = {}  # how many, since when
        self._rates: dict[str, tuple[float, int]] = {}
        self._begun: dict[str, list[int]] = {}
        self._held_up_ns = -_HELD_UP_NS
        self._faults: list[int] = [-_HELD_UP_NS]  # when each was
        self._gone_ns = -_GONE_NS

    def note_fault(self, kind: str) -> None:
        """Note that a fault happens."""
        self._faults.append(self._world.now_ns)
        if kind in _HOLDING_UP:
            self.note_held_up(0)

    def note_held_up(self, lasting_ns: int) -> None:
        """Note that messages are held up, or what workers do with them, for so long."""
        self._held_up_ns = max(self._held_up_ns, self._world.now_ns + lasting_ns)

    @property
    def _fault_ns(self) -> int:
        """When the last fault was."""
        return self._faults[-1]

    def faults_since(self, since_ns: int) -> int:
        """Return how many faults there have been."""
        return len(self._faults) - bisect_left(self._faults, since_ns)

    def note_gone(self) -> None:
        """Note that a worker has ended: what is under way to it comes back."""
        self._gone_ns = self._world.now_ns

    @property
    def is_quick(self) -> bool:
        """Whether nothing holds up messages."""
        return self._world.now_ns > self._held_up_ns + _HELD_UP_NS

    @property
    def is_calm(self) -> bool:
        """Whether nothing was wrong for a while."""
        last_ns = max(self._held_up_ns, self._fault_ns)
        return self._world.now_ns > max(last_ns + _HELD_UP_NS, self._gone_ns + _GONE_NS)

    def pause(self, kind: str) -> None:
        """Note that a kind is paused from now on."""
        self._paused.setdefault(kind, self._world.now_ns)

    def resume(self, kind: str) -> None:
        """Note that a kind may be resumed."""
        self._paused.pop(kind, None)

    def is_restricted(self, kind: str) -> bool:
        """Whether a kind is paused or limited."""
        return kind in self._paused or kind in self._running or kind in self._rates

    def running_limit(self, kind: str) -> int | None:
        """Return how many jobs of a kind may run; None: any number."""
        found = self._running.get(kind)
        return None if found is None else found[0]

    def limit(self, kind: str, running: int | None, per_second: float | None) -> None:
        """Note the limits of a kind from now on."""
        self._running.pop(kind, None)
        self._rates.pop(kind, None)
        now_ns = self._world.now_ns
        if running is not None:
            self._running[kind] = running, now_ns
        if per_second is not None:
            self._rates[kind] = per_second, now_ns

    def check_limits(self, found: Iterable[KindLimit]) -> None:
        """Compare what the server says of all kinds with what was set."""
        expected = {
            kind: (
                kind in self._paused,
                self.running_limit(kind),
                self._rates[kind][0] if kind in self._rates else None,
            )
            for kind in {*self._paused, *self._running, *self._rates}
        }
        told = {one.kind: (one.paused, one.running, one.per_second) for one in found}
        if told != expected:
            self.report(f"the limits are {told}; expected {expected}")

    def check_pause(self, job: SteeredJob, now_ns: int) -> None:
        """Check that a job that is given now may be."""
        since_ns = self._paused.get(job.kind, NEVER)
        if since_ns != NEVER and now_ns > since_ns + _UNDER_WAY_NS:
            self.report(f"leased though its kind is paused since {since_ns}: {job}")

    def begun(self, job: SteeredJob, jobs: Iterable[SteeredJob], now_ns: int) -> None:
        """Check that a handler may begin now."""
        if job.kind in self._rates:
            self._check_rate(job, now_ns)
        if job.kind in self._running and self.is_quick:
            self._check_running(job, jobs)

    def _check_running(self, job: SteeredJob, jobs: Iterable[SteeredJob]) -> None:
        most, since_ns = self._running[job.kind]
        since_ns = max(since_ns, self._fault_ns) + _UNDER_WAY_NS
        found = [
            attempt
            for other in jobs
            if other.kind == job.kind
            for attempt in other.attempts
            if attempt.runs and attempt.begun_ns > since_ns
        ]
        if len(found) > most:
            self.report(f"{len(found)} run, though {most} may: {job}")

    def _check_rate(self, job: SteeredJob, now_ns: int) -> None:
        rate, since_ns = self._rates[job.kind]
        times = self._begun.setdefault(job.kind, [])
        times.append(now_ns)
        since_ns = max(since_ns + _UNDER_WAY_NS, now_ns - _WINDOW_S * NS_PER_S, self._fault_ns)
        times[:] = [one for one in times if one > since_ns]
        if len(times) > rate * (_WINDOW_S + 2) + 2 and self.is_quick:
            self.report(f"{len(times)} have begun in ten seconds, though {rate} may each: {job}")
