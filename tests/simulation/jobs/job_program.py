"""JobProgram: a client process that schedules jobs, and ends them again before they are due."""

from collections.abc import Callable
from dataclasses import replace

from purgatory.service.client.futures import ReplyFuture
from purgatory.service.job_messages import Cursor, JobPage, JobStatus
from purgatory.testing.world.machine import Machine
from purgatory.testing.world.network import SimulatedNetwork
from purgatory.testing.world.world import NS_PER_MS, NS_PER_S
from tests.simulation.jobs.job_oracle import JobOracle
from tests.simulation.jobs.job_records import JobRecord
from tests.simulation.oracle import Oracle
from tests.simulation.programs.job_workload import JOB_ACTIONS, JOB_KINDS, JobWorkload
from tests.simulation.programs.program import Program
from tests.simulation.programs.recent import Recent
from tests.simulation.programs.workload import Workload
from tests.simulation.records import CallRecord


class JobProgram(Program):
    """The program of the client name of the workers."""

    def __init__(
        self,
        machine: Machine,
        network: SimulatedNetwork,
        name: str,
        oracle: Oracle,
        job_oracle: JobOracle,
        workload: Workload,
        jobs: JobWorkload,
    ) -> None:
        self._jobs = jobs
        self._job_oracle = job_oracle
        self._recent_jobs: Recent[JobRecord] = Recent(machine.world.random)
        workload = replace(workload, clients=1, rate=jobs.rate, weights=JOB_ACTIONS)
        super().__init__(machine, network, name, oracle, workload)

    # Actions

    def _schedule(self) -> None:
        delay_s = self._world.spread(0.001, self._jobs.longest_delay)
        for _ in range(self._world.random.randint(1, self._jobs.burst)):
            self.schedule(delay_s, is_poison=self._world.chance(self._jobs.poison))

    def schedule(self, delay_s: float, *, handler_s: float = 0.0, is_poison: bool = False) -> None:
        """Schedule a job; `handler_s`: how long its handler runs."""
        job = JobRecord(
            self._world.now_ns,
            job_id=f"{self.name}-{len(self._job_oracle.jobs) + 1}",
            kind=self._world.random.choice(JOB_KINDS),
            delay_ns=int(delay_s * 1000) * NS_PER_MS,
            is_poison=is_poison,
            handler_ns=int(handler_s * NS_PER_S),
        )
        self._job_oracle.schedule(job)
        self._recent_jobs.add(job)
        self._send_job(job)

    def _schedule_again(self) -> None:
        job = self._recent_jobs.pick()
        if job is not None and not job.drops:  # else its id may be free: it would be another job
            self._send_job(job)

    def _send_job(self, job: JobRecord) -> None:
        reply = self._client.schedule_later(
            job.delay_ns / NS_PER_S, kind=job.kind, job_id=job.job_id
        )
        self._when_answered(
            reply, job, lambda handle: self._job_oracle.scheduled(job, _answer_of(handle.is_new))
        )

    def _cancel_job(self) -> None:
        job = self._recent_jobs.pick()
        if job is not None:
            self._end_job(job, self._client.cancel_later(job.job_id))

    def _complete_job(self) -> None:
        """Complete the key of a job, which has its id."""
        job = self._recent_jobs.pick()
        if job is not None:
            self._end_job(job, self._client.complete_later(job.job_id))

    def _end_job(self, job: JobRecord, reply: "object") -> None:
        call = CallRecord(self._world.now_ns)
        job.ends.append(call)
        self._note_answer(reply, call, f"{job.job_id} ends before it is due")

    def _note_answer(self, reply: "object", call: CallRecord, what: str) -> None:
        self._world.note(f"{self.name}: asks that {what}")

        def note(answer: object) -> None:
            self._world.note(f"{self.name}: the answer is {answer}: {what}")
            call.replied_ns, call.answer = self._world.now_ns, answer

        self._when_answered(reply, call, note)

    def _revive(self) -> None:
        self._with_dead_job(self._revive_job)

    def _drop(self) -> None:
        self._with_dead_job(self._drop_job)

    def _with_dead_job(self, act: Callable[[JobStatus], None]) -> None:
        """Look at the dead jobs, and do something to one of them."""
        call = CallRecord(self._world.now_ns)

        def choose(page: JobPage) -> None:
            if page.jobs:
                act(self._world.random.choice(page.jobs))

        self._when_answered(self._dead_page(None), call, choose)

    def _dead_page(self, cursor: Cursor | None) -> ReplyFuture[JobPage]:
        name = self._client.name
        page: ReplyFuture[JobPage] = self._client.jobs_page_later(
            state="dead", client=name, cursor=cursor
        )
        return page

    def _revive_job(self, dead: JobStatus) -> None:
        call = CallRecord(self._world.now_ns)
        self._job_oracle.jobs[dead.job_id].revivals.append(call)
        reply = self._client.retry_job_later(dead)
        self._note_answer(reply, call, f"{dead.job_id} is tried again")

    def _drop_job(self, dead: JobStatus) -> None:
        call = CallRecord(self._world.now_ns)
        self._job_oracle.jobs[dead.job_id].drops.append(call)
        reply = self._client.drop_job_later(dead)
        self._note_answer(reply, call, f"{dead.job_id} is dropped")

    def read_dead(self, cursor: Cursor | None = None) -> None:
        """Tell the oracle of all dead jobs, page by page."""

        def note(page: JobPage) -> None:
            self._job_oracle.dead.update({job.job_id: job for job in page.jobs})
            if page.after is not None:
                self.read_dead(page.after)

        call = CallRecord(self._world.now_ns)
        self._when_answered(self._dead_page(cursor), call, note)


def _answer_of(is_new: bool) -> str:
    return "new" if is_new else "known"
