"""The journal's table of jobs: a row for each end, with what a report asks for."""

import pytest

from purgatory.service.job_messages import RetryJobs
from purgatory.service.protocol import Cancel, How
from purgatory.service.store.rows import JournalPosition
from purgatory.trace.tables import JOBS
from tests.testing.step_server import START_MS, RecordingSink, StepServer, job, operation

DUE_MS = 100


@pytest.fixture
def server(tmp_path):
    server = StepServer(tmp_path / "a.db", sink=RecordingSink())
    server.hello()
    yield server
    server.store.close()


def submit_due(server, *ids, kind="mail"):
    """Submit jobs, and let them be due."""
    server.submit(*[job(op_id, timeout_ms=DUE_MS, kind=kind) for op_id in ids])
    server.pass_time(DUE_MS + 1)


def the_row(server):
    """Return the only row of jobs; the store has the same, and its values are good."""
    [row] = server.sink.jobs
    assert JOBS.make(*row[1:]) == row[1:]
    return row


def test_a_job_that_is_done(server):
    """With its last attempt: when, how long it waited for a worker, and how long it ran."""
    submit_due(server, "j")
    server.pass_time(50)
    [leased] = server.work("mail", begins=True)
    server.begin(leased)
    server.pass_time(30)
    server.finish(leased)
    row = the_row(server)
    assert (row.job_id, row.kind, row.state, row.client, row.tags) == ("j", "mail", "done", "c", ())
    assert (row.submitted_ms, row.due_ms) == (START_MS, START_MS + DUE_MS)
    assert row.began_ms == START_MS + DUE_MS + 51
    assert row.ended_ms == row.began_ms + 30
    assert (row.attempts, row.queue_ms, row.run_ms, row.error) == (1, 51, 30, "")
    assert row.worker == b"w".hex()
    assert (server.sink.operations, server.sink.outcomes) == ([], [])


def test_a_job_that_is_dead_and_done_later(server):
    """It has a row for each end; the attempts in between have none."""
    submit_due(server, "j")
    [leased] = server.work("mail", attempts=2)
    server.finish(leased, how=How.FAILED, error="ValueError: y")
    [leased] = server.leased
    server.finish(leased, how=How.FAILED, error="KeyError: x")
    row = the_row(server)
    assert (row.state, row.attempts, row.error) == ("dead", 2, "KeyError: x")
    server.ask(RetryJobs, [leased.op_id])
    [leased] = server.leased or server.work("mail")
    server.finish(leased)
    assert [(row.state, row.attempts) for row in server.sink.jobs] == [("dead", 2), ("done", 1)]


def test_an_attempt_that_follows_at_once(server):
    """It is due when the one before has failed, or the job was retried: so long it has waited."""
    submit_due(server, "j")
    [leased] = server.work("mail", attempts=2)
    for wait_ms in (30, 50):
        server.pass_time(wait_ms)
        server.finish(leased, how=How.FAILED, error="ValueError: x")
        [leased] = server.leased or [leased]
    server.pass_time(70)
    server.ask(RetryJobs, [leased.op_id])
    [leased] = server.leased
    server.finish(leased)
    due_ms = [row.due_ms - START_MS - DUE_MS - 1 for row in server.sink.jobs]
    assert (due_ms, [row.queue_ms for row in server.sink.jobs]) == ([30, 150], [0, 0])


def test_a_job_that_is_cancelled_before_it_is_due(server):
    """By a request, or by a key: no attempt has begun."""
    server.submit(job("a"), job("b", "paid"))
    server.ask(Cancel, ["a"])
    server.complete("paid")
    rows = {row.job_id: row for row in server.sink.jobs}
    assert [row.state for row in rows.values()] == ["cancelled"] * 2
    assert (rows["a"].error, rows["b"].error) == ("cancelled", "cancelled by key paid")
    assert (rows["a"].attempts, rows["a"].began_ms, rows["a"].run_ms) == (0, None, None)


def test_a_job_that_is_cancelled_while_it_waits(server):
    """It has been due: no attempt has ended it."""
    submit_due(server, "j")
    server.change_jobs(lambda ends: ends.cancel(server.due_job("j"), "by an operator"))
    [row] = server.store.queued_jobs(0)
    assert (row.state, row.error, row.began_ms) == ("cancelled", "by an operator", 0)


def test_what_the_journal_has_not_confirmed_is_given_again(server):
    """After a crash, in order; what it has confirmed is deleted, and its numbers are not reused."""
    submit_due(server, "a", "b")
    for leased in server.work("mail"):
        server.finish(leased)
    before = server.sink.jobs
    server.sink = RecordingSink(JournalPosition(0, 0, 0, 0, before[0].number))
    server.crash()
    assert server.sink.jobs == before[1:]
    server.sink.confirm(JournalPosition(0, 0, 0, 0, before[1].number))
    server.hello()
    server.pass_time(1000)
    assert server.store.queued_jobs(0) == []
    submit_due(server, "c")
    [leased] = server.work("mail")
    server.finish(leased)
    assert [row.number for row in server.sink.jobs] == [2, 3]


def test_a_job_is_forgotten_though_no_operation_is_journaled(server, monkeypatch):
    """Its row waits for the journal by itself."""
    submit_due(server, "j")
    [leased] = server.work("mail")
    server.finish(leased)
    server.pass_time(10**7)
    server.pass_time(10**6)
    assert "j" not in server.state.known
    assert [row.job_id for row in server.store.queued_jobs(0)] == ["j"]


def test_an_end_that_is_not_committed(server):
    """It is not in the journal, and leaves a gap in the numbers."""
    submit_due(server, "j")
    [leased] = server.work("mail")
    server.faults.fail()
    server.post_finish(leased)
    server.step()
    assert server.sink.jobs == []
    server.faults.clear()
    server.finish(leased)
    assert the_row(server).number == 2


def test_without_a_journal_nothing_is_queued(step_server):
    """The store has no row that nobody takes."""
    step_server.submit(operation("a"), job("j", timeout_ms=DUE_MS), job("k"))
    step_server.ask(Cancel, ["k"])
    step_server.pass_time(DUE_MS + 1)
    [leased] = step_server.work()
    step_server.finish(leased)
    assert step_server.store.queued_jobs(0) == []


def test_the_extension_of_a_job_is_no_row(server):
    """No operation of the journal has its id."""
    server.submit(job("j"))
    server.extend("j", 5000)
    assert server.sink.extensions == []


def test_a_job_that_was_cancelled_while_it_ran(server):
    """A crash ends the attempt: the next start writes the row, once."""
    submit_due(server, "j")
    [leased] = server.work("mail", begins=True)
    server.begin(leased)
    server.change_jobs(lambda ends: ends.cancel(server.due_job("j"), "by an operator"))
    assert server.sink.jobs == []
    for _ in range(2):
        server.crash()
        row = the_row(server)
        assert (row.job_id, row.state, row.error) == ("j", "cancelled", "by an operator")
        assert (row.submitted_ms, row.due_ms) == (START_MS, START_MS + DUE_MS)
        server.sink = RecordingSink()


def test_such_a_job_on_a_full_disk(server):
    """The start goes on; the row is written by the next one."""
    submit_due(server, "j")
    [leased] = server.work("mail", begins=True)
    server.begin(leased)
    server.change_jobs(lambda ends: ends.cancel(server.due_job("j"), "by an operator"))
    server.faults.fail()
    server.crash()
    assert server.sink.jobs == []
    server.faults.clear()
    server.crash()
    assert the_row(server).state == "cancelled"
