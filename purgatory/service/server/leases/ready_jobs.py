"""ReadyJobs: the waiting jobs of a kind and a client name.

The highest priority is first, then the longest waiting. After AGED_MS a job counts as of the
highest priority, so that none starves. Store thread alone.
"""

import contextlib
from collections import deque
from typing import Final

from purgatory.service.server.leases.due_job import DueJob

AGED_MS: Final = 600_000
HIGHEST: Final = 10
# Entries of removed jobs, beside as many as jobs wait.
_STALE_ENTRIES: Final = 64


class ReadyJobs:
    """A queue by priority; O(1) for jobs of one priority, else O(priorities)."""

    __slots__ = ("_levels", "_stale", "count")

    def __init__(self) -> None:
        self._levels: dict[int, deque[DueJob]] = {}  # by priority, the highest first
        self._stale = 0  # entries of removed jobs
        self.count: int = 0

    def put(self, job: DueJob, *, first: bool = False) -> None:
        """Add a job; `first`: before all of its priority."""
        level = self._levels.get(job.priority)
        if level is None:
            self._levels[job.priority] = level = deque()
            if len(self._levels) > 1:
                self._levels = dict(sorted(self._levels.items(), reverse=True))
        job.oldest_ms = job.ready_ms
        if first:
            if level:
                job.oldest_ms = min(job.ready_ms, level[0].oldest_ms)
            level.appendleft(job)
        else:
            level.append(job)
        job.is_waiting = True
        self.count += 1

    def remove(self, job: DueJob) -> None:
        """Remove a waiting job."""
        job.is_waiting = False
        self.count -= 1
        self._stale += 1
        if self._stale > self.count + _STALE_ENTRIES:
            self._drop_stale()

    def _drop_stale(self) -> None:
        self._stale = 0
        for priority, level in list(self._levels.items()):
            seen = dict.fromkeys([job for job in level if job.is_waiting])
            if seen:
                self._levels[priority] = deque(seen)
            else:
                del self._levels[priority]

    def pop(self, now_ms: int) -> DueJob | None:
        """Remove the next job, if any, and jobs before it that are not to begin any more."""
        while self._levels:
            priority = self._next_level(now_ms)
            level = self._levels[priority]
            job = level.popleft()
            if not level:
                del self._levels[priority]
            if not job.is_waiting:
                self._stale -= 1
                continue
            job.is_waiting = False
            self.count -= 1
            if not job.is_late(now_ms):
                return job
        return None

    def oldest_ms(self) -> int | None:
        """Return since when the longest waiting job is ready, if any; any thread.

        Removed jobs may hide others.
        """
        found: int | None = None
        for level in list(self._levels.values()):
            with contextlib.suppress(IndexError):  # the store thread has taken it
                job = level[0]
                if job.is_waiting and (found is None or job.oldest_ms < found):
                    found = job.oldest_ms
        return found

    def _next_level(self, now_ms: int) -> int:
        first = next(iter(self._levels))
        if len(self._levels) == 1:
            return first
        found, since_ms = first, now_ms + 1
        for priority, level in self._levels.items():
            oldest_ms = level[0].oldest_ms
            is_urgent = priority == HIGHEST or oldest_ms <= now_ms - AGED_MS
            if is_urgent and oldest_ms < since_ms:
                found, since_ms = priority, oldest_ms
        return found
