"""HeldJobs: a worker's jobs, from their lease to the answer to their end.

And `Pace`: how many jobs a worker should hold. With too few the worker waits for the server; with
too many an idle worker waits for jobs. Any thread may call any method.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from purgatory.service.platform import CLOCK_ERROR
from purgatory.service.protocol import MAX_ROOM, Lease, LeasedJob
from purgatory.service.worker.handlers import Attempt

#: Seconds of work that a worker holds ahead.
LOOK_AHEAD_S: Final = 0.1
#: Most jobs held for each handler.
MAX_AHEAD: Final = 32
# The weight of the last job, and seconds between looks.
_WEIGHT: Final = 0.05
_LOOK_S: Final = 0.05


@dataclass(slots=True, eq=False, repr=False)
class HeldJob(Attempt):
    """A job that a worker holds. `token`: of the latest lease.

    `asked_at`: when the worker last asked for the lease, or got it; `kept_at`: successfully.
    `ends_at`: the time limit. `again`: as leased since the handler began. `is_told`: the server
    knows of the beginning. `has_lapsed`: the lease was over before the handler began. `is_lost`:
    the handler was given up. `is_refused`: the server has refused its end. `thread` or `task` runs
    the handler.
    """

    leased: LeasedJob
    came_at: float
    token: int = field(init=False)
    kept_at: float = field(init=False)
    asked_at: float = field(init=False)
    started_at: float | None = None
    ends_at: float | None = None
    again: LeasedJob | None = None
    has_lapsed: bool = False
    is_told: bool = False
    is_ending: bool = False
    is_lost: bool = False
    is_refused: bool = False
    extender: "Callable[[HeldJob, float], bool] | None" = None
    result: object = None
    thread: threading.Thread | None = None
    task: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        Attempt.__init__(self)
        self.token = self.leased.token
        self.kept_at = self.asked_at = self.came_at

    def extend(self, seconds: float) -> bool:
        return self.extender is not None and self.extender(self, seconds)

    @property
    def lease(self) -> Lease:
        """Return its lease."""
        return Lease(self.leased.number, self.token)


class HeldJobs:
    """Jobs by number, with leases of `lease_s` seconds of `clock`, which counts suspension."""

    def __init__(self, lease_s: float, clock: Callable[[], float]) -> None:
        self._lease_s = lease_s * (1.0 - CLOCK_ERROR)
        self._clock = clock
        self._lock = threading.Lock()
        self._jobs: dict[int, HeldJob] = {}
        self._running: dict[int, HeldJob] = {}
        #: Their abandoned handlers still run.
        self.lost: list[HeldJob] = []

    def __len__(self) -> int:
        """Return the number of held jobs."""
        return len(self._jobs)

    @property
    def running(self) -> int:
        """How many handlers run."""
        return len(self._running)

    def add(self, leased: LeasedJob) -> HeldJob | None:
        """Add a job; None: it was held, and goes on with the new lease."""
        with self._lock:
            held = self._jobs.get(leased.number)
            if held is not None:
                held.token = leased.token
                held.is_told = False
                if held.started_at is None:
                    held.leased = leased
                else:
                    held.again = leased
                held.kept_at = held.asked_at = self._clock()
                return None
            held = self._jobs[leased.number] = HeldJob(leased, self._clock())
            return held

    def begin(self, held: HeldJob) -> bool:
        """Note that a job begins; False if the lease ended or was given back."""
        now = self._clock()
        with self._lock:
            if self._jobs.get(held.leased.number) is not held or held.started_at is not None:
                return False
            if now - held.kept_at >= self._lease_s:  # suspended, or cut off from the server
                del self._jobs[held.leased.number]
                held.has_lapsed = True
                return False
            held.started_at = now
            self._running[held.leased.number] = held
            return True

    def end(self, held: HeldJob, *, lost: bool = False) -> bool:
        """Note that the handler has returned or is `lost`; False if lost before.

        The job stays until `remove`.
        """
        with self._lock:
            if held.is_ending:
                if held.is_lost and not lost:
                    self.lost.remove(held)
                return False
            held.is_ending, held.is_lost = True, lost
            if lost:
                self.lost.append(held)
            del self._running[held.leased.number]
            return True

    def take_untold(self) -> list[Lease]:
        """Return the leases of running handlers, each once."""
        with self._lock:
            untold = [held for held in self._running.values() if not held.is_told]
            for held in untold:
                held.is_told = True
            return [held.lease for held in untold]

    def find(self, lease: Lease) -> HeldJob | None:
        """Return the job of a lease."""
        with self._lock:
            held = self._jobs.get(lease.number)
            return held if held is not None and held.token == lease.token else None

    def take(self, held: HeldJob) -> bool:
        """Remove a held job unless begun; return whether removed."""
        with self._lock:
            if held.started_at is not None or self._jobs.get(held.leased.number) is not held:
                return False
            del self._jobs[held.leased.number]
            return True

    def remove(self, held: HeldJob) -> None:
        """Remove a job."""
        with self._lock:
            if self._jobs.get(held.leased.number) is held:
                del self._jobs[held.leased.number]

    def renew(self, held: HeldJob) -> HeldJob | None:
        """Replace an ended job by its next attempt, if leased already."""
        with self._lock:
            if self._jobs.get(held.leased.number) is not held or held.again is None:
                return None
            renewed = self._jobs[held.leased.number] = HeldJob(held.again, held.kept_at)
            return renewed

    def take_waiting(self, keep: int) -> list[HeldJob]:
        """Remove and return the jobs not begun, but for the first `keep`."""
        with self._lock:
            waiting = [held for held in self._jobs.values() if held.started_at is None][keep:]
            for held in waiting:
                del self._jobs[held.leased.number]
            return waiting

    def take_late(self, came_before: float, is_late: Callable[[str], bool]) -> list[HeldJob]:
        """Remove and return jobs not begun of the kinds that `is_late` chooses.

        No job, unless one came before `came_before`.
        """
        with self._lock:
            jobs = self._jobs.values()
            late = [held for held in jobs if held.started_at is None and is_late(held.leased.kind)]
            if not any(held.came_at <= came_before for held in late):
                return []
            for held in late:
                del self._jobs[held.leased.number]
            return late

    def unfinished(self) -> list[HeldJob]:
        """Return the jobs with running handlers."""
        with self._lock:
            return list(self._running.values())

    def to_keep(self, older_than: float) -> list[HeldJob]:
        """Return the jobs with `asked_at` before `older_than`, and set it to now."""
        now = self._clock()
        with self._lock:
            found = [held for held in self._jobs.values() if held.asked_at < older_than]
            for held in found:
                held.asked_at = now
            return found

    def kept(self, held: HeldJob, token: int, asked_at: float) -> None:
        """Note that the server kept a lease."""
        with self._lock:
            if held.token == token:
                held.kept_at = max(held.kept_at, asked_at)


class Pace:
    """How many jobs to hold for `concurrency` handlers; `clock` returns seconds.

    Without a lock: the numbers may be a little off.
    """

    def __init__(self, concurrency: int, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._average = LOOK_AHEAD_S
        #: When `look` is due.
        self.next_look: float = 0.0
        self.room: int = concurrency

    def add(self, seconds: float) -> None:
        """Note how long a handler ran."""
        self._average += _WEIGHT * (seconds - self._average)

    def look(self, running_seconds: float = 0.0) -> bool:
        """Update `room`; True: changed. `running_seconds`: of the oldest running handler."""
        now = self._clock()
        if now < self.next_look:
            return False
        self.next_look = now + _LOOK_S
        self._average = max(self._average, min(running_seconds, LOOK_AHEAD_S))
        ahead = min(MAX_AHEAD, max(1, int(LOOK_AHEAD_S / max(self._average, 1e-6))))
        room = min(MAX_ROOM, self._concurrency * ahead)
        # Small changes do not count.
        if self.room // 2 < room < self.room * 2 and room != self._concurrency:
            return False
        changed = room != self.room
        self.room = room
        return changed
