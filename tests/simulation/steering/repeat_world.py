"""RepeatWorld: a server, repeats by the calendar and at intervals, and times without a server.

No worker runs the jobs: they stay ready, and the list shows which times had one. The wall clock of
the server is near the beginning or the end of summer time, in some worlds.
"""

import logging
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from purgatory.service.client.client import Client
from purgatory.service.errors import RequestTimeout
from purgatory.testing.world.machine import EPOCH_NS, Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS, ServerHost
from purgatory.testing.world.world import NS_PER_S, World
from tests.simulation.errors import Violation
from tests.simulation.simulation import Verdict

_NAME: Final = "tick"
# A run comes so much later at most.
_PROMPT: Final = timedelta(seconds=3)


class Calendar(NamedTuple):
    """A repeat, the moment at which its world begins, and when its runs are due, in UTC."""

    begins: datetime
    zone: str
    cron: str
    due: tuple[datetime, ...]


def _at(text: str, *minutes: int) -> tuple[datetime, ...]:
    """Return moments, so many minutes after the hour of a day in UTC."""
    hour = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return tuple(hour + timedelta(minutes=minute) for minute in minutes)


def _from(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


#: The clocks go back at 01:00 UTC in Berlin, and at 06:00 in New York; ahead at 01:00 and 07:00.
CALENDARS: Final = (
    Calendar(_from("2026-10-25 00:20"), "Europe/Berlin", "30 2 * * *", _at("2026-10-25 00:00", 30)),
    Calendar(
        _from("2026-11-01 05:05"), "America/New_York", "15 1 * * *", _at("2026-11-01 05:00", 15)
    ),
    Calendar(
        _from("2026-10-25 00:20"),
        "Europe/Berlin",
        "30 * * * *",
        _at("2026-10-25 00:00", 30, 90, 150),
    ),
    Calendar(_from("2026-03-29 00:40"), "Europe/Berlin", "30 2 * * *", _at("2026-03-29 01:00", 0)),
    Calendar(
        _from("2026-03-08 06:40"), "America/New_York", "15 2 * * *", _at("2026-03-08 07:00", 0)
    ),
    Calendar(
        _from("2026-06-01 10:01"),
        "UTC",
        "*/10 10-11 * * *",
        _at("2026-06-01 10:00", *range(10, 120, 10)),
    ),
    Calendar(_from("2026-06-01 10:01"), "UTC", "", _at("2026-06-01 10:01", *range(10, 150, 10))),
)
_LASTS_S: Final = 7500.0


class RepeatWorld:
    """The world of a seed."""

    def __init__(self, seed: int, *, with_history: bool = False) -> None:
        self.world = World(seed)
        if with_history:
            self.world.history = []
        chance = self.world.random
        self._calendar = chance.choice(CALENDARS)
        self._missed = chance.choice(("all", "one", "none"))
        machine = Machine(self.world, "server")
        machine.wall_error_ns = round(self._calendar.begins.timestamp() * NS_PER_S) - EPOCH_NS
        self._network = SimulatedNetwork(self.world)
        self._server = ServerHost(machine, self._network)
        self._clients = Machine(self.world, "jobs")
        #: When no server ran: from when until when, at least, and at most.
        self._absences: list[tuple[datetime, datetime, datetime]] = []

    def run(self) -> Verdict:
        """Run it to the end, or to the first violation."""
        verdict = Verdict(self.world.seed)
        try:
            self._run()
        except Exception as error:  # of the code that is simulated, too
            verdict.violation = f"{type(error).__name__}: {error}"
        finally:
            verdict.history, self.world.history = self.world.history or [], None
            self._server.kill()
            self._server.discard()
        verdict.simulated_s = self.world.now_ns / NS_PER_S
        verdict.steps, verdict.jobs = self.world.steps, len(self._calendar.due)
        verdict.faults = {"server_killed": len(self._absences)}
        return verdict

    def _now(self) -> datetime:
        """Return the time by the server's wall clock."""
        return self._calendar.begins + timedelta(microseconds=self.world.now_ns / 1000)

    def _run(self) -> None:
        self._declare()
        times = self._draw_absences()
        for begin_s, down_s in times:
            self.world.run(max(0.0, begin_s - self.world.now_ns / NS_PER_S))
            self._be_absent(down_s)
            if self.world.chance(0.3):
                self._declare()  # as each process may: nothing changes
        self.world.run(max(10.0, _LASTS_S - self.world.now_ns / NS_PER_S))
        self._check(self._runs())

    def _client(self) -> tuple[Client, Process]:
        process = Process(self._clients, self._network)
        return Client(ADDRESS, name="jobs", platform=process), process

    def _declare(self) -> None:
        client, process = self._client()
        calendar = self._calendar
        cron = calendar.cron or None
        every = None if cron else 600.0
        terms: dict[str, Any] = {
            "cron": cron,
            "every": every,
            "tz": calendar.zone if cron else "UTC",
        }
        while True:
            try:
                client.repeat(_NAME, kind="k", missed=self._missed, overlap="allow", **terms)
                break
            except RequestTimeout:
                self.world.run(1.0)
        process.kill()

    def _draw_absences(self) -> list[tuple[float, float]]:
        """Draw when the server is killed, often just before a time is due, and for how long."""
        chance = self.world.random
        found = []
        for due in self._calendar.due:
            if self.world.chance(0.4):
                after_s = (due - self._calendar.begins).total_seconds()
                begin_s = after_s - self.world.spread(0.001, 100.0)
                down_s = chance.choice((1.0, self.world.spread(1.0, 2500.0)))
                found.append((begin_s, down_s))
        return found

    def _be_absent(self, down_s: float) -> None:
        begin = self._now()
        self.world.note(f"server: away for {down_s:g} s")
        self._server.kill()
        self._server.stay_down(round(down_s * NS_PER_S))
        self.world.run(down_s + 1.1)
        end = self._now()
        self._absences.append((begin, end - timedelta(seconds=1.2), end))

    def _runs(self) -> Counter[datetime]:
        """Return the times that have had a job, by its id."""
        client, process = self._client()
        found: Counter[datetime] = Counter()
        for status in client.jobs(tag=_NAME):
            at = datetime.fromisoformat(status.job_id.partition("@")[2])
            found[at] += 1
            early_ms = at.timestamp() * 1000 - status.submitted_ms
            if early_ms > 0:
                raise Violation(f"{status.job_id} was scheduled {early_ms:g} ms early")
        process.kill()
        return found

    def _check(self, runs: Counter[datetime]) -> None:
        due = set(self._calendar.due)
        what = f"{self._calendar.cron or 'every'} in {self._calendar.zone}, missed={self._missed}"
        self.world.note(f"runs: {sorted(map(str, runs))}")
        for at, count in runs.items():
            if at not in due and self._calendar.cron:
                raise Violation(f"{what} ran at {at}; expected {self._calendar.due}")
            if count > 1:
                raise Violation(f"{what} ran {count} times at {at}")
        times = sorted(runs) if not self._calendar.cron else self._calendar.due
        if not self._calendar.cron:
            self._check_interval(times, what)
        for at in self._calendar.due if self._calendar.cron else ():
            if at not in runs and not self._may_be_missed(at):
                raise Violation(f"{what} did not run at {at}: {self._absences}")
        if self._missed == "one" and self._calendar.cron:
            self._check_blocks(runs, what)

    def _may_be_missed(self, at: datetime) -> bool:
        """Whether no job is expected of a time: no server ran when it came, by the settings."""
        if at + _PROMPT > self._now():
            return True
        if self._missed == "all":
            return False
        return any(begin <= at + _PROMPT and at <= end for begin, _, end in self._absences)

    def _check_blocks(self, runs: Counter[datetime], what: str) -> None:
        """Check that one of the times of each absence has had a job."""
        for begin, end, _ in self._absences:
            missed = [at for at in self._calendar.due if begin <= at <= end]
            ran = sum(at in runs for at in missed)
            if missed and ran != 1:
                raise Violation(f"{what} ran {ran} times for {missed}")

    def _check_interval(self, times: list[datetime] | tuple[datetime, ...], what: str) -> None:
        """Check that runs at intervals keep their rhythm."""
        first = times[0]
        late_s = abs((first - self._calendar.begins).total_seconds() - 600)
        if late_s > 1 and not self._may_be_missed(self._calendar.due[0]):
            raise Violation(f"{what} ran at {first} first, {late_s:g} s from its time")
        odd = [at for at in times if (at - first).total_seconds() * 1000 % 600_000]
        if odd:
            raise Violation(f"{what} ran at {odd}, out of its rhythm")
        lasted_s = self.world.now_ns / NS_PER_S
        if self._missed == "all" and len(times) < lasted_s // 600 - 1:
            raise Violation(f"{what} ran {len(times)} times in {lasted_s:g} s")


def simulate(seed: int, *, with_history: bool = False) -> Verdict:
    """Run a seed. The log of the service is turned off meanwhile."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        return RepeatWorld(seed, with_history=with_history).run()
    finally:
        logging.disable(before)
