"""Jobs that are moved, and jobs that are to begin within a time."""

import pytest

from purgatory.service.job_messages import CancelJobs, Reschedule, RescheduleJobs
from purgatory.service.protocol import How, Work
from purgatory.service.server.leases.job_times import _STALE_ENTRIES, NOT_BEGUN_AT_ONCE
from purgatory.service.server.leases.lease_ends import NOT_BEGUN
from purgatory.service.server.records.job_record import READY
from tests.testing.step_server import job, step_server

__all__ = ["step_server"]


def due(server, *op_ids, within_ms=1000):
    """Have jobs be due now, each of which is to begin within a time; returns what is leased."""
    server.submit(*[job(op_id, timeout_ms=0, start_within_ms=within_ms) for op_id in op_ids])
    server.time.ms += 1
    server.step()
    return server.leased


def test_many_that_do_not_begin_in_time(step_server):
    """They are cancelled in portions; no worker gets the rest meanwhile."""
    count = 2 * NOT_BEGUN_AT_ONCE + 1
    due(step_server, *[f"j{n}" for n in range(count)])
    step_server.submit(job("other", timeout_ms=0))
    step_server.time.ms += 1002
    step_server.step(once=True)
    assert step_server.state.leases.counts.waiting == count + 1 - NOT_BEGUN_AT_ONCE
    assert step_server.store_loop.max_sleep() == 0
    [leased] = step_server.work(room=count)
    assert leased.op_id == "other"
    step_server.step()
    assert step_server.job_counts() == {("", "cancelled"): count, ("", "running"): 1}
    assert {step_server.job(f"j{n}").error for n in (0, count - 1)} == {NOT_BEGUN}
    assert step_server.store_loop.max_sleep() > 0


def test_one_of_many_that_is_moved_after_its_time(step_server):
    """It begins at its new time, if the move comes before its portion; a worker waits meanwhile."""
    due(step_server, *[f"j{n}" for n in range(NOT_BEGUN_AT_ONCE + 1)])
    step_server.time.ms += 1002
    step_server.post(Work, {"": 1}, 1, 60_000)
    step_server.step(once=True)
    assert step_server.leased == []
    [last] = step_server.state.leases.by_number.values()
    step_server.post(RescheduleJobs, [Reschedule(last.record.op_id, 5000)])
    step_server.step(once=True)
    [leased] = step_server.let_pass(5001)
    assert leased.number == last.record.seq
    assert step_server.finish(leased) == [True]


def states(server):
    return [(row.state, row.attempts) for row in server.store.jobs()]


@pytest.mark.parametrize(
    ("delays_ms", "ready_ms"),
    [([5000, 9000], 9000), ([9000, 5000], 5000), ([5000, 5000], 5000), ([5000, 0], 0), ([5000], 0)],
)
def test_one_that_is_moved(step_server, delays_ms, ready_ms):
    """It is ready at the last of its times, once; one that was cancelled meanwhile is not."""
    is_cancelled = len(delays_ms) == 1
    step_server.submit(job("a"))
    step_server.pass_time(1001)
    for delay_ms in delays_ms:
        assert step_server.ask(RescheduleJobs, [Reschedule("a", delay_ms)]).done == [True]
    if is_cancelled:
        assert step_server.ask(CancelJobs, ["a"]).done == [True]
    leased, count = step_server.work(), 0
    for after_ms in range(0, 10_001, 1000):
        count += len(leased)
        assert count == (not is_cancelled and after_ms >= ready_ms)
        for one in leased:
            step_server.finish(one)
        step_server.pass_time(1000)
        leased = step_server.leased
    assert step_server.state.leases.times.waiting == 0


def test_one_that_is_moved_too_often(step_server):
    """Its former times are dropped, and the last one stays."""
    step_server.submit(job("a"))
    step_server.pass_time(1001)
    moves = [Reschedule("a", 5000 + n) for n in range(_STALE_ENTRIES + 3)]
    assert step_server.ask(RescheduleJobs, moves).done == [True] * len(moves)
    assert len(step_server.state.leases.times._later) == 1
    step_server.work()
    step_server.pass_time(5000 + len(moves) - 2)
    assert step_server.leased == []
    step_server.pass_time(1)
    assert [one.op_id for one in step_server.leased] == ["a"]


@pytest.mark.parametrize("moves", [2, _STALE_ENTRIES + 2])
def test_one_that_is_moved_and_not_begun(step_server, moves):
    """It is cancelled once, though it was moved to a time several times."""
    due(step_server, "a")
    for delay_ms in (900, 500):
        requests = [Reschedule("a", delay_ms)] * moves
        assert step_server.ask(RescheduleJobs, requests).done == [True] * moves
    assert len(step_server.state.leases.times._starts) <= 2 + _STALE_ENTRIES
    step_server.pass_time(1500)
    assert step_server.job_states("a") == ["ready"]
    step_server.pass_time(1)
    assert states(step_server) == [(4, 0)]
    assert step_server.job_states("a") == ["cancelled"]


def test_one_that_no_worker_takes(step_server):
    """It is cancelled after the time, not before, on disk."""
    due(step_server, "a")
    step_server.pass_time(999)  # a millisecond passed before
    assert step_server.due_job("a").state == READY
    assert step_server.store_loop.max_sleep() <= 0.001
    step_server.pass_time(1)
    assert states(step_server) == [(4, 0)]
    assert step_server.work() == []


def test_retries_are_not_concerned(step_server):
    """A job whose first attempt has begun in time goes on."""
    step_server.work(begins=True)
    [leased] = due(step_server, "a")
    step_server.finish(leased, how=How.FAILED, delay_ms=5000)
    assert [one.attempt for one in step_server.let_pass(6000)] == [2]


@pytest.mark.parametrize("begins", [False, True])
def test_one_that_was_taken_ahead(step_server, begins):
    """Its worker is told to give it back; a handler that has begun goes on."""
    step_server.work(begins=True)
    [leased] = due(step_server, "a")
    step_server.pass_time(1001)
    [(_, told)] = step_server.told
    assert told.recall
    assert [one.token for one in told.leases] == [leased.token]
    if begins:  # before it was told
        step_server.begin(leased)
        assert step_server.finish(leased) == [True]
        assert states(step_server) == [(1, 1)]
    else:
        assert step_server.finish(leased, how=How.RETURNED) == [True]
        assert states(step_server) == [(4, 0)]
    assert step_server.leased == []


def test_a_job_that_was_given_back_after_its_beginning(step_server):
    """It had begun in time."""
    step_server.work(begins=True, room=1)
    [leased] = due(step_server, "a")
    step_server.begin(leased)
    step_server.pass_time(5000)
    step_server.finish(leased, how=How.RETURNED)
    assert [one.attempt for one in step_server.leased] == [1]
    step_server.pass_time(5000)
    assert step_server.told == []


def test_a_commit_that_fails(step_server):
    """It is cancelled by the next one."""
    due(step_server, "a")
    step_server.faults.fail()
    step_server.pass_time(1001)
    assert step_server.due_job("a").state == READY
    step_server.faults.clear()
    step_server.let_pass(2000)
    assert states(step_server) == [(4, 0)]


@pytest.mark.parametrize("begins", [False, True])
@pytest.mark.parametrize("given_back", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_restart_knows_what_has_begun(step_server, begins, given_back, fails):
    """Such a job is not cancelled, though its time to begin is over; one not begun is."""
    server = step_server
    server.work(begins=begins, room=1)
    [leased] = due(server, "a", "b")
    if fails:
        server.faults.fail()
    if begins:
        server.begin(leased)
    server.step()
    server.faults.clear()
    server.pass_time(2000)
    server.pass_time(1)
    assert server.store_loop.max_sleep() > 0
    if given_back:
        server.work(room=0)
        server.finish(leased, how=How.RETURNED)
    server.crash()
    server.pass_time(1)
    assert server.job_states("a", "b") == ["ready", "cancelled"]
    [again] = server.work()
    assert (again.op_id, again.attempt) == ("a", 1)
    assert server.finish(again) == [True]
    assert server.job("a").state == "done"
