"""LeaseReturns: reports how leases end, again after a failure of the store.

Any thread may call `send` and `give_back`; `send_again` is for the worker's thread.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from purgatory.service.client.futures import HandledReply
from purgatory.service.errors import Refused, ServiceError, StoreFailed
from purgatory.service.protocol import How, LeaseEnd
from purgatory.service.worker.held_jobs import HeldJob, HeldJobs

if TYPE_CHECKING:
    from purgatory.service.client.later_calls import JobCalls

log: logging.Logger = logging.getLogger(__name__)


#: Until the next attempt after a refused end.
RETRY_MS: Final = 1000


@dataclass(slots=True)
class WorkerCounts:
    """Attempts of a worker that have ended; `lost`: with an ended lease."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def add(self, done: int = 0, failed: int = 0, lost: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            self.done += done
            self.failed += failed
            self.lost += lost


class LeaseReturns:
    """Sends the ends of jobs of `held`; calls `on_all_answered` when no end is unanswered.

    `on_again` gets the next attempt of a job, leased meanwhile.
    """

    def __init__(
        self,
        name: str,
        calls: "JobCalls",
        held: HeldJobs,
        counts: WorkerCounts,
        on_all_answered: Callable[[], None],
        on_again: Callable[[HeldJob], None],
    ) -> None:
        self._name = name
        self._calls = calls
        self._held = held
        self._counts = counts
        self._on_all_answered = on_all_answered
        self._on_again = on_again
        # For `send_again`. The I/O thread adds meanwhile: no other list takes its place.
        self._again: deque[tuple[HeldJob, LeaseEnd]] = deque()
        self._unanswered: set[HandledReply[bool]] = set()

    @property
    def left(self) -> int:
        """How many ends the server has not taken."""
        return len(self._unanswered) + len(self._again)

    def send_again(self) -> None:
        """Send the ends that the store did not take."""
        for _ in range(len(self._again)):
            self.send(*self._again.popleft())

    def give_back(self, jobs: list[HeldJob]) -> None:
        """Return jobs to the server without an attempt."""
        for held in reversed(jobs):  # the server puts each before its waiting jobs
            self.send(held, LeaseEnd(held.leased.number, held.token, How.RETURNED))

    def send(self, held: HeldJob, end: LeaseEnd) -> None:
        """Send the end of a lease."""
        reply: HandledReply[bool] = HandledReply(partial(self._on_answer, held, end))
        self._unanswered.add(reply)
        try:
            self._calls.finish(end, reply)
        except ServiceError as error:  # closed: the lease ends by itself
            self._unanswered.discard(reply)
            log.warning("worker %r: %s", self._name, error)

    def _on_answer(self, held: HeldJob, end: LeaseEnd, reply: Any) -> None:
        try:
            self._on_ended(held, end, reply)
        finally:  # also if a log handler raises
            self._unanswered.discard(reply)
            if not self.left:
                self._on_all_answered()

    def _on_ended(self, held: HeldJob, end: LeaseEnd, reply: Any) -> None:
        error = reply.exception()
        if isinstance(error, StoreFailed):
            self._again.append((held, end))
            return
        if isinstance(error, Refused) and end.how != How.RETURNED and not held.is_refused:
            # Else the lease would lapse, and this worker get no jobs.
            held.is_refused = True
            text = f"the server refused the end of the attempt: {error}"
            self.send(held, LeaseEnd(end.number, end.token, How.FAILED, RETRY_MS, text))
            log.warning("worker %r: job %r: %s", self._name, held.leased.op_id, text)
            return
        if error is None and not reply.result() and held.token != end.token:
            end.token = held.token  # this worker got the job again meanwhile
            self.send(held, end)
            return
        if held.token != end.token and (renewed := self._held.renew(held)) is not None:
            self._on_again(renewed)
        else:
            self._held.remove(held)
        if error is not None:
            log.warning("worker %r: job %r: %s", self._name, held.leased.op_id, error)
        elif not reply.result():
            self._on_refused(held, end)
        elif end.how == How.DONE:
            self._counts.add(done=1)
        elif end.how == How.FAILED:
            self._counts.add(failed=1)

    def _on_refused(self, held: HeldJob, end: LeaseEnd) -> None:
        if end.how != How.RETURNED:  # else nothing is lost
            self._counts.add(lost=1)
            log.warning("worker %r had lost its lease of job %r", self._name, held.leased.op_id)
