"""WorkerCounts: what has become of a worker's jobs. Any thread."""

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class WorkerCounts:
    """What has become of jobs at a worker: done; failed; and lost, as the lease had ended."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, done: int = 0, failed: int = 0, lost: int = 0) -> None:
        """Count some more."""
        with self._lock:
            self.done += done
            self.failed += failed
            self.lost += lost
