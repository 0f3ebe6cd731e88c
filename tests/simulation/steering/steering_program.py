"""SteeringProgram: schedules jobs and steers them, one call after the other, and checks answers.

Each call waits, and the world goes on meanwhile. After a call without an answer nothing certain is
known of its job.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, Final

from purgatory.service.client.client import Client
from purgatory.service.errors import JobUnknown, RequestTimeout, Unavailable
from purgatory.service.job_messages import ENDED_STATES, JobStatus
from purgatory.service.server.leases.job_leases import MAX_LOSSES
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.process import Process
from purgatory.testing.world.server import ADDRESS
from purgatory.testing.world.world import NS_PER_S
from tests.simulation.records import NEVER
from tests.simulation.steering.job_book import LATER_NS, ROUNDING_NS, JobBook
from tests.simulation.steering.steered_job import FOREVER_NS, SteeredJob
from tests.simulation.steering.steered_workload import KINDS, SteeredWorkload

#: What a call returns that was not answered.
UNSURE: Final = object()
_TAGS: Final = ("", "red", "blue")
_ACTIONS: Final = {
    "schedule": 10.0,
    "schedule_many": 1.0,
    "schedule_again": 2.0,
    "cancel": 1.5,
    "reschedule": 1.5,
    "run_now": 1.0,
    "look": 2.0,
    "read_result": 1.0,
    "revive": 0.7,
    "drop": 0.2,
    "cancel_many": 0.2,
    "pause": 0.2,
    "resume": 0.3,
    "limit": 0.3,
}


class SteeringProgram:
    """The program of the client `name`; `book` has what it knows of its jobs."""

    def __init__(
        self,
        machine: Machine,
        network: SimulatedNetwork,
        name: str,
        book: JobBook,
        workload: SteeredWorkload,
    ) -> None:
        self._world = machine.world
        self._name = name
        self._book = book
        self._kinds = book.kinds
        self._workload = workload
        self._client: Any = Client(ADDRESS, name=name, platform=Process(machine, network))
        chance = self._world.random
        names = [one for one in _ACTIONS if one == "schedule" or chance.random() < 0.7]
        self._actions: list[Callable[[], None]] = [getattr(self, f"_{one}") for one in names]
        self._weights = list(accumulate(_ACTIONS[one] for one in names))
        self._recent: list[str] = []

    def act(self) -> None:
        """Let some time pass, and do one thing."""
        self._world.run(self._world.random.expovariate(self._workload.rate))
        drawn = self._world.random.random() * self._weights[-1]
        self._actions[bisect_right(self._weights, drawn, 0, len(self._weights) - 1)]()

    def _ask(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Return the answer to a call; UNSURE if there is none."""
        self._world.note(f"{self._name}: {what}")
        try:
            answer = call(*arguments, **options)
        except (RequestTimeout, Unavailable):
            answer = UNSURE
        self._world.note(f"{self._name}: the answer to {what} is {_told(answer)}")
        return answer

    def _insist(self, what: str, call: Callable[..., Any], *arguments: Any, **options: Any) -> None:
        """Repeat a call until it is answered."""
        while self._ask(what, call, *arguments, **options) is UNSURE:
            self._world.run(1.0)

    def _pick(self) -> SteeredJob | None:
        """Return one of the latest jobs."""
        recent = self._recent[-self._world.random.choice((3, 30)) :]
        return self._book.jobs[self._world.random.choice(recent)] if recent else None

    # Schedule

    def _schedule_many(self) -> None:
        """Schedule jobs that are due at once, so that some wait in a worker."""
        for _ in range(self._world.random.randint(2, 10)):
            self._schedule(0.001)

    def _schedule(self, delay_s: float | None = None) -> None:
        job = self._draw_job(f"job-{len(self._recent) + 1}", delay_s)
        self._recent.append(job.job_id)
        self._book.jobs[job.job_id] = job
        handle = self._send(job)
        if handle is UNSURE:
            job.is_unsure = True
            return
        self._answered(job)
        if not handle.is_new:
            self._book.fail(job, "is not new, though its id is")

    def _draw_job(self, job_id: str, delay_s: float | None = None) -> SteeredJob:
        world, chance, workload = self._world, self._world.random, self._workload
        delay_s = delay_s or world.spread(0.001, workload.longest_delay)
        delay_ns = int(delay_s * 1000) * (NS_PER_S // 1000)
        within_ns = int(world.spread(0.5, 5.0) * NS_PER_S) if world.chance(0.15) else NEVER
        return SteeredJob(
            job_id,
            chance.choice(KINDS),
            world.now_ns,
            world.now_ns + delay_ns,
            delay_ns,  # until it is answered
            int(workload.unique_for * NS_PER_S),
            chance.choice((0, 0, 0, 5, -5)),
            chance.choice(_TAGS),
            within_ns,
            within_ns,
            world.chance(workload.poison),
        )

    def _send(self, job: SteeredJob) -> Any:
        within_s = None if job.within_ns == NEVER else job.within_ns / NS_PER_S
        return self._ask(
            f"schedule {job.job_id} of {job.kind} within {within_s}",
            self._client.schedule,
            (job.due_ns - job.called_ns) / NS_PER_S,
            kind=job.kind,
            job_id=job.job_id,
            tags=[job.tag] if job.tag else [],
            unique_for=job.unique_ns / NS_PER_S,
            priority=job.priority,
            start_within=within_s,
        )

    def _answered(self, job: SteeredJob) -> None:
        job.is_answered = True
        job.ready_ns += self._world.now_ns
        if job.within_ns != NEVER:  # it may have been late by as much as the answer
            job.within_ns += self._world.now_ns - job.called_ns

    def _schedule_again(self) -> None:
        """Use an id again: while its job lives, or about when it is forgotten."""
        before = self._pick()
        if before is None or before.is_unsure:
            return
        self._wait_for_end(before)
        self.use_again(before)

    def use_again(self, before: SteeredJob) -> None:
        """Use an id for another job, and check whether it may be new."""
        job = self._book.next_lives[before.job_id] = self._draw_job(before.job_id)
        handle = self._send(job)
        del self._book.next_lives[before.job_id]
        if handle is UNSURE:
            before.is_unsure = True
        elif handle.is_new:
            if self._world.now_ns < self._book.known_until_ns(before) - ROUNDING_NS:
                self._book.fail(before, f"its id is forgotten at {self._world.now_ns}")
            self._answered(job)
            self._book.jobs[job.job_id] = job
        else:
            before.attempts += job.attempts  # begun meanwhile: they were of the known job
            is_over = before.end != "dead"  # such a job is kept
            since_ns = job.called_ns - self._book.known_for_ns(before)
            if is_over and 0 <= before.ended_by_ns < since_ns:
                self._book.fail(before, f"its id is remembered at {job.called_ns}")

    def _wait_for_end(self, job: SteeredJob) -> None:
        """Wait until shortly before an id may be forgotten, if that is soon."""
        early_s = self._world.spread(0.001, 1.0)
        until_ns = job.earliest_end_ns + job.unique_ns - int(early_s * NS_PER_S)
        if 0 < until_ns - self._world.now_ns < 20 * NS_PER_S:
            self._world.run((until_ns - self._world.now_ns) / NS_PER_S)

    # Steer

    def _cancel(self) -> None:
        job = self._pick()
        if job is None:
            return
        must, is_over = job.waits, job.end in ("done", "cancelled")
        job.may_be_cancelled_ns = min(job.may_be_cancelled_ns, self._world.now_ns)
        answer = self._ask(f"cancel {job.job_id}", self._client.cancel_job, job.job_id)
        if answer is True:
            job.cancelled_ns = self._world.now_ns
            if is_over and not job.is_unsure:
                self._book.fail(job, "was cancelled after its end")
        elif answer is False and must and not job.attempts:
            self._book.fail(job, "was not cancelled, though it waits")

    def _reschedule(self) -> None:
        self._move(self._world.spread(0.001, self._workload.longest_delay))

    def _run_now(self) -> None:
        self._move(0.0)

    def _move(self, delay_s: float) -> None:
        job = self._pick()
        if job is None:
            return
        must, called_ns, before_ns = job.waits, self._world.now_ns, job.due_ns
        due_ns = called_ns + int(delay_s * 1000) * (NS_PER_S // 1000)
        job.due_ns, job.ready_ns = min(before_ns, due_ns), NEVER
        if delay_s:
            answer = self._ask(
                f"move {job.job_id}", self._client.reschedule_job, job.job_id, delay_s
            )
        else:
            answer = self._ask(f"run {job.job_id}", self._client.run_job, job.job_id)
        self._moved(job, answer, due_ns, before_ns)
        if answer is True and not delay_s:  # a job that was due stays due since then
            job.due_ns = min(before_ns, due_ns)
        if answer is False and must and not job.attempts:
            self._book.fail(job, "was not moved, though it waits")

    def _moved(self, job: SteeredJob, answer: Any, due_ns: int, before_ns: int) -> None:
        if answer is True:
            job.moved_ns = self._world.now_ns
            job.due_ns = due_ns
            job.ready_ns = due_ns + self._world.now_ns - job.called_ns
            if job.within_ns != NEVER:
                job.within_ns += LATER_NS  # from when it counts is not known exactly
        elif answer is False:
            job.due_ns = before_ns
        else:
            job.is_unsure = True

    def _revive(self) -> None:
        job = self._pick()
        if job is not None:
            is_dead = job.end == "dead"
            answer = self._ask(f"retry {job.job_id}", self._client.retry_job, job.job_id)
            if answer is not False:
                job.end, job.is_revived = "", True
                job.ended_by_ns = NEVER
            elif is_dead and not job.is_unsure:
                self._book.fail(job, "is not tried again, though it is dead")

    def _drop(self) -> None:
        job = self._pick()
        if job is not None:
            answer = self._ask(f"drop {job.job_id}", self._client.drop_job, job.job_id)
            job.is_unsure = job.is_unsure or answer is not False

    def _cancel_many(self) -> None:
        tag = self._world.random.choice(_TAGS[1:])
        tagged = [job for job in self._book.jobs.values() if job.tag == tag]
        waiting = [job for job in tagged if job.waits]
        over = sum(job.end in ("done", "cancelled") and not job.is_unsure for job in tagged)
        for job in tagged:
            job.may_be_cancelled_ns = min(job.may_be_cancelled_ns, self._world.now_ns)
        count = self._ask(f"cancel all {tag}", self._client.cancel_jobs, tag=tag)
        if count is UNSURE:
            return
        for job in waiting:
            job.cancelled_ns = self._world.now_ns
        surely = sum(not job.attempts for job in waiting)
        if not surely <= count <= len(tagged) - over and tagged:
            self._book.fail(
                tagged[-1], f"{count} were cancelled; expected {surely} to {len(tagged)}"
            )

    # Kinds

    def _pause(self) -> None:
        kind = self._world.random.choice(KINDS)
        self._insist(f"pause {kind}", self._client.pause, kind)
        self._kinds.pause(kind)

    def _resume(self) -> None:
        self._resume_kind(self._world.random.choice(KINDS))

    def _resume_kind(self, kind: str) -> None:
        self._kinds.resume(kind)
        self._insist(f"resume {kind}", self._client.resume, kind)

    def _limit(self) -> None:
        chance = self._world.random
        running = chance.choice((None, 1, 2))
        self._limit_kind(chance.choice(KINDS), running, chance.choice((None, 1.0, 5.0)))

    def _limit_kind(self, kind: str, running: int | None, per_second: float | None) -> None:
        self._kinds.limit(kind, None, None)
        what = f"limit {kind} to {running}, {per_second}"
        self._insist(what, self._client.limit, kind, running or 0, per_second or 0)
        self._kinds.limit(kind, running, per_second)

    # Look

    def _look(self) -> None:
        job = self._pick()
        if job is not None:
            self.look_at(job)

    def look_at(self, job: SteeredJob) -> None:
        """Ask for a job, and check what is said of it."""
        done = job.done
        status = self._ask(f"look at {job.job_id}", self._client.job, job.job_id)
        if status is UNSURE or job.is_unsure:
            return
        if status is None:
            if self._world.now_ns < self._book.known_until_ns(job) and job.is_answered:
                self._book.fail(job, f"is unknown at {self._world.now_ns}")
            job.end = job.end or "forgotten"
            return
        if (status.priority, set(status.tags)) != (job.priority, {job.tag} - {""}):
            self._book.fail(job, f"is told of as {status}")
        if status.state in ENDED_STATES:
            self._ended(job, status)
        elif job.end or done is not None:
            self._book.fail(job, f"is {status.state} after its end")

    def _ended(self, job: SteeredJob, status: JobStatus) -> None:
        if job.end not in ("", status.state):
            self._book.fail(job, f"is {status.state} now")
        if not job.end:
            job.ended_by_ns = self._world.now_ns
        job.end = status.state
        if status.state == "done":
            self._check_value(job, status.result)
        elif status.state == "cancelled":
            is_late = job.within_ns != NEVER and "not begun in time" in status.error
            if job.may_be_cancelled_ns == FOREVER_NS and not is_late:
                self._book.fail(job, f"was cancelled: {status.error}")
            if is_late and job.has_begun:
                self._book.fail(job, "was not begun in time, though a handler has ended")
        elif not job.attempts:
            # After so many losses a lease counts as an attempt, though nobody hears of it.
            if self._kinds.faults_since(job.called_ns) < MAX_LOSSES:
                self._book.fail(job, "is dead, and no handler has begun")
        elif 0 <= job.cancelled_ns < min(one.begun_ns for one in job.attempts[-1:]):
            self._book.fail(job, "is dead, though it was cancelled")

    def _check_value(self, job: SteeredJob, value: Any) -> None:
        """Check that a job's result is that of the attempt which has ended it."""
        done = job.done
        found = [one for one in job.attempts if one.is_ok and one.taken is not False]
        expected = [job.value(one) for one in ([done] if done is not None else found)]
        if value not in expected:
            self._book.fail(job, f"its result is {value!r}; expected one of {expected}")

    def _read_result(self) -> None:
        job = self._pick()
        if job is None or job.done is None or job.is_unsure:
            return
        try:
            value = self._ask(f"read {job.job_id}", self._client.result, job.job_id, timeout=30.0)
        except JobUnknown:
            if self._world.now_ns < self._book.known_until_ns(job):
                self._book.fail(job, f"is unknown at {self._world.now_ns}")
            return
        except TimeoutError:
            return
        if value is not UNSURE:
            self._check_value(job, value)

    # The end

    def settle(self) -> None:
        """Lift pauses and rates; limits of running jobs stay, and let all jobs run in turn."""
        while (limits := self._ask("look at limits", self._client.limits)) is UNSURE:
            self._world.run(1.0)
        self._kinds.check_limits(limits)
        for kind in KINDS:
            self._resume_kind(kind)
            self._limit_kind(kind, self._kinds.running_limit(kind), None)

    def left(self) -> list[SteeredJob]:
        """Look at what has not ended, and return it."""
        for job in self._book.jobs.values():
            if not (job.end or job.is_unsure):
                self.look_at(job)
        return [job for job in self._book.jobs.values() if not (job.end or job.is_unsure)]

    def check_counts(self) -> None:
        """Check that the counts are those of what a list shows."""
        before = self._client.job_counts()
        listed: dict[tuple[str, str], int] = {}
        for status in self._client.jobs():
            found = status.kind, status.state
            listed[found] = listed.get(found, 0) + 1
        if before == self._client.job_counts() and before != listed:
            self._book.kinds.report(f"the counts are {before}; the list has {listed}")

    def end(self, jobs: Iterable[SteeredJob]) -> None:
        """Report jobs that have not ended."""
        for job in jobs:
            self._book.fail(job, "has not ended")


def _told(answer: Any) -> str:
    if answer is UNSURE:
        return "none"
    return f"{answer.state}" if isinstance(answer, JobStatus) else f"{answer}"
