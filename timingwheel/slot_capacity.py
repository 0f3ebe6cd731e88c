"""How many slots a bucket has, and when it has more of them than it needs. Any thread."""

from typing import Final

from _purgatory_cpython.mypyc_types import i32

# Slots of a new bucket, and by how many it grows: it doubles up to SMALL_CAPACITY, then grows by an
# eighth, by GROWTH_LIMIT at most.
MIN_CAPACITY: Final = 16
SMALL_CAPACITY: Final = 256
GROWTH_LIMIT: Final = 4096
# A bucket from which all was cancelled keeps that many: it may be used again.
RETAINED_CAPACITY: Final = 32

# Slots that a compaction pass reads whenever a slot is needed: more than are added meanwhile, so
# that the pass ends.
COMPACTION_STEP: Final = 4 * GROWTH_LIMIT


def growth_of(capacity: i32) -> i32:
    """Return by how many slots to grow."""
    return min(max(capacity >> 3, min(capacity, SMALL_CAPACITY)), GROWTH_LIMIT)


def is_sparse(used: i32, count: i32) -> bool:
    """Return whether so many tasks in so many slots are worth a compaction pass."""
    return used > 2 * count + GROWTH_LIMIT
