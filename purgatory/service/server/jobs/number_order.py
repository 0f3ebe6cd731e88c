"""NumberOrder: jobs by number, the order of submission. Store thread alone."""

from collections.abc import Iterator
from typing import Final

from purgatory.service.server.records.job_record import JobRecord

_SHIFT: Final = 10


def block_of(number: int) -> int:
    """Return the block of a number."""
    return number >> _SHIFT


class NumberOrder:
    """Jobs by number, in blocks of about a thousand numbers."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[int, JobRecord]] = {}  # no empty ones

    def add(self, job: JobRecord) -> None:
        """Add a job."""
        key = block_of(job.number)
        block = self._blocks.get(key)
        if block is None:
            self._blocks[key] = {job.number: job}
        else:
            block[job.number] = job

    def remove(self, job: JobRecord) -> None:
        """Remove a job."""
        key = block_of(job.number)
        block = self._blocks[key]
        del block[job.number]
        if not block:
            del self._blocks[key]

    def before(self, number: int, blocks: dict[int, int] | None = None) -> Iterator[JobRecord]:
        """Yield jobs below a number, the newest first; no job may change meanwhile.

        `blocks`: only jobs of these.
        """
        last = block_of(number)
        keys = list(self._blocks) if blocks is None else list(blocks)
        for key in sorted([key for key in keys if key <= last], reverse=True):
            block = self._blocks[key]
            for found in sorted(block, reverse=True):
                if found < number:
                    yield block[found]
