"""JobWaits: which jobs' ends the callers of a client wait for.

The client asks the server once to watch a job, and again on each new connection. Any thread may
`enter` and `leave`; the rest is for the thread with the `Turn`.
"""

import threading
from collections.abc import Iterable
from typing import Any

from purgatory.service.client.calls import Call, reject, resolve
from purgatory.service.client.futures import ReplyFuture
from purgatory.service.errors import JobCancelled, JobFailed, JobUnknown, TooLarge
from purgatory.service.job_messages import ENDED_STATES, JobStatus


class JobEndFuture(ReplyFuture[JobStatus]):
    """The last status of a job, for one caller."""

    def __init__(self, job_id: str) -> None:
        super().__init__()
        self.job_id = job_id
        #: Whether the server has said meanwhile that the job has not ended.
        self.goes_on: bool = False


class JobWatch(ReplyFuture[JobStatus]):
    """A job that the server watches, or will; `futures`: of its callers.

    As the future of the call, the watch only fails, if the server refuses.
    """

    def __init__(self) -> None:
        super().__init__()
        self.futures: dict[JobEndFuture, None] = {}
        #: Whether the server watches the job, on this connection.
        self.is_watched: bool = False


class JobWaits:
    """The watched jobs, by id."""

    def __init__(self) -> None:
        # A leaf lock for the fields below. Re-entrant: a finalizer may make a call.
        self._lock = threading.RLock()
        self._watches: dict[str, JobWatch] = {}
        #: Ids that the server need not watch any longer.
        self.left: dict[str, None] = {}

    def renew_locks(self) -> None:
        """See `LockOwner`."""
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._watches)

    def enter(self, future: JobEndFuture) -> JobWatch | None:
        """Have a future resolved; return a watch if the caller has to ask the server."""
        with self._lock:
            watch = self._watches.get(future.job_id)
            if watch is not None:
                watch.futures[future] = None
                future.goes_on = watch.is_watched
                return None
            watch = self._watches[future.job_id] = JobWatch()
            watch.futures[future] = None
            return watch

    def leave(self, future: JobEndFuture) -> None:
        """End a caller's wait."""
        with self._lock:
            watch = self._watches.get(future.job_id)
            if watch is None or watch.futures.pop(future, self) is self or watch.futures:
                return
            del self._watches[future.job_id]
            if watch.is_watched:  # else `note` hears of it with the answer
                self.left[future.job_id] = None

    def take_left(self) -> list[str]:
        """Remove and return the ids in `left` for which no caller waits again."""
        with self._lock:
            left, self.left = self.left, {}
            return [job_id for job_id in left if job_id not in self._watches]

    def note(self, statuses: Iterable[JobStatus]) -> None:
        """Resolve the futures of jobs that have ended or are unknown."""
        for status in statuses:
            is_over = status.state == "unknown" or status.state in ENDED_STATES
            with self._lock:
                watch = self._watches.get(status.job_id)
                if watch is None:
                    if not is_over:
                        self.left[status.job_id] = None
                    continue
                watch.is_watched = True
                if not is_over:
                    for future in watch.futures:
                        future.goes_on = True
                    continue
                del self._watches[status.job_id]
            for future in watch.futures:
                resolve(future, status)

    def take_lost(self) -> list[Call]:
        """Return the calls that watch again, on a new connection."""
        with self._lock:
            lost = {job_id: watch for job_id, watch in self._watches.items() if watch.is_watched}
            for watch in lost.values():
                watch.is_watched = False
            return list(lost.items())

    def fail(self, calls: Iterable[tuple[str, ReplyFuture[Any]]], error: Exception) -> None:
        """Fail the futures of jobs that the server does not watch."""
        for job_id, call in calls:
            with self._lock:
                watch = self._watches.get(job_id)
                if watch is None or watch is not call:
                    continue
                del self._watches[job_id]
            for future in watch.futures:
                reject(future, error)

    def fail_all(self, error: Exception) -> None:
        """Fail the futures of all jobs."""
        with self._lock:
            calls = list(self._watches.items())
        self.fail(calls, error)


def result_of(job_id: str, status: JobStatus | None) -> Any:
    """Return the value of a done job. Raises JobFailed, JobCancelled, JobUnknown, TooLarge."""
    if status is None or status.state == "unknown":
        raise JobUnknown(job_id)
    if status.state == "cancelled":
        raise JobCancelled(job_id, status.error)
    if status.state != "done":
        raise JobFailed(job_id, status.error, status.attempts)
    if status.left_out:
        text = (
            f"the values of job {job_id!r} are too large for a message, by {status.left_out} bytes"
        )
        raise TooLarge(text)
    return status.result


def ended_status(job_id: str, status: JobStatus | None, seconds: float) -> JobStatus | None:
    """Return the status of an ended or unknown job. Raises TimeoutError for another."""
    if status is not None and status.state not in ENDED_STATES:
        raise still_pending(job_id, seconds)
    return status


def still_pending(job_id: str, seconds: float) -> TimeoutError:
    """Return the error after a timeout."""
    return TimeoutError(f"job {job_id!r} has not ended within {seconds} s")
