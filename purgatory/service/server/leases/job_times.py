"""JobTimes: when jobs are ready again, and until when they may begin; LeaseTimes: leases' ends.

Used by the store thread alone.
"""

from heapq import heapify, heappop, heappush
from typing import Final

from purgatory.service.server.leases.due_job import DEAD, RETRYING, SCHEDULED, DueJob

# A heap may have so many stale entries, and as many as there are jobs, or leases.
_STALE_ENTRIES: Final = 1024


class JobTimes:
    """The times of the jobs of `by_number`. An entry is stale if the job has another time."""

    def __init__(self, by_number: dict[int, DueJob]) -> None:
        self._by_number = by_number
        self._later: list[tuple[int, int]] = []  # a heap: when a job is ready, and its number
        self._starts: list[tuple[int, int]] = []  # a heap: latest time to begin, and number
        #: How many jobs wait for a time.
        self.waiting: int = 0

    def wait(self, job: DueJob, at_ms: int) -> None:
        """Have `take_ready` find a job at a time; the caller sets the job's `at_ms`."""
        self.waiting += 1
        heappush(self._later, (at_ms, job.record.seq))
        if len(self._later) > 2 * self.waiting + _STALE_ENTRIES:
            self._later = [entry for entry in self._later if self._waiting_job(entry) is not None]
            heapify(self._later)

    def _waiting_job(self, entry: tuple[int, int]) -> DueJob | None:
        """Return the job of an entry of `_later`; None if it is stale."""
        job = self._by_number.get(entry[1])
        if job is None or job.at_ms != entry[0] or job.state not in (SCHEDULED, RETRYING):
            return None
        return job

    def take_ready(self, now_ms: int) -> list[DueJob]:
        """Return the jobs whose time has come, in order; the caller changes their states."""
        found: list[DueJob] = []
        while self._later and self._later[0][0] <= now_ms:
            job = self._waiting_job(heappop(self._later))
            if job is not None:
                self.waiting -= 1
                found.append(job)
        return found

    def watch_start(self, job: DueJob) -> None:
        """Have `take_not_begun` find a job that is to begin within a time."""
        if job.start_by_ms:
            heappush(self._starts, (job.start_by_ms, job.record.seq))

    def _starting_job(self, entry: tuple[int, int]) -> DueJob | None:
        """Return the job of an entry of `_starts`; None if it is stale."""
        job = self._by_number.get(entry[1])
        if job is None or job.start_by_ms != entry[0] or job.state == DEAD:
            return None
        return job

    def take_not_begun(self, now_ms: int) -> list[DueJob]:
        """Return the jobs that were to begin before `now_ms`; each once."""
        found: list[DueJob] = []
        while self._starts and self._starts[0][0] < now_ms:
            job = self._starting_job(heappop(self._starts))
            if job is not None:
                found.append(job)
        return found

    def next_ms(self) -> int | None:
        """Return when there is something to take; None: never."""
        while self._starts and self._starting_job(self._starts[0]) is None:
            heappop(self._starts)
        times = [self._later[0][0]] if self._later else []
        if self._starts:
            times.append(self._starts[0][0] + 1)
        return min(times) if times else None


#: A server that looks so much later for the ends of leases than it had planned was absent.
LATE_MS: Final = 200


class LeaseTimes:
    """The ends of the leases of the jobs of `by_number`."""

    def __init__(self, by_number: dict[int, DueJob]) -> None:
        self._by_number = by_number
        # A heap: when a lease ends, token, number. An entry is stale if the token is another's.
        self._ends: list[tuple[int, int, int]] = []
        #: When leases were given, or looked at for their ends.
        self.looked_ms: int = 0

    def watch(self, job: DueJob, leased: int = 0) -> None:
        """Let `ended` find a lease; so many jobs are `leased`, 0: unimportant."""
        heappush(self._ends, (job.until_ms, job.token, job.record.seq))
        if leased and len(self._ends) > 2 * leased + _STALE_ENTRIES:
            self._ends = [entry for entry in self._ends if self._leased_job(*entry) is not None]
            heapify(self._ends)

    def _leased_job(self, _: int, token: int, number: int) -> DueJob | None:
        """Return the job of an entry of `_ends`; None if it is stale."""
        job = self._by_number.get(number)
        return job if job is not None and job.holder is not None and job.token == token else None

    def ended(self, now_ms: int, grace_ms: int) -> list[DueJob]:
        """Return the jobs whose leases have ended by time; each once.

        `grace_ms`: leases last so much longer this time. If the server has come late, as after a
        stop of its process, leases last longer by its absence.
        """
        self._add_absence(now_ms)
        now_ms -= grace_ms
        found: list[DueJob] = []
        while self._ends and self._ends[0][0] <= now_ms:
            entry = heappop(self._ends)
            job = self._leased_job(*entry)
            if job is None:
                continue
            if job.until_ms > now_ms:  # it was kept
                heappush(self._ends, (job.until_ms, *entry[1:]))
            else:
                found.append(job)
        return found

    def _add_absence(self, now_ms: int) -> None:
        """Let all leases last longer by the time that the server was absent."""
        absent_ms = now_ms - self.looked_ms
        self._drop_stale()
        planned_ms = max(self.looked_ms, self._ends[0][0] if self._ends else now_ms)
        self.looked_ms = now_ms
        if now_ms - planned_ms <= LATE_MS:
            return
        leased = {entry[1:]: self._leased_job(*entry) for entry in self._ends}
        self._ends = []
        for (token, number), job in leased.items():
            if job is not None:
                job.until_ms += absent_ms
                self._ends.append((job.until_ms, token, number))
        heapify(self._ends)

    def _drop_stale(self) -> None:
        while self._ends and self._leased_job(*self._ends[0]) is None:
            heappop(self._ends)

    def next_ms(self) -> int | None:
        """Return when a lease ends, unless it is kept; None: there is none."""
        self._drop_stale()
        return self._ends[0][0] if self._ends else None
