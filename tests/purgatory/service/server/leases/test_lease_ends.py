"""Attempts that fail, jobs that are given up, and jobs that are moved."""

import pytest

from purgatory.service.encoding import unpack
from purgatory.service.job_messages import CancelJobs, Reschedule, RescheduleJobs, RetryJobs
from purgatory.service.protocol import (
    How,
    LeaseEnd,
)
from purgatory.service.server.commands import ClientDisconnected
from purgatory.service.server.transactions.transaction import Transaction
from purgatory.service.store.rows import KEPT_ATTEMPTS
from tests.testing.step_server import job, step_server

__all__ = ["step_server"]


def due(server, *op_ids, **others):
    """Submit jobs and let them become due; returns what is leased then."""
    server.submit(*[job(op_id, **others) for op_id in op_ids])
    server.pass_time(1001)
    return server.leased


class TestFailures:
    def test_retries_and_the_end(self, step_server):
        """After the delay, until the last attempt; then it is dead, on disk, with the error."""
        step_server.work(attempts=3)
        found = due(step_server, "a", payload=7)
        for attempt in (1, 2):
            [leased] = found
            assert leased.attempt == attempt
            step_server.finish(leased, how=How.FAILED, delay_ms=300, error="ValueError: no")
            assert step_server.leased == []
            step_server.pass_time(299)
            assert step_server.leased == []
            step_server.pass_time(1)
            found = step_server.leased
        step_server.finish(*found, how=How.FAILED, delay_ms=300, error="ValueError: the last")
        for _ in range(2):
            assert step_server.pass_time(10**6) == []
            assert step_server.leased == []
            [dead] = step_server.dead()
            assert (dead.job_id, dead.attempts, dead.error) == ("a", 3, "ValueError: the last")
            assert unpack(dead.payload) == 7
            step_server.crash()
            step_server.work()
        assert step_server.ask(RetryJobs, ["a", "?"]).done == [True, False]
        [leased] = step_server.leased
        assert leased.attempt == 1
        assert step_server.dead() == []
        step_server.finish(leased)

    def test_history(self, step_server):
        """Each attempt is kept with its times, its worker and its error, also over a restart."""
        step_server.work(attempts=3)
        [leased] = due(step_server, "a")
        began_ms = step_server.time.ms
        step_server.let_pass(40)
        step_server.finish(leased, how=How.FAILED, delay_ms=300, error="ValueError: no")
        step_server.pass_time(300)
        [again] = step_server.leased
        running = step_server.job("a").history
        assert [(one.number, one.error, one.ended_ms is None) for one in running] == [
            (1, "ValueError: no", False),
            (2, "", True),
        ]
        assert (running[0].began_ms, running[0].seconds) == (began_ms, 0.04)
        assert running[0].worker == step_server.job("a").worker
        step_server.let_pass(5)
        step_server.finish(again)
        for _ in range(2):
            first, second = step_server.job("a").history
            assert first == running[0]
            assert (second.number, second.error, second.seconds) == (2, "", 0.005)
            step_server.crash()

    def test_the_last_attempts(self, step_server):
        """Not more than the bound, also after a restart."""
        step_server.work(attempts=KEPT_ATTEMPTS + 5)
        due(step_server, "a")
        for number in range(1, KEPT_ATTEMPTS + 6):
            [leased] = step_server.leased
            step_server.finish(leased, how=How.FAILED, error=f"E: {number} {'x' * 900}")
        numbers = [one.number for one in step_server.job("a").history]
        assert numbers == list(range(6, KEPT_ATTEMPTS + 6))
        assert max(len(one.error) for one in step_server.job("a").history) == 500

    def test_attempts_after_a_retry(self, step_server):
        """They are the last ones; those before are kept."""
        step_server.work(attempts=3)
        due(step_server, "a")
        for error in "abc":
            step_server.finish(*step_server.leased, how=How.FAILED, error=error)
        step_server.pass_time(1)
        assert step_server.ask(RetryJobs, ["a"]).done == [True]
        step_server.finish(*step_server.leased, how=How.FAILED, error="d")
        history = step_server.job("a").history
        assert [(one.number, one.error) for one in history] == [
            *((1, "a"), (2, "b"), (3, "c"), (1, "d"), (2, "")),  # the second one runs
        ]
        step_server.let_pass(4)
        step_server.finish(*step_server.leased)
        history = step_server.job("a").history
        assert [one.error for one in history] == ["a", "b", "c", "d", ""]
        assert [one.number for one in history] == [1, 2, 3, 1, 2]

    def test_the_first_attempt_after_a_retry(self, step_server):
        """It is told of, while it runs and when it has succeeded."""
        step_server.work(attempts=1)
        [leased] = due(step_server, "a")
        step_server.finish(leased, how=How.FAILED, error="no")
        assert step_server.ask(RetryJobs, ["a"]).done == [True]
        [leased] = step_server.leased
        _, running = step_server.job("a").history
        assert (running.number, running.ended_ms, running.error) == (1, None, "")
        step_server.let_pass(4)
        step_server.finish(leased)
        _, done = step_server.job("a").history
        assert (done.number, done.seconds, done.error) == (1, 0.004, "")

    def test_a_job_that_succeeds_at_once(self, step_server):
        """Nothing is written for its attempt; the server tells of it from memory."""
        step_server.work()
        [leased] = due(step_server, "a")
        step_server.let_pass(7)
        step_server.finish(leased)
        assert step_server.store.attempts([leased.number]) == {}
        [only] = step_server.job("a").history
        assert (only.number, only.seconds, only.error) == (1, 0.007, "")

    def test_dropping(self, step_server):
        """A dead job that is dropped is gone for good."""
        step_server.work(attempts=1)
        [leased] = due(step_server, "a")
        step_server.finish(leased, how=How.FAILED, error="no")
        assert step_server.ask(RetryJobs, ["a"], True).done == [True]
        assert step_server.ask(RetryJobs, ["a"], True).done == [False]
        step_server.crash()
        assert step_server.dead() == []
        assert step_server.work() == []
        assert step_server.state.retention.unacknowledged == 0

    def test_the_last_attempt_is_lost(self, step_server):
        """A job that kills its workers is given up, too."""
        step_server.work(attempts=2)
        due(step_server, "a")
        for route in (b"w", b"x"):
            step_server.send(ClientDisconnected("c", route))
            step_server.work(route=b"x", attempts=2)
        [dead] = step_server.dead()
        assert (dead.attempts, dead.error.split(":")[0]) == (2, "WorkerGone")


class TestFailingCommits:
    def test_a_lease_that_ends_meanwhile(self, step_server):
        """A later transaction ends it; another worker gets the job."""
        step_server.work(lease_ms=500)
        due(step_server, "a")
        step_server.faults.fail()
        step_server.let_pass(600)
        assert step_server.state.leases.counts.leased == 1
        step_server.faults.clear()
        step_server.let_pass(2100)
        assert step_server.state.leases.counts.leased == 0
        [leased] = step_server.work(route=b"other")
        assert (leased.op_id, leased.attempt) == ("a", 2)

    def test_a_worker_that_goes_meanwhile(self, step_server):
        """Its lease ends by time; of the connection nothing is kept."""
        step_server.work(lease_ms=500)
        due(step_server, "a")
        step_server.faults.fail()
        step_server.send(ClientDisconnected("c", b"w"))
        step_server.faults.clear()
        step_server.let_pass(2100)
        assert step_server.state.leases.counts.leased == 0
        assert step_server.state.leases.lapsed == {}
        assert step_server.state.leases.limits.leased == {}

    def test_a_time_to_begin_that_ends_meanwhile(self, step_server):
        """A later transaction cancels the job."""
        step_server.submit(job("a", timeout_ms=0, start_within_ms=500))
        step_server.pass_time(1)
        step_server.faults.fail()
        step_server.let_pass(600)
        assert step_server.job("a").state == "ready"
        step_server.faults.clear()
        step_server.let_pass(2100)
        assert step_server.job("a").state == "cancelled"


class TestTimesToBegin:
    def test_a_failure_that_comes_when_the_time_has_passed(self, step_server):
        """Its attempt had begun: the job is retried, and not cancelled in the same transaction."""
        step_server.work(begins=True)
        [leased] = due(step_server, "a", start_within_ms=1000)
        step_server.time.ms += 1500
        assert step_server.finish(leased, how=How.FAILED, delay_ms=300) == [True]
        assert step_server.job("a").state == "retrying"
        [again] = step_server.let_pass(400)
        assert again.attempt == 2

    def test_a_move_that_comes_when_the_time_has_passed(self, step_server):
        """The answer is that it was moved, and so it is."""
        due(step_server, "a", start_within_ms=1000)
        step_server.time.ms += 1500
        assert step_server.ask(RescheduleJobs, [Reschedule("a", 5000)]).done == [True]
        for _ in range(2):
            assert step_server.job("a").state == "scheduled"
            step_server.crash()
        step_server.let_pass(5900)
        assert step_server.job("a").state == "ready"
        step_server.let_pass(200)
        assert step_server.job("a").error == "not begun in time"

    def test_a_failed_commit_of_that(self, step_server):
        """The time to begin ends the job later, as if nothing had come."""
        due(step_server, "a", start_within_ms=1000)
        step_server.time.ms += 1500
        step_server.faults.fail()
        step_server.ask(RescheduleJobs, [Reschedule("a", 5000)])
        step_server.faults.clear()
        step_server.let_pass(2100)
        assert step_server.job("a").error == "not begun in time"


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_job_is_cancelled_once_in_a_transaction(step_server, is_committed):
    """A later cancellation finds it ended; after a failed commit it is as before."""
    due(step_server, "a")
    if not is_committed:
        step_server.faults.fail()
        step_server.ask(CancelJobs, ["a", "a"])
        step_server.faults.clear()
        step_server.let_pass(2100)
        assert step_server.job("a").state == "ready"
    assert step_server.ask(CancelJobs, ["a", "a"]).done == [True, False]
    assert step_server.job_counts() == {("", "cancelled"): 1}
    assert step_server.state.jobs.timings.by_kind[""].ended == [0, 0, 1]


def test_a_restart_knows_what_was_cancelled(step_server):
    """The job of a worker that has not ended it is given to no other."""
    step_server.work()
    due(step_server, "a")
    assert step_server.ask(CancelJobs, ["a"]).done == [True]
    assert step_server.job("a").state == "running"
    step_server.crash()
    assert step_server.work() == []
    assert step_server.job("a").state == "cancelled"


class TestMoves:
    @pytest.mark.parametrize("begins", [False, True], ids=["taken ahead", "begun"])
    def test_of_a_job_that_its_worker_loses(self, step_server, begins):
        """In the same transaction: the job waits by then, and is moved."""
        step_server.work(begins=True, attempts=5)
        [leased] = due(step_server, "a")
        if begins:
            step_server.begin(leased)
        due_job = step_server.due_job("a")
        at_ms = step_server.time.ms + 5000

        def lose_and_move(ends):
            ends.lose(due_job, "gone")
            return ends.move(due_job, at_ms)

        assert step_server.change_jobs(lose_and_move)
        for _ in range(2):
            status = step_server.job("a")
            assert (status.state, status.attempts, status.due_ms) == (
                "retrying" if begins else "scheduled",
                int(begins),
                at_ms,
            )
            step_server.crash()

    def test_twice(self, step_server):
        """In one transaction: the later one counts."""
        step_server.submit(job("a"))
        step_server.pass_time(1001)
        moves = [Reschedule("a", 9000), Reschedule("a", 5000)]
        assert step_server.ask(RescheduleJobs, moves).done == [True, True]
        for _ in range(2):
            assert step_server.job("a").due_ms == step_server.time.ms + 5000
            step_server.crash()

    @pytest.mark.parametrize(("later_ms", "moved"), [(-1, True), (0, True), (1, False)])
    def test_of_a_job_that_was_taken_ahead(self, step_server, later_ms, moved):
        """It is due already: True for now and before, and the worker keeps it."""
        step_server.work(begins=True)
        [leased] = due(step_server, "a")
        due_job, at_ms = step_server.due_job("a"), step_server.time.ms + later_ms
        assert step_server.change_jobs(lambda ends: ends.move(due_job, at_ms)) is moved
        step_server.begin(leased)
        assert step_server.finish(leased) == [True]

    def test_of_a_job_that_ends(self, step_server):
        """In the same transaction: False."""
        step_server.work(begins=True)
        [leased] = due(step_server, "a")
        step_server.begin(leased)
        due_job = step_server.due_job("a")

        def end_and_move(ends):
            assert ends.finish("c", LeaseEnd(leased.number, leased.token, How.DONE))
            return ends.move(due_job, 10**15)

        assert not step_server.change_jobs(end_and_move)
        assert step_server.job("a").state == "done"


@pytest.mark.parametrize("is_committed", [True, False])
def test_no_cycle_is_left(step_server, is_committed):
    """What follows a commit refers to the ends: both ways out of a transaction drop it."""
    step_server.work(begins=True)
    [leased] = due(step_server, "a")
    transaction = Transaction(step_server.state, step_server.store_loop.clock.now_ns())
    ends = transaction.jobs.lease_ends
    assert ends.finish("c", LeaseEnd(leased.number, leased.token, How.DONE))
    if is_committed:
        ends.publish()
    else:
        transaction.roll_back()
    assert ends._effects == []
    assert (leased.number in step_server.state.leases.by_number) is not is_committed
