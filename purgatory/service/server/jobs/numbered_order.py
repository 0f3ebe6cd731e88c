"""NumberedOrder: jobs by due time that also knows in which blocks of numbers its jobs are.

So the newest of many jobs are found among few others. Used by the store thread alone.
"""

from typing import Final

from purgatory.service.server.jobs.due_order import FIRST_SHIFT, DueOrder
from purgatory.service.server.jobs.number_order import block_of
from purgatory.service.server.records.job_record import JobRecord

#: An order of more jobs has blocks; fewer are sorted by number when they are listed.
FEW: Final = 5000


class NumberedOrder(DueOrder):
    """See `DueOrder`.

    `blocks`: how many of the jobs each block of `NumberOrder` has, once there were more than FEW.
    """

    __slots__ = ("blocks",)

    def __init__(self, shift: int = FIRST_SHIFT) -> None:
        super().__init__(shift)
        self.blocks: dict[int, int] | None = None  # no zeros

    def add(self, job: JobRecord) -> None:
        """Add a job."""
        super().add(job)
        if self.blocks is not None:
            self._count(job)
        elif self.length > FEW:
            self.blocks = {}
            for each in self.after(-1, -1):
                self._count(each)

    def _count(self, job: JobRecord) -> None:
        assert self.blocks is not None
        key = block_of(job.number)
        self.blocks[key] = self.blocks.get(key, 0) + 1

    def remove(self, job: JobRecord) -> None:
        """Remove a job; its `due_ms` is unchanged since `add`."""
        super().remove(job)
        if self.blocks is None:
            return
        key = block_of(job.number)
        left = self.blocks[key] - 1
        if left:
            self.blocks[key] = left
        else:
            del self.blocks[key]
