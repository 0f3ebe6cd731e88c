"""LaneLock: the lock of one lane of a timer, inside a lock that all its lanes have in common.

Under a lane's lock a thread may run Python code, to make a bucket or to drain, and in that a
finalizer, which may act on tasks of any lane. So both sides take the common lock first: no two
threads wait for each other's lanes. It is fair, as every `ReadWriteLock`: a thread that adds does
not wait for more than a batch of a drain, of whichever lane.

A section takes the lane's own lock alone. No Python code runs in one.

For timers that have several lanes: see `lanes`. Any thread.
"""

import threading
from types import TracebackType
from typing import Any, Final

from timingwheel.locks.rwlock import ReadWriteLock, is_owned


class LaneLock(ReadWriteLock):
    """As `ReadWriteLock`. `common`: the lock that the timer's lanes have in common."""

    __slots__ = ("_common",)

    def __init__(self, common: ReadWriteLock) -> None:
        super().__init__()
        self._common: Final = common
        self._reader = _LaneReader(common, self._lock)

    def _queue_behind_writer(self) -> None:
        # The reader queues for the common lock, which the writer has.
        self.check_usable()

    def __enter__(self) -> None:
        self.check_usable()
        self._common.__enter__()
        try:
            self._writer = threading.get_ident()
            self._lock.acquire()
        except BaseException:
            self.release_write()
            raise

    def _try_release_write(self) -> bool:
        try:
            if self._writer == threading.get_ident():
                if is_owned(self._lock):
                    self._lock.release()
                self._writer = 0
        except MemoryError:
            return False
        self._common.release_write()
        return True


class _LaneReader:
    """The read side of a lane's lock."""

    def __init__(self, common: ReadWriteLock, lock: Any) -> None:
        self._common: Final = common
        self._lock: Final = lock

    def __enter__(self) -> None:
        self._common.enter_reading()
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
        self._common.leave_reading()
