"""DeferredExecutor: an executor that runs nothing until its owner asks for it."""

from collections import deque
from collections.abc import Callable
from typing import Any

_Run = Callable[[Any], None]


class DeferredExecutor:
    """A `lowlevel.TaskExecutor` that keeps buckets until `run` is called. One thread."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[_Run, Any]] = deque()

    def run(self, enough: Callable[[], bool]) -> None:
        """Run the buckets in order, until there are no more or `enough` returns True."""
        while self._buckets and not enough():
            run, bucket = self._buckets[0]
            run(bucket)
            if not len(bucket):  # else it was interrupted
                self._buckets.popleft()

    def interrupt(self) -> None:
        """Have `run` return after the present task; called by the task. The rest runs later."""
        if self._buckets:
            self._buckets[0][1].take_over()

    def __bool__(self) -> bool:
        """Return whether any bucket is left."""
        return bool(self._buckets)

    def execute(self, run: _Run, bucket: Any) -> None:
        """See `timingwheel.lowlevel.TaskExecutor`."""
        self._buckets.append((run, bucket))

    def flush(self) -> None:
        """Do nothing: there is no thread to wake."""

    def resume(self) -> None:
        """Do nothing: the owner calls `run` again."""

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Do nothing: what was not run is still pending on disk."""
        del wait, timeout
