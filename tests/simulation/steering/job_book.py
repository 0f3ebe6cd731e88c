"""JobBook: what a world's program and workers know of its jobs, and what must hold of them.

It knows nothing of the server's inside. What the program was told comes in one order, because the
program asks for one thing at a time.
"""

from collections.abc import Callable
from typing import Final

from purgatory.service.protocol import How
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S, World
from tests.simulation.records import NEVER
from tests.simulation.steering.kind_rules import KindRules
from tests.simulation.steering.steered_job import FOREVER_NS, AttemptRecord, SteeredJob

#: Nanoseconds for the rounding of times to milliseconds, and of moved clocks.
ROUNDING_NS: Final = 2 * NS_PER_MS
#: The server may remember an id for so much longer, and notice an end so late.
LATER_NS: Final = 40 * NS_PER_S
# A message may be under way for so long, where nothing holds it up.
_UNDER_WAY_NS: Final = NS_PER_S


class JobBook:
    """The jobs of one world by id: the last life of each; `report` is told of violations."""

    def __init__(self, world: World, report: Callable[[str], None], kinds: KindRules) -> None:
        self._world = world
        self._report = report
        self.kinds = kinds
        #: By how much the times of jobs may be wrong: a machine was booted, and its wall clock set.
        self.lost_time_ns: Callable[[], int] = int
        self.jobs: dict[str, SteeredJob] = {}
        #: Next lives of ids whose scheduling was not answered yet.
        self.next_lives: dict[str, SteeredJob] = {}
        #: Jobs of repeats, which the server has scheduled: how often each has begun.
        self.runs: dict[str, int] = {}
        #: The newest token that a worker was given, by id: an older lease has ended.
        self._newest: dict[str, int] = {}

    def fail(self, job: SteeredJob, what: str) -> None:
        """Report a broken promise."""
        self._report(f"{what}: {job}")

    def known_until_ns(self, job: SteeredJob) -> int:
        """Return until when the server certainly knows an id."""
        return job.earliest_end_ns + job.unique_ns - self.lost_time_ns()

    def known_for_ns(self, job: SteeredJob) -> int:
        """Return for how long at most the server knows an id after it was seen to have ended."""
        return job.unique_ns + LATER_NS + self.lost_time_ns()

    def _life(self, job_id: str, token: int) -> SteeredJob | None:
        """Return the life of an id that has a lease: the next one if the last is over."""
        job, following = self.jobs.get(job_id), self.next_lives.get(job_id)
        if job is None or following is None or job.earliest_end_ns > self._world.now_ns:
            return job
        is_later = all(attempt.token < token for attempt in job.attempts)
        return following if is_later and token > job.first_token else job

    # What workers are told, and do: see `WatchedCalls`

    def leased(self, worker: str, job_id: str, token: int, attempt: int, lease_ns: int) -> None:
        """Note that a worker was given a job, and check that it may have it."""
        del lease_ns
        self._world.note(f"{worker}: leases {job_id} attempt={attempt} token={token}")
        self._newest[job_id] = max(token, self._newest.get(job_id, 0))
        job = self._life(job_id, token)
        if job is None:
            return
        now_ns = self._world.now_ns
        done = job.done
        is_known = job.is_answered and not job.is_unsure
        if done is not None and token > done.end_token and is_known:
            self.fail(job, f"leased under token {token}, though it is done")
        if self.kinds.is_quick:
            self._check_given(job, now_ns)
        if job.first_token == NEVER:
            job.first_token = token
            # The server may lease a job to a connection that is gone, and get it back.
            if self.kinds.is_calm and not job.is_unsure:
                others = self._waiting_before(job, now_ns - 2 * _UNDER_WAY_NS)
                self._world.after(_UNDER_WAY_NS, lambda: self._check_priority(job, others))

    def _check_given(self, job: SteeredJob, now_ns: int) -> None:
        """Check a lease that came at once."""
        self.kinds.check_pause(job, now_ns)
        if job.is_unsure:
            return
        early_ns = job.due_ns - ROUNDING_NS - self.lost_time_ns() - now_ns
        if early_ns > 0 and now_ns > job.moved_ns + _UNDER_WAY_NS:
            self.fail(job, f"leased at {now_ns}, {(job.due_ns - now_ns) / 1e6:g} ms early")
        if 0 <= job.cancelled_ns < now_ns - _UNDER_WAY_NS:
            self.fail(job, f"leased at {now_ns}, though it was cancelled")
        within_ns = job.due_ns + job.within_ns + _UNDER_WAY_NS + self.lost_time_ns()
        # While the call is not answered, the server may have got it long after it was made.
        has_limit = job.is_answered and job.within_ns != NEVER
        if has_limit and not job.attempts and now_ns > within_ns:
            self.fail(job, f"leased at {now_ns}, too late for it")

    def _waiting_before(self, job: SteeredJob, before_ns: int) -> list[SteeredJob]:
        """Return jobs of higher priority that have been ready since before a time."""
        before_ns -= self.lost_time_ns()
        return [
            other
            for other in self.jobs.values()
            if other.priority > job.priority
            and other.kind == job.kind
            and 0 <= other.ready_ns < before_ns
            and other.first_token == NEVER
            and other.waits
        ]

    def _check_priority(self, job: SteeredJob, others: list[SteeredJob]) -> None:
        """Check, when messages have come, that no job with a higher priority was passed over."""
        for other in others:
            is_free = other.may_be_cancelled_ns == FOREVER_NS and not other.is_unsure
            is_later = other.first_token == NEVER or other.first_token > job.first_token
            if is_free and is_later and other.moved_ns < self._world.now_ns - 9 * NS_PER_S:
                self.fail(job, f"leased before {other}")

    def keeps(self, job_id: str, token: int) -> Callable[[bool | None], None]:
        """See `WatchedCalls`."""
        return self._refusal_of_old(job_id, token, "keep")

    def _refusal_of_old(self, job_id: str, token: int, what: str) -> Callable[[bool | None], None]:
        """Return what checks the answer to a request about a lease: an old lease is refused."""
        newest = self._newest.get(job_id, 0)

        def check(taken: bool | None) -> None:
            if taken and newest > token:
                self._report(f"{what} of {job_id} under token {token}, though {newest} was given")

        return check

    def ends(
        self, worker: str, job_id: str, token: int, how: How, delay_ms: int
    ) -> Callable[[bool | None], None]:
        """Note that a worker says how an attempt has ended; returns what notes the answer."""
        del delay_ms
        job = self._life(job_id, token)
        attempt = None if job is None else _attempt_of(job, token, worker)
        check = self._refusal_of_old(job_id, token, "end")
        if attempt is not None and attempt.runs:  # a worker that is stuck gives up all it has
            attempt.is_lost = True
        if attempt is not None and how is not How.RETURNED and not attempt.taken:
            attempt.taken, attempt.end_token = None, token  # what an older lease gave is no answer

        def note(taken: bool | None) -> None:
            check(taken)
            if attempt is None or taken is None or how is How.RETURNED:
                return
            if taken or attempt.end_token == token:
                attempt.taken, attempt.end_token = taken, token
                attempt.is_ok = attempt.is_ok and how is How.DONE

        return note

    def begun(self, worker: str, job_id: str, token: int, number: int) -> SteeredJob | None:
        """Note that a handler begins, and check that it may."""
        self._world.note(f"{worker}: begins {job_id} token={token}")
        job = self._life(job_id, token)
        if job is None:
            self.runs[job_id] = self.runs.get(job_id, 0) + 1
            return None
        now_ns = self._world.now_ns
        attempt = AttemptRecord(token, number, worker, now_ns)
        job.attempts.append(attempt)
        self.kinds.begun(job, self.jobs.values(), now_ns)
        return job

    def returned(self, job: SteeredJob, token: int, *, is_ok: bool) -> None:
        """Note that a handler has returned or raised."""
        attempt = _attempt_of(job, token)
        if attempt is not None:
            attempt.ended_ns, attempt.is_ok = self._world.now_ns, is_ok

    def lose(self, worker: str, token: int = NEVER) -> None:
        """Note that handlers of a worker run no more, or were given up: one of them, or all."""
        if token == NEVER:
            self.kinds.note_gone()
        for job in self.jobs.values():
            for attempt in job.attempts:
                if attempt.worker == worker and token in (NEVER, attempt.token):
                    attempt.is_lost = True


def _attempt_of(job: SteeredJob, token: int, worker: str = "") -> AttemptRecord | None:
    """Return the attempt with a token; it may have a newer lease by now, in the same worker.

    An older token is of an earlier life of the id.
    """
    found = [one for one in job.attempts if one.token == token]
    found = found or [one for one in job.attempts if one.worker == worker and one.token < token]
    return found[-1] if found else None
