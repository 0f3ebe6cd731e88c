"""Jobs are cancelled, moved, tried again and dropped, whatever their state."""

import pytest

from purgatory.service.encoding import encode
from purgatory.service.job_messages import (
    CancelJobs,
    CancelMatching,
    JobFilter,
    MatchingCancelled,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
)
from purgatory.service.protocol import Failure, How, Submit, Submitted
from purgatory.service.server.commands import ClientRequest
from purgatory.service.server.jobs import mass_cancels
from tests.testing.step_server import StepServer, job, operation


def cancel(server, *job_ids, **others):
    """Cancel jobs; returns for each whether that was done."""
    return server.ask(CancelJobs, list(job_ids), **others).done


def reschedule(server, job_id, delay_ms=None, due_ms=None):
    """Move a job; returns whether that was done."""
    return server.ask(RescheduleJobs, [Reschedule(job_id, delay_ms, due_ms)]).done[0]


def cancel_matching(server, **wanted):
    """Cancel jobs by a filter; returns how many."""
    return server.ask(CancelMatching, JobFilter(**wanted)).count


@pytest.fixture
def lives(step_server):
    """A server with a job in each state, of that name; nothing of the running one is known.

    Its worker takes the kind "taken" only, and has room for one job.
    """
    server = step_server
    names = ("done", "dead", "retrying", "running")
    server.submit(*[job(name, timeout_ms=0, kind=name) for name in (*names, "ready")])
    server.submit(job("scheduled", timeout_ms=60_000), job("cancelled"))
    server.pass_time(2)
    [leased] = server.work("done", room=1)
    server.finish(leased, result=encode(1))
    [leased] = server.work("dead", room=1, attempts=1)
    server.finish(leased, how=How.FAILED, error="Boom")
    [leased] = server.work("retrying", room=1)
    server.finish(leased, how=How.FAILED, delay_ms=600_000, error="Boom")
    [server.running] = server.work("running", room=1)
    assert cancel(server, "cancelled") == [True]
    expected = [*names, "ready", "scheduled", "cancelled"]
    assert server.job_states(*expected) == expected
    return server


def restarted(server):
    """Yield a server twice: as it is, and after a crash."""
    yield server
    server.crash()
    yield server


class TestCancel:
    """`CancelJobs`."""

    @pytest.mark.parametrize("name", ["scheduled", "ready", "retrying"])
    def test_at_once(self, lives, name):
        """A job that does not run ends, also ten minutes before its next attempt."""
        assert cancel(lives, name) == [True]
        for server in restarted(lives):
            status = server.job(name)
            assert (status.state, status.error) == ("cancelled", "cancelled")
            assert status.ended_ms == server.time.ms
            assert cancel(server, name) == [False]
        lives.pass_time(601_000)
        assert name not in [one.op_id for one in lives.work(name, "")]
        assert lives.job_states(name) == ["cancelled"]

    def test_running_and_it_succeeds(self, lives):
        """It is done then, with its result."""
        assert cancel(lives, "running") == [True]
        assert cancel(lives, "running") == [True]
        assert lives.job_states("running") == ["running"]
        assert lives.finish(lives.running, result=encode(5)) == [True]
        for server in restarted(lives):
            assert server.job_states("running") == ["done"]

    @pytest.mark.parametrize("how", [How.FAILED, How.RETURNED])
    def test_running_and_it_does_not(self, lives, how):
        """It is cancelled: there is no other attempt."""
        cancel(lives, "running")
        lives.finish(lives.running, how=how, delay_ms=1000)
        for server in restarted(lives):
            status = server.job("running")
            assert (status.state, status.error) == ("cancelled", "cancelled")
            assert server.work("running") == []

    def test_running_at_a_restart(self, lives):
        """Of its handler nothing is heard any more, and no other attempt is made."""
        cancel(lives, "running")
        lives.crash()
        assert lives.job_states("running") == ["cancelled"]
        assert lives.work("running") == []

    def test_ended(self, lives):
        """Of what has ended, or is dead, or is no job, there is nothing to cancel."""
        lives.submit(operation("op"))
        assert cancel(lives, "done", "dead", "cancelled", "nobody", "op") == [False] * 5

    def test_due_in_the_same_transaction(self, step_server):
        """A job that is due is cancelled all the same, and is never leased."""
        step_server.submit(job("a"))
        step_server.work()
        step_server.time.ms += 2000
        assert cancel(step_server, "a") == [True]
        assert step_server.leased == []
        for server in restarted(step_server):
            assert server.job_states("a") == ["cancelled"]
            assert server.work() == []

    def test_of_another_client(self, lives):
        """Any client may, but for a key that is limited to its own jobs."""
        lives.seq += 1
        request = CancelJobs(lives.seq, ["ready"])
        lives.store_loop.mailbox.send(ClientRequest(b"r", "d", request, 1, own_only=True))
        [answer] = lives.step()[0]
        assert answer.done == [False]
        assert cancel(lives, "ready", client="d") == [True]

    def test_a_commit_that_fails(self, lives):
        """Nothing has changed then, and the next request is done."""
        names = ("ready", "retrying", "scheduled", "running")
        lives.faults.fail()
        assert isinstance(lives.ask(CancelJobs, list(names)), Failure)
        lives.faults.clear()
        lives.let_pass(2000)
        for server in restarted(lives):
            assert server.job_states("retrying", "scheduled") == ["retrying", "scheduled"]
        assert cancel(lives, *names[:3]) == [True] * 3

    def test_sent_again(self, lives):
        """The same request of a session has the same answer."""
        for _ in range(2):
            assert cancel(lives, "ready", session="s", seq=77) == [True]


class TestUnless:
    """Keys of `unless`."""

    def test_at_each_time(self, step_server):
        """They cancel a job that is scheduled, ready or retrying, and the job says which did."""
        server = step_server
        server.submit(job("late", "k", "l"), job("soon", "k", timeout_ms=0))
        server.submit(job("again", "k", timeout_ms=0, kind="again"), job("else", "m", timeout_ms=0))
        server.pass_time(2)
        [leased] = server.work("again")
        server.finish(leased, how=How.FAILED, delay_ms=600_000)
        assert server.complete("k").counts == [3]
        for server in restarted(step_server):
            for name in ("late", "soon", "again"):
                status = server.job(name)
                assert (status.state, status.error) == ("cancelled", "cancelled by key k")
            assert server.job_states("else") == ["ready"]
        assert server.complete("k").counts == [0]
        assert set(server.state.jobs.by_key) == {"m"}

    def test_running(self, step_server):
        """A job that runs goes on."""
        step_server.submit(job("a", "k", timeout_ms=0))
        step_server.pass_time(2)
        [leased] = step_server.work()
        assert step_server.complete("k").counts == [0]
        step_server.finish(leased, how=How.FAILED, delay_ms=1000)
        assert step_server.fail("k").counts == [1]
        assert step_server.job("a").error == "cancelled by key k"

    def test_its_id(self, step_server):
        """The id of a job is none of its keys, whenever an event for an equal key comes."""
        step_server.complete("late", hold_ms=60_000)
        step_server.submit(job("a", timeout_ms=0), job("b", "k", timeout_ms=0), job("late"))
        step_server.submit(operation("waits", "late2"), job("late2"))
        step_server.pass_time(2)
        for key, count in (("a", 0), ("b", 0), ("late", 0), ("late2", 1)):
            assert step_server.complete(key).counts == [count]
        states = step_server.job_states("a", "b", "late", "late2")
        assert states == ["ready", "ready", "scheduled", "scheduled"]
        assert step_server.job("a").unless == step_server.job("late").unless == ()
        assert step_server.query("a").keys == step_server.query("late").keys == []

    @pytest.mark.parametrize("timeout_ms", [0, 60_000])
    def test_its_id_where_that_is_asked_for(self, step_server, timeout_ms):
        """Then it is a key like another, before the job is due and later."""
        step_server.submit(job("a", "a", timeout_ms=timeout_ms))
        step_server.pass_time(2)
        assert step_server.job("a").unless == ("a",)
        assert step_server.complete("a").counts == [1]
        assert step_server.job_states("a") == ["cancelled"]

    def test_a_limit_among_operations(self, step_server):
        """Jobs that were due and operations take turns in the order of their submission."""
        server = step_server
        names = ("job-1", "op-1", "job-2", "job-3", "op-2")
        for name in names:
            make = job if name.startswith("job") else operation
            server.submit(make(name, "k", timeout_ms=0 if make is job else 60_000))
        server.pass_time(2)
        assert server.complete("k", limit=3).counts == [3]
        found = [server.query(name).state for name in names]
        assert found == ["cancelled", "completed", "cancelled", "pending", "pending"]
        assert server.complete("k", limit=2, hold_ms=9).counts == [2]
        server.submit(operation("op-3", "k"))
        assert server.query("op-3").state == "pending"

    def test_a_limit(self, step_server):
        """It counts the jobs that were due, too, the longest waiting first."""
        step_server.submit(*[job(name, "k", timeout_ms=0) for name in "abc"])
        step_server.pass_time(2)
        step_server.submit(job("d", "k", timeout_ms=60_000))
        assert step_server.complete("k", limit=2).counts == [2]
        assert step_server.job_states(*"abcd") == ["cancelled", "cancelled", "ready", "scheduled"]
        assert step_server.complete("k", limit=9, hold_ms=9).counts == [2]

    def test_one_that_was_retried(self, lives):
        """The keys of a dead job work again when it is tried again."""
        lives.submit(job("x", "k", timeout_ms=0, kind="x"))
        lives.pass_time(2)
        [leased] = lives.work("x", attempts=1, route=b"x")
        lives.finish(leased, how=How.FAILED)
        assert lives.complete("k").counts == [0]
        lives.work("none", route=b"x")
        assert lives.ask(RetryJobs, ["x"]).done == [True]
        assert lives.complete("k").counts == [1]


class TestReschedule:
    """`RescheduleJobs`."""

    @pytest.mark.parametrize("name", ["scheduled", "ready", "retrying"])
    def test_later_and_now(self, lives, name):
        """A job that does not run is due at the new time, and not before."""
        due_ms = lives.time.ms + 900_000
        assert reschedule(lives, name, due_ms=due_ms)
        state = "retrying" if name == "retrying" else "scheduled"
        for server in restarted(lives):
            assert (server.job(name).state, server.job(name).due_ms) == (state, due_ms)
        lives.pass_time(899_999)
        assert lives.job_states(name) == [state]
        lives.pass_time(2)
        assert lives.job_states(name) == ["ready"]
        assert reschedule(lives, name, 900_000)
        assert lives.job_states(name) == [state]
        assert reschedule(lives, name, 0)
        lives.pass_time(2)
        assert lives.job_states(name) == ["ready"]
        assert lives.job(name).due_ms <= lives.time.ms

    def test_running_and_ended(self, lives):
        """They cannot be moved."""
        for name in ("running", "done", "dead", "cancelled", "nobody"):
            assert not reschedule(lives, name, 5)
        lives.submit(operation("op"))
        assert not reschedule(lives, "op", 5)

    def test_due_in_the_same_transaction(self, step_server):
        """A job that is due is moved all the same."""
        step_server.submit(job("a"))
        step_server.work()
        step_server.time.ms += 2000
        assert reschedule(step_server, "a", 5000)
        for server in restarted(step_server):
            assert server.job("a").state == "scheduled"
            assert server.job("a").due_ms == server.time.ms + 5000
        step_server.pass_time(5001)
        assert step_server.job_states("a") == ["ready"]

    @pytest.mark.parametrize(
        ("move", "code", "words"),
        [
            (Reschedule("a"), "malformed", "delay_ms is None, due_ms is None; expected one"),
            (Reschedule("a", 1, 2), "malformed", "delay_ms is 1, due_ms is 2; expected one"),
            (Reschedule("a", -1), "malformed", "delay is -0.001 s"),
            (Reschedule("a", 10**10), "too-long", "delay is 10000000.0 s"),
        ],
    )
    def test_bad_moves(self, step_server, move, code, words):
        """They are refused with the value and what was expected."""
        failure = step_server.ask(RescheduleJobs, [move])
        assert failure.code == code
        assert words in failure.message


class TestRetry:
    """`RetryJobs`."""

    def test_retry(self, lives):
        """A dead job is ready for its first attempt; others are not tried again."""
        names = ("dead", "done", "ready", "nobody")
        assert lives.ask(RetryJobs, list(names)).done == [True, False, False, False]
        for server in restarted(lives):
            status = server.job("dead")
            assert (status.state, status.attempts) == ("ready", 0)

    def test_drop(self, lives):
        """A dropped job is forgotten, and its id is free at once."""
        lives.submit(job("other"))
        assert lives.ask(RetryJobs, ["dead", "other"], True).done == [True, False]
        for server in restarted(lives):
            assert server.job_states("dead") == ["unknown"]
            assert ("dead", "dead") not in server.job_counts()
        assert lives.submit(job("dead", payload=2)).known == []
        for server in restarted(lives):
            assert server.job_states("dead") == ["scheduled"]
        # The rows of the dropped one go in time, and the new one stays.
        lives.pass_time(1)
        lives.state.retention.delete([one for _, one in lives.state.retention.acknowledged])
        assert lives.job_states("dead") != ["unknown"]


class TestCancelMatching:
    """`CancelMatching`."""

    def test_filters(self, lives):
        """All that match, in any state but the ended ones."""
        lives.submit(job("x", tags=("t",)), job("y", tags=("t",), kind="ready"), job("z"))
        assert cancel_matching(lives, tag="t", kind="ready") == 1
        assert cancel_matching(lives, tag="t") == 1
        assert cancel_matching(lives, kind="ready") == 1
        assert cancel_matching(lives, state="retrying") == 1
        assert cancel_matching(lives, state="dead") == 0
        assert cancel_matching(lives, client="c") == 3
        assert lives.job_states("x", "y", "z", "ready", "scheduled") == ["cancelled"] * 5
        assert lives.job_states("running", "dead", "done") == ["running", "dead", "done"]
        lives.finish(lives.running, how=How.FAILED)
        assert lives.job_states("running") == ["cancelled"]

    @pytest.mark.parametrize(
        ("wanted", "words"),
        [
            ({}, "no filter is given; expected kind, state, tag or client"),
            ({"state": "expired"}, "state is 'expired'; expected one of"),
        ],
    )
    def test_bad_filters(self, step_server, wanted, words):
        """They are refused."""
        failure = step_server.ask(CancelMatching, JobFilter(**wanted))
        assert failure.code == "malformed"
        assert words in failure.message

    def test_portions(self, step_server, monkeypatch):
        """Many are cancelled in several transactions; others are served meanwhile.

        The request is answered when all are, once for each time that it was sent.
        """
        monkeypatch.setattr(mass_cancels, "PORTION", 10)
        step_server.submit(*[job(f"job-{n}", tags=("t",), timeout_ms=n + 10) for n in range(55)])
        step_server.post(CancelMatching, JobFilter(tag="t"), session="s", seq=7)
        assert step_server.step(once=True)[0] == []
        assert step_server.step(once=True)[0] == []
        step_server.post(CancelMatching, JobFilter(tag="t"), session="s", seq=7)
        step_server.post(CancelJobs, ["job-0"])
        replies, _ = step_server.step(once=True)
        assert [reply.done for reply in replies] == [[True]]
        # What is submitted from now on does not match: it came later.
        step_server.post(Submit, [job("later", tags=("t",), timeout_ms=9999)])
        replies, _ = step_server.step()
        assert [type(reply) for reply in replies] == [Submitted, *[MatchingCancelled] * 2]
        assert step_server.job_counts() == {("", "cancelled"): 55, ("", "scheduled"): 1}
        again = step_server.ask(CancelMatching, JobFilter(tag="t"), session="s", seq=7)
        assert isinstance(again, MatchingCancelled)
        assert again.count == 54

    def test_sent_again_into_a_commit_that_fails(self, step_server, monkeypatch):
        """It is not refused, as the cancellation goes on; before its first commit both are."""
        monkeypatch.setattr(mass_cancels, "PORTION", 10)
        step_server.submit(*[job(f"job-{n}", tags=("t",)) for n in range(25)])
        for begun in (False, True):
            if begun:
                step_server.post(CancelMatching, JobFilter(tag="t"), session="s", seq=7)
                assert step_server.step(once=True)[0] == []
            else:
                step_server.post(CancelMatching, JobFilter(tag="t"), session="s", seq=7)
                step_server.post(CancelJobs, ["job-0"])
            step_server.post(CancelMatching, JobFilter(tag="t"), session="s", seq=7)
            step_server.faults.fail()
            refused = step_server.step(once=True)[0]
            assert [type(reply) for reply in refused] == ([] if begun else [Failure] * 3)
            step_server.faults.clear()
            step_server.time.ms += 2000
            replies, _ = step_server.step()
            assert replies == ([MatchingCancelled(7, 25)] * 2 if begun else [])
        assert step_server.job_counts() == {("", "cancelled"): 25}

    def test_a_commit_that_fails(self, tmp_path, monkeypatch):
        """The portion is done again."""
        monkeypatch.setattr(mass_cancels, "PORTION", 10)
        server = StepServer(tmp_path / "a.db")
        server.hello()
        server.submit(*[job(f"job-{n}", tags=("t",)) for n in range(25)])
        server.post(CancelMatching, JobFilter(tag="t"))
        server.step(once=True)
        server.faults.fail()
        server.step(once=True)
        server.faults.clear()
        server.time.ms += 1001
        replies = []
        for _ in range(9):
            replies += server.step(once=True)[0]
        assert [reply.count for reply in replies] == [25]
        server.crash()
        assert server.job_counts() == {("", "cancelled"): 25}
        server.store.close()
