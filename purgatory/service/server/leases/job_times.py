"""JobTimes: when jobs are ready again or must begin. Store thread alone."""

from heapq import heapify, heappop, heappush
from typing import Final

from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.records.job_record import DEAD

#: Jobs not begun in time that a transaction cancels.
NOT_BEGUN_AT_ONCE: Final = 256
# Stale entries of a heap, beside as many as jobs wait.
_STALE_ENTRIES: Final = 1024


class JobTimes:
    """Times of the jobs of `by_number`. An entry is stale if the job has another time."""

    def __init__(self, by_number: dict[int, DueJob]) -> None:
        self._by_number = by_number
        self._later: list[tuple[int, int]] = []  # a heap: ready time, number
        self._starts: list[tuple[int, int]] = []  # a heap: latest start, number
        #: Jobs that wait for a time.
        self.waiting: int = 0

    def wait(self, job: DueJob) -> None:
        """Let `take_ready` find a job at its `at_ms`."""
        self.waiting += 1
        heappush(self._later, (job.at_ms, job.record.seq))
        if len(self._later) > 2 * self.waiting + _STALE_ENTRIES:
            self._later = [entry for entry in self._later if self._waiting_job(entry) is not None]
            heapify(self._later)

    def _waiting_job(self, entry: tuple[int, int]) -> DueJob | None:
        job = self._by_number.get(entry[1])
        return job if job is not None and job.at_ms == entry[0] else None

    def take_ready(self, now_ms: int) -> list[DueJob]:
        """Return ready jobs, each once; the caller changes their states."""
        found: dict[int, DueJob] = {}  # by number: a job moved to the same time has two entries
        while self._later and self._later[0][0] <= now_ms:
            job = self._waiting_job(heappop(self._later))
            if job is not None and job.record.seq not in found:
                self.waiting -= 1
                found[job.record.seq] = job
        return list(found.values())

    def watch_start(self, job: DueJob) -> None:
        """Let `take_not_begun` find a job that has to begin within a time."""
        if job.start_by_ms:
            heappush(self._starts, (job.start_by_ms, job.record.seq))
            if len(self._starts) > 2 * len(self._by_number) + _STALE_ENTRIES:
                starts = {entry for entry in self._starts if self._starting_job(entry) is not None}
                self._starts = sorted(starts)  # a heap, too

    def _starting_job(self, entry: tuple[int, int]) -> DueJob | None:
        job = self._by_number.get(entry[1])
        if job is None or job.start_by_ms != entry[0] or job.state == DEAD:
            return None
        return job

    def take_not_begun(self, now_ms: int) -> list[DueJob]:
        """Return jobs that had to begin before `now_ms`, each once, at most NOT_BEGUN_AT_ONCE."""
        found: list[DueJob] = []
        while self._starts and self._starts[0][0] < now_ms and len(found) < NOT_BEGUN_AT_ONCE:
            job = self._starting_job(heappop(self._starts))
            if job is not None:
                found.append(job)
        return found

    def next_ms(self) -> int | None:
        """Return when a job can be taken, if ever."""
        while self._starts and self._starting_job(self._starts[0]) is None:
            heappop(self._starts)
        times = [self._later[0][0]] if self._later else []
        if self._starts:
            times.append(self._starts[0][0] + 1)
        return min(times) if times else None
