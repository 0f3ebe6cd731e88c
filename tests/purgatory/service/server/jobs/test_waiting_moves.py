"""A request to reschedule a job that a worker has taken, and may have begun."""

import pytest

from purgatory.service.job_messages import (
    Begin,
    CancelJobs,
    JobsCancelled,
    JobsRescheduled,
    Reschedule,
    RescheduleJobs,
)
from purgatory.service.protocol import How, Lease, Submit
from purgatory.service.server.commands import ClientDisconnected
from purgatory.service.server.jobs import waiting_moves
from tests.testing.step_server import StepServer, job, operation, step_server

__all__ = ["step_server"]


@pytest.fixture
def leased(step_server):
    """Job "a", which a worker has; nobody knows whether its handler has begun."""
    return lease(step_server)


def lease(server):
    server.work(begins=True, attempts=2)
    server.submit(job("a", timeout_ms=1000))
    server.pass_time(1001)
    [leased] = server.leased
    return leased


def ask(server, delay_ms=5000, op_id="a", **others):
    """Ask to reschedule; returns the answers that come at once."""
    server.post(RescheduleJobs, [Reschedule(op_id, delay_ms)], **others)
    return answers(server)


def answers(server):
    replies, _ = server.step()
    return [one.done for one in replies if isinstance(one, JobsRescheduled)]


def test_a_job_that_is_given_back(step_server, leased):
    """It is rescheduled to the time that was asked for, and leased to nobody before."""
    at_ms = step_server.time.ms + 5000
    assert ask(step_server) == []
    assert [told.recall for _, told in step_server.told] == [True]
    step_server.time.ms += 700
    step_server.post_finish(leased, how=How.RETURNED)
    assert answers(step_server) == [[True]]
    for _ in range(2):
        status = step_server.job("a")
        assert (status.state, status.attempts, status.due_ms) == ("scheduled", 0, at_ms)
        assert step_server.leased == []
        step_server.crash()


@pytest.mark.parametrize("how", ["begin", "done", "failed"])
def test_a_job_whose_handler_has_begun(step_server, leased, how):
    """It is not rescheduled, and its end counts."""
    assert ask(step_server) == []
    if how == "begin":
        step_server.post(Begin, [Lease(leased.number, leased.token)])
    else:
        step_server.post_finish(leased, how=How[how.upper()])
    assert answers(step_server) == ([[False]] if how != "failed" else [[True]])
    if how == "begin":
        assert step_server.finish(leased) == [True]
    assert step_server.job("a").state == ("retrying" if how == "failed" else "done")


@pytest.mark.parametrize("how", ["begin", "returned", "the connection"])
def test_an_answer_in_the_transaction_of_the_request(step_server, leased, how):
    """It decides at once: no later event would wake the server."""
    step_server.post(RescheduleJobs, [Reschedule("a", 5000)])
    if how == "begin":
        step_server.post(Begin, [Lease(leased.number, leased.token)])
    elif how == "returned":
        step_server.post_finish(leased, how=How.RETURNED)
    else:
        step_server.store_loop.mailbox.send(ClientDisconnected("c", b"w"))
    assert answers(step_server) == [[how != "begin"]]
    assert not step_server.state.waiting_moves.new


@pytest.mark.parametrize("how", ["the connection", "the lease"])
def test_a_job_that_is_lost(step_server, leased, how):
    """It is rescheduled when its worker can begin it no more."""
    del leased
    assert ask(step_server, 10**6) == []
    if how == "the connection":
        step_server.send(ClientDisconnected("c", b"w"))
    else:
        step_server.time.ms += 60_001
    step_server.work(route=b"x", begins=True)
    assert step_server.leased == []
    status = step_server.job("a")
    assert (status.state, status.attempts) == ("scheduled", 0)


def test_the_answer_to_a_lost_job(step_server, leased):
    """It comes with the loss."""
    del leased
    ask(step_server)
    step_server.store_loop.mailbox.send(ClientDisconnected("c", b"w"))
    assert answers(step_server) == [[True]]


def test_a_job_that_is_leased_once_more(step_server, leased):
    """Its next worker is asked for it as well."""
    assert ask(step_server, 10**6) == []
    step_server.faults.fail()
    step_server.submit(job("b"))
    step_server.faults.clear()
    # Until the server tries again, it handles requests, and nothing that waits.
    step_server.post_finish(leased, how=How.RETURNED)
    assert answers(step_server) == []
    [again] = step_server.leased
    step_server.time.ms += 1001
    assert answers(step_server) == []
    assert [told.leases for _, told in step_server.told] == [[Lease(again.number, again.token)]]
    step_server.post_finish(again, how=How.RETURNED)
    assert answers(step_server) == [[True]]


def test_several_in_one_request(step_server, leased):
    """Nothing is rescheduled before everything can be."""
    step_server.submit(job("b", timeout_ms=10**6))
    moves = [Reschedule("b", 7000), Reschedule("a", 5000), Reschedule("c", 1)]
    step_server.post(RescheduleJobs, moves)
    assert answers(step_server) == []
    assert step_server.job("b").due_ms > step_server.time.ms + 7000
    step_server.post_finish(leased, how=How.RETURNED)
    assert answers(step_server) == [[True, True, False]]
    assert step_server.job("b").due_ms == step_server.time.ms + 7000


def test_a_request_that_is_sent_again(step_server, leased):
    """Each time it is answered, and the job is moved once, to the first time."""
    at_ms = step_server.time.ms + 5000
    assert ask(step_server, session="s", seq=7) == []
    step_server.time.ms += 100
    assert ask(step_server, session="s", seq=7) == []
    step_server.post_finish(leased, how=How.RETURNED)
    assert answers(step_server) == [[True], [True]]
    assert step_server.job("a").due_ms == at_ms
    assert ask(step_server, session="s", seq=7) == [[True]]


def test_a_request_that_is_sent_again_into_a_commit_that_fails(step_server, leased):
    """It is not refused, as the first one waits on; both are answered alike."""
    at_ms = step_server.time.ms + 5000
    assert ask(step_server, session="s", seq=7) == []
    step_server.post(RescheduleJobs, [Reschedule("a", 5000)], session="s", seq=7)
    step_server.post(Submit, [operation("b")])
    step_server.faults.fail()
    [refusal], _ = step_server.step()
    assert refusal.seq != 7
    step_server.faults.clear()
    step_server.time.ms += 1500
    step_server.post_finish(leased, how=How.RETURNED)
    assert answers(step_server) == [[True], [True]]
    assert step_server.job("a").due_ms == at_ms


def test_a_job_that_is_to_run_now(step_server, leased):
    """A worker has it: nothing is to be done, and it runs once."""
    assert ask(step_server, 0) == [[True]]
    assert step_server.told == []
    assert step_server.finish(leased) == [True]
    assert step_server.leased == []


def test_a_job_whose_time_comes_meanwhile(step_server, leased):
    """It is due where it is."""
    assert ask(step_server, 5000) == []
    step_server.time.ms += 5000
    assert answers(step_server) == [[True]]
    assert step_server.finish(leased) == [True]


def test_a_cancelled_job(step_server, leased):
    """It is not rescheduled, though its worker has it: a cancellation is for ever."""
    step_server.post(CancelJobs, ["a"])
    step_server.post(RescheduleJobs, [Reschedule("a", 5000)])
    replies, _ = step_server.step()
    step_server.post_finish(leased, how=How.RETURNED)
    replies += step_server.step()[0]
    done = {type(one): one.done for one in replies if hasattr(one, "done")}
    assert (done[JobsCancelled], done[JobsRescheduled]) == ([True], [False])
    assert step_server.job("a").state == "cancelled"


def test_a_time_to_begin_that_ends_meanwhile(step_server):
    """The job is cancelled when it comes back, as without the request."""
    step_server.work(begins=True)
    step_server.submit(job("a", timeout_ms=1000, start_within_ms=500))
    step_server.pass_time(1001)
    [leased] = step_server.leased
    assert ask(step_server) == []
    step_server.time.ms += 501
    step_server.post_finish(leased, how=How.RETURNED)
    assert answers(step_server) == [[False]]
    assert step_server.job("a").state == "cancelled"


def test_a_commit_that_fails(tmp_path):
    """A new request is refused and forgotten, and so is one whose turn it was."""
    server = StepServer(tmp_path / "a.db")
    server.hello()
    leased = lease(server)
    server.submit(job("b", timeout_ms=10**6))
    server.faults.fail()
    server.post(CancelJobs, ["b"])
    assert ask(server) == []
    assert server.state.waiting_moves.commands == []
    server.faults.clear()
    server.time.ms += 1001
    assert ask(server) == []
    server.faults.fail()
    server.post_finish(leased, how=How.RETURNED)
    replies, _ = server.step()
    assert [one.code for one in replies if not isinstance(one, JobsRescheduled)] != []
    server.faults.clear()
    server.time.ms += 1001
    assert answers(server) == []
    assert server.state.waiting_moves.commands == []
    server.store.close()


def test_too_many(step_server, leased, monkeypatch):
    """They are refused, and those that wait are answered."""
    monkeypatch.setattr(waiting_moves, "MOST", 2)
    assert ask(step_server) == []
    assert ask(step_server) == []
    failure = step_server.ask(RescheduleJobs, [Reschedule("a", 5000)])
    assert failure.code == "busy"
    assert "2 requests to reschedule jobs wait; expected fewer" in failure.message
    step_server.post_finish(leased, how=How.RETURNED)
    assert answers(step_server) == [[True], [True]]
