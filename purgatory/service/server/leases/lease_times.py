"""LeaseTimes: when leases end, and absences of the server. Store thread alone."""

from heapq import heapify, heappop, heappush
from typing import Final

from purgatory.service.server.leases.due_job import DueJob

#: A server was absent if it looks so much later than planned for ends of leases.
LATE_MS: Final = 200
# Stale entries of the heap, beside as many as leases.
_STALE_ENTRIES: Final = 1024


class LeaseTimes:
    """The ends of the leases of the jobs of `by_number`."""

    def __init__(self, by_number: dict[int, DueJob]) -> None:
        self._by_number = by_number
        # A heap: when a lease ends, token, number. Stale: the job has another token.
        self._ends: list[tuple[int, int, int]] = []
        #: The last time at which leases were given or examined.
        self.looked_ms: int = 0

    def watch(self, job: DueJob, leased: int = 0) -> None:
        """Let `ended` find a lease; `leased`: how many leases exist, if known."""
        heappush(self._ends, (job.until_ms, job.token, job.record.seq))
        if leased and len(self._ends) > 2 * leased + _STALE_ENTRIES:
            self._ends = [entry for entry in self._ends if self._leased_job(*entry) is not None]
            heapify(self._ends)

    def _leased_job(self, _: int, token: int, number: int) -> DueJob | None:
        job = self._by_number.get(number)
        return job if job is not None and job.holder is not None and job.token == token else None

    def ended(self, now_ms: int, grace_ms: int) -> list[DueJob]:
        """Return the jobs whose leases have ended by time, each once.

        Leases last `grace_ms` longer, and after an absence of the server, as of a stopped process,
        longer by the absence.
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
        """Return when a lease ends, if any."""
        self._drop_stale()
        return self._ends[0][0] if self._ends else None
