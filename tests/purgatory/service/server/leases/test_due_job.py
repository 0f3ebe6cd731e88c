"""When an attempt begins, and in which state a job is meanwhile."""

import pytest

from purgatory.service.job_messages import JOB_STATES, RetryJobs
from purgatory.service.protocol import How, Keep, Lease, LeaseEnd
from purgatory.service.server.commands import ClientDisconnected
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.job_leases import MAX_LOSSES
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from purgatory.service.server.records.job_record import READY, RETRYING, RUNNING, SCHEDULED
from tests.testing.step_server import job, step_server

__all__ = ["step_server"]


class States:
    """Notes each state, by job, for `leases.on_moved`."""

    def __init__(self, leases):
        self.found = []
        leases.on_moved = self.note

    def note(self, job):
        """Note the state of a job that has moved."""
        self.found.append((job.record.op_id, JOB_STATES[job.state]))

    def take(self):
        """Return what came since the last call."""
        found, self.found = self.found, []
        return found


def due(server, *op_ids, **others):
    server.submit(*[job(op_id, **others) for op_id in op_ids])
    server.pass_time(1001)
    return server.leased


def test_when_a_job_was_due():
    """At the end of its submission, unless it was moved."""
    record = OutcomeRecord(1, 1, "op", ClientRecord("ada"), "expired", 5000)
    assert DueJob(record, "mail").due_ms == 5000
    assert DueJob(record, "mail", due_ms=7000).due_ms == 7000


def test_the_states_of_a_job(step_server):
    """It is ready until its handler begins, and running until it ends; each change is told once."""
    states = States(step_server.state.leases)
    step_server.work(begins=True, attempts=2)
    [leased] = due(step_server, "a")
    assert states.take() == [("a", "ready")]
    step_server.begin(leased)
    step_server.begin(leased)
    assert states.take() == [("a", "running")]
    assert step_server.due_job("a").begun_attempts == 1
    step_server.finish(leased, how=How.FAILED, delay_ms=300)
    assert states.take() == [("a", "retrying")]
    assert step_server.due_job("a").at_ms == step_server.time.ms + 300
    step_server.pass_time(300)
    [leased] = step_server.leased
    assert states.take() == [("a", "ready")]
    step_server.finish(leased, how=How.FAILED)
    assert states.take() == [("a", "dead")]
    step_server.ask(RetryJobs, ["a"])
    assert states.take() == [("a", "ready")]
    step_server.finish(*step_server.leased)
    assert states.take() == [("a", "done")]


def lose_by_connection(server):
    server.send(ClientDisconnected("c", b"w"))


def lose_by_time(server):
    server.let_pass(61_000)


@pytest.mark.parametrize("lose", [lose_by_connection, lose_by_time])
def test_what_was_only_taken_ahead(step_server, lose):
    """It loses no attempt with its worker, and keeps its place; what has begun loses one."""
    step_server.work(begins=True, attempts=1)
    found = due(step_server, *"abcd")
    step_server.begin(found[1])
    lose(step_server)
    step_server.submit(job("e", timeout_ms=0))
    step_server.pass_time(1)
    again = step_server.work(route=b"other", begins=True, attempts=1)
    assert [(one.op_id, one.attempt) for one in again] == [
        ("a", 1),
        ("c", 1),
        ("d", 1),
        ("e", 1),
    ]
    assert [one.job_id for one in step_server.dead()] == ["b"]


def test_a_handler_that_ends_its_worker_at_once(step_server):
    """Its attempts count after some workers, though none could tell that it had begun."""
    due(step_server, "poison", "b", "c")
    workers = 0
    while not (dead := step_server.dead()):
        workers += 1
        route = b"%d" % workers
        found = step_server.work(route=route, begins=True, attempts=2)
        assert [one.op_id for one in found] == ["poison", "b", "c"]
        step_server.send(ClientDisconnected("c", route))
    assert (dead[0].job_id, dead[0].attempts) == ("poison", 2)
    assert workers == MAX_LOSSES + 2
    found = step_server.work(route=b"last", begins=True)
    assert [(one.op_id, one.attempt) for one in found] == [("b", 1), ("c", 1)]


def test_a_job_behind_handlers_that_are_lost(step_server):
    """That a worker is lost before the job's turn does not count, if it begins in between."""
    due(step_server, "a")
    for n in range(3 * MAX_LOSSES):
        route = b"%d" % n
        [leased] = step_server.work(route=route, begins=True, attempts=100)
        if n % 3 == 2:
            step_server.begin(leased)
            step_server.finish(leased, how=How.RETURNED)
        step_server.send(ClientDisconnected("c", route))
    [leased] = step_server.work(begins=True)
    assert (leased.attempt, step_server.due_job("a").state) == (1, READY)


def test_an_end_implies_the_beginning(step_server):
    """A handler that has failed before it was told to have begun has failed."""
    step_server.work(begins=True, attempts=2)
    [leased] = due(step_server, "a")
    step_server.finish(leased, how=How.FAILED)
    assert [one.attempt for one in step_server.leased] == [2]


@pytest.mark.parametrize("detached", [False, True])
def test_workers_that_do_not_tell(step_server, detached):
    """An attempt begins with the lease: those of earlier versions, and of the gateway."""
    step_server.work(begins=detached, detached=detached, room=1, attempts=2, lease_ms=500)
    due(step_server, "a")
    assert step_server.due_job("a").state == RUNNING
    step_server.let_pass(1000)
    [again] = step_server.work(route=b"other", attempts=2)
    assert again.attempt == 2


def test_a_beginning_of_another_lease(step_server):
    """It changes nothing: of a lease that has ended, of another's, or of no job."""
    step_server.work(begins=True, room=1)
    [first] = due(step_server, "a")
    step_server.begin(first, client="other")
    step_server.finish(first, how=How.RETURNED)
    [second] = step_server.leased
    step_server.begin(first)
    first.number += 99
    step_server.begin(first)
    assert step_server.due_job("a").state == READY
    step_server.begin(second)
    assert step_server.due_job("a").state == RUNNING
    step_server.finish(second, how=How.RETURNED)
    [third] = step_server.leased
    assert (step_server.due_job("a").state, third.attempt) == (READY, 1)


class TestCancel:
    def cancel(self, server, op_id, reason="why"):
        due_job = server.due_job(op_id)
        return server.change_jobs(lambda ends: ends.cancel(due_job, reason))

    def row(self, server):
        [row] = server.store.jobs()
        return row.state

    @pytest.mark.parametrize("crash", [False, True])
    def test_one_that_waits(self, step_server, crash):
        """It ends at once, on disk, whether it waits for a worker or for its next attempt."""
        found = due(step_server, "a", "b")
        assert self.cancel(step_server, "a")
        step_server.work(begins=True, room=9)
        [leased] = step_server.leased or found
        step_server.finish(leased, how=How.FAILED, delay_ms=100)
        assert self.cancel(step_server, "b")
        if crash:
            step_server.crash()
            step_server.work()
        step_server.let_pass(1000)
        assert step_server.leased == []
        assert step_server.state.leases.counts == (0, 0, 0)
        assert step_server.state.retention.unacknowledged == 0

    def test_one_that_was_taken_ahead(self, step_server):
        """The worker is told, and gives it back; a handler that had begun goes on."""
        states = States(step_server.state.leases)
        step_server.work(begins=True)
        for op_id, how, end in (("a", How.RETURNED, "cancelled"), ("b", How.DONE, "done")):
            [leased] = due(step_server, op_id)
            assert self.cancel(step_server, op_id)
            [(route, told)] = step_server.told
            assert (route, told.recall) == (b"w", False)
            assert told.leases == [Lease(leased.number, leased.token)]
            assert states.take() == [(op_id, "ready")]
            assert step_server.finish(leased, how=how) == [True]
            assert states.take() == [(op_id, end)]

    def test_one_that_a_lost_worker_had_taken_ahead(self, step_server):
        """It is cancelled, and no other worker's."""
        step_server.work(begins=True)
        due(step_server, "a")
        assert self.cancel(step_server, "a")
        step_server.send(ClientDisconnected("c", b"w"))
        assert self.row(step_server) == 4
        assert step_server.work(route=b"other") == []

    @pytest.mark.parametrize("how", [*How, None, "crash"])
    def test_a_running_one(self, step_server, how):
        """No other attempt: done if the handler succeeds, else cancelled, also by a restart."""
        states = States(step_server.state.leases)
        step_server.work(begins=True, attempts=5)
        [leased] = due(step_server, "a")
        step_server.begin(leased)
        assert self.cancel(step_server, "a")
        assert [told.leases for _, told in step_server.told] == [
            [Lease(leased.number, leased.token)]
        ]
        assert self.cancel(step_server, "a")  # again: the same, and the worker is not told again
        assert step_server.told == []
        assert self.row(step_server) == 3
        answer = step_server.ask(Keep, [Lease(leased.number, leased.token)])
        assert (answer.done, answer.cancelled) == ([True], [0])
        assert states.take() == [("a", "ready"), ("a", "running")]
        if how == "crash":
            step_server.crash()
        elif how is None:
            step_server.send(ClientDisconnected("c", b"w"))
        else:
            assert step_server.finish(leased, how=how, delay_ms=100) == [True]
        if how != "crash":
            end = "done" if how == How.DONE else "cancelled"
            assert states.take() == [("a", end)]
            assert self.row(step_server) == {"done": 1, "cancelled": 4}[end]
        step_server.let_pass(1000)
        assert step_server.work(route=b"x") == []
        assert step_server.state.retention.unacknowledged == 0

    def test_one_that_has_just_failed(self, step_server):
        """In the same transaction: the attempt counts, and there is no other."""
        step_server.work(begins=True, attempts=5)
        [leased] = due(step_server, "a")
        step_server.begin(leased)
        due_job = step_server.due_job("a")

        def fail_and_cancel(ends):
            assert ends.finish("c", leased_end(leased, How.FAILED))
            assert ends.cancel(due_job, "why")
            return ends.cancel(due_job, "why")

        assert not step_server.change_jobs(fail_and_cancel)
        [row] = step_server.store.jobs()
        assert (row.state, row.attempts) == (4, 1)
        assert step_server.leased == []

    def test_one_that_is_dead_or_gone(self, step_server):
        """A dead one is dropped by other means."""
        step_server.work(attempts=1)
        [leased] = due(step_server, "a")
        due_job = step_server.due_job("a")
        step_server.finish(leased, how=How.FAILED)
        assert not self.cancel(step_server, "a")
        step_server.ask(RetryJobs, ["a"], True)
        assert not step_server.change_jobs(lambda ends: ends.cancel(due_job, "why"))


def leased_end(leased, how):
    return LeaseEnd(leased.number, leased.token, how)


class TestMove:
    def move(self, server, op_id, in_ms):
        due_job = server.due_job(op_id)
        at_ms = server.time.ms + in_ms if in_ms else 0
        return server.change_jobs(lambda ends: ends.move(due_job, at_ms))

    @pytest.mark.parametrize("crash", [False, True])
    def test_later_and_now(self, step_server, crash):
        """A ready or retrying job waits for the time; 0 is now. Attempts stay."""
        due(step_server, "a")
        assert self.move(step_server, "a", 5000)
        assert step_server.due_job("a").state == SCHEDULED
        if crash:
            step_server.crash()
        step_server.work(begins=True)
        assert step_server.let_pass(4900) == []
        [leased] = step_server.let_pass(200)
        step_server.finish(leased, how=How.FAILED, delay_ms=10**6)
        assert step_server.due_job("a").state == RETRYING
        assert self.move(step_server, "a", 0)
        assert [one.attempt for one in step_server.leased] == [2]

    @pytest.mark.parametrize(("in_ms", "moved"), [(5000, False), (0, True)])
    def test_one_that_was_taken_ahead(self, step_server, in_ms, moved):
        """Its worker knows whether it runs; now is when it may begin anyway."""
        step_server.work(begins=True)
        [leased] = due(step_server, "a")
        assert self.move(step_server, "a", in_ms) is moved
        assert step_server.finish(leased) == [True]

    def test_one_that_runs_or_is_dead(self, step_server):
        """It is not moved."""
        step_server.work(begins=True, attempts=1)
        [leased] = due(step_server, "a")
        step_server.begin(leased)
        assert not self.move(step_server, "a", 5000)
        step_server.finish(leased, how=How.FAILED)
        assert not self.move(step_server, "a", 5000)
