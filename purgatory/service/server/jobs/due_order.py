"""DueOrder: jobs in order of their due times. For the store thread.

A tree of buckets of about an hour. A bucket with many jobs is divided into buckets of about a
second, then of a millisecond, then by number. So adding and removing a job take one to four dicts;
a reader sorts a bucket at a time.

A `NumberedOrder` also counts its jobs by blocks of numbers, to find the newest among many.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from purgatory.service.server.jobs.number_order import block_of
from purgatory.service.server.records.job_record import JobRecord

#: A bucket with more jobs is divided.
MOST: Final = 512
# Shift of a bucket -> shift of its parts; below 0: of numbers.
_NEXT: Final = {22: 10, 10: 0, 0: -10}
#: The shift of the first buckets.
FIRST_SHIFT: Final = 22
#: The shift of a single bucket, for few jobs.
UNDIVIDED: Final = 62
_BEFORE_ALL: Final = -1


class DueOrder:
    """Jobs by `due_ms` and number; a bucket has the jobs of 2 ** `shift` milliseconds.

    With a `shift` below 0 all jobs have one due time, and a bucket has 2 ** -`shift` numbers.
    """

    __slots__ = ("_buckets", "_parts", "_shift", "length")

    def __init__(self, shift: int = FIRST_SHIFT) -> None:
        self._shift: int = shift
        self._buckets: dict[int, dict[int, JobRecord]] = {}  # no empty ones; each by number
        self._parts: dict[int, DueOrder] = {}  # divided buckets
        self.length: int = 0

    def add(self, job: JobRecord) -> None:
        """Add a job."""
        order = self
        while True:
            order.length += 1
            key = order._key(job.due_ms, job.number)
            part = order._parts.get(key) if order._parts else None
            if part is None:
                break
            order = part
        bucket = order._buckets.get(key)
        if bucket is None:
            order._buckets[key] = {job.number: job}
            return
        bucket[job.number] = job
        if len(bucket) > MOST and order._shift in _NEXT:
            order._divide(key)

    def _key(self, due_ms: int, number: int) -> int:
        return due_ms >> self._shift if self._shift >= 0 else number >> -self._shift

    def _divide(self, key: int) -> None:
        part = self._parts[key] = DueOrder(_NEXT[self._shift])
        for job in self._buckets.pop(key).values():
            part.add(job)

    def remove(self, job: JobRecord) -> None:
        """Remove a job; its `due_ms` is as at `add`."""
        self.length -= 1
        key = self._key(job.due_ms, job.number)
        part = self._parts.get(key) if self._parts else None
        if part is not None:
            part.remove(job)
            if not part.length:
                del self._parts[key]
            return
        bucket = self._buckets[key]
        del bucket[job.number]
        if not bucket:
            del self._buckets[key]

    def after(self, due_ms: int, number: int) -> Iterator[JobRecord]:
        """Yield the jobs beyond a place, in order; no job may change meanwhile."""
        first = self._key(due_ms, number)
        keys = [key for key in self._buckets if key >= first]
        keys += [key for key in self._parts if key >= first]
        keys.sort()
        for key in keys:
            bucket = self._buckets.get(key)
            if bucket is None:
                is_here = self._shift or key == first  # else due later
                yield from self._parts[key].after(due_ms, number if is_here else _BEFORE_ALL)
            elif self._shift > 0:
                for job in sorted(bucket.values(), key=place_of):
                    if place_of(job) > (due_ms, number):
                        yield job
            else:  # due in one millisecond
                numbers = sorted(bucket)
                start = bisect_right(numbers, number) if key == first else 0
                for at in range(start, len(numbers)):
                    yield bucket[numbers[at]]


def place_of(job: JobRecord) -> tuple[int, int]:
    """Return due time and number."""
    return job.due_ms, job.number


#: An order of more jobs has blocks.
FEW: Final = 5000


class NumberedOrder(DueOrder):
    """A `DueOrder` that counts jobs by block of `NumberOrder`.

    `blocks`: None until there are more than FEW jobs.
    """

    __slots__ = ("blocks",)

    def __init__(self, shift: int = FIRST_SHIFT) -> None:
        super().__init__(shift)
        self.blocks: dict[int, int] | None = None  # no zeros

    def add(self, job: JobRecord) -> None:
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
        super().remove(job)
        if self.blocks is None:
            return
        key = block_of(job.number)
        left = self.blocks[key] - 1
        if left:
            self.blocks[key] = left
        else:
            del self.blocks[key]
