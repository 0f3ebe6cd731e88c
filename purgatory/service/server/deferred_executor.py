"""The executor of a timer whose owner runs what is due himself, a portion at a time."""

from collections import deque
from collections.abc import Callable
from typing import Any

_Run = Callable[[Any], None]


class DeferredExecutor:
    """A `timingwheel.TaskExecutor` that keeps buckets until `run` is called. One thread."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[_Run, Any]] = deque()

    def run(self, enough: Callable[[], bool]) -> None:
        """Run what is due, bucket by bucket, until ``enough`` says so."""
        while self._buckets and not enough():
            run, bucket = self._buckets[0]
            run(bucket)
            self._buckets.popleft()

    def __bool__(self) -> bool:
        """Whether anything is left to run."""
        return bool(self._buckets)

    def execute(self, run: _Run, bucket: Any) -> None:
        """See `timingwheel.TaskExecutor`."""
        self._buckets.append((run, bucket))

    def flush(self) -> None:
        """Nothing to do: its owner looks by himself."""

    def resume(self) -> None:
        """Nothing to do: likewise."""

    def close(self, *, wait: bool, timeout: float | None) -> None:
        """Nothing to do: what was not run stays pending on disk."""
        del wait, timeout
