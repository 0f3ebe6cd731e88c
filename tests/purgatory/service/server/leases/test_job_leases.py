"""Leases of jobs that are due, at a server that is stepped by hand."""

import pytest

from purgatory.service.encoding import unpack
from purgatory.service.job_messages import RetryJobs
from purgatory.service.protocol import (
    Finish,
    Finished,
    How,
    Keep,
    Kept,
    Lease,
    LeaseEnd,
    Query,
    Work,
)
from purgatory.service.server.commands import ClientDisconnected, ClientRequest
from purgatory.service.server.leases import job_leases
from purgatory.service.server.leases.due_job import DueJob
from purgatory.service.server.leases.job_leases import JobLeases
from purgatory.service.server.leases.worker_connection import WorkerConnection
from purgatory.service.server.named_leases.named_leases import NamedLeases
from purgatory.service.server.records.clients import ClientRecord, OutcomeRecord
from tests.testing.step_server import StepServer, job, operation, step_server

__all__ = ["step_server"]


def ids(jobs):
    return [one.op_id for one in jobs]


def due(server, *op_ids, **others):
    """Submit jobs and let them become due; returns what is leased then."""
    server.submit(*[job(op_id, **others) for op_id in op_ids])
    server.pass_time(1001)
    return server.leased


def why(server, op_id):
    """Return why a job is not with a worker."""
    return server.state.leases.why(server.due_job(op_id), server.time.ms)


class TestDelivery:
    def test_a_job_that_is_due(self, step_server):
        """It is leased with its payload, and not sent to its client."""
        step_server.work("mail")
        step_server.submit(job("a", kind="mail", payload={"to": "ada"}), operation("b"))
        outcomes = step_server.pass_time(1000) + step_server.pass_time(1)
        [leased] = step_server.leased
        assert ids(outcomes) == ["b"]
        assert (leased.op_id, leased.kind, leased.attempt) == ("a", "mail", 1)
        assert unpack(leased.payload) == {"to": "ada"}
        assert leased.deadline_ms - leased.submitted_ms == 1000
        assert step_server.finish(leased) == [True]
        assert step_server.fetch_outcomes() == outcomes
        assert step_server.state.retention.unacknowledged == 1

    def test_each_to_one_worker(self, step_server):
        """They take turns, and none holds more than it has room for."""
        for route in (b"1", b"2", b"3"):
            step_server.work(route=route, room=2)
        found = due(step_server, *"abcdefgh")
        assert sorted(step_server.routes.values()) == [b"1", b"1", b"2", b"2", b"3", b"3"]
        assert ids(found) == list("adbecf")
        step_server.finish(found[0])
        assert ids(step_server.leased) == ["g"]

    def test_only_the_kinds_that_a_worker_asks_for(self, step_server):
        """The others wait for one that does; the kinds take turns."""
        step_server.submit(*[job(f"{kind}{n}", kind=kind) for kind in "abc" for n in range(3)])
        step_server.pass_time(1001)
        assert ids(step_server.work("a", "b", room=4)) == ["a0", "b0", "a1", "b1"]
        found = [why(step_server, op_id) for op_id in ("a0", "a2", "c0")]
        assert found == ["", job_leases.BUSY, job_leases.NO_WORKER]
        assert ids(step_server.work("c", route=b"other")) == ["c0", "c1", "c2"]

    def test_only_jobs_of_the_own_name(self, step_server):
        """Names are groups: a worker neither gets nor ends another's jobs."""
        step_server.work(client="other")
        assert due(step_server, "a") == []
        [leased] = step_server.work(route=b"mine")
        assert step_server.finish(leased, client="other") == [False]
        assert not step_server.ask(Keep, [Lease(leased.number, leased.token)], client="other").done[
            0
        ]
        assert step_server.finish(leased) == [True]

    def test_more_than_one_transaction_gives_out(self, step_server, monkeypatch):
        """The next ones give out the rest, without being asked."""
        monkeypatch.setattr(job_leases, "MAX_ASSIGNED", 2)
        due(step_server, *"abcde")
        step_server.work(room=10)
        found = list(step_server.leased)
        while step_server.store_loop.max_sleep() == 0:
            step_server.step(once=True)
            found += step_server.leased
        assert ids(found) == list("abcde")

    def test_a_job_that_ends_otherwise(self, step_server):
        """One that is cancelled, or whose key is completed, is for no worker and no client."""
        step_server.submit(job("a"), job("b", "unless"))
        step_server.cancel("a")
        assert step_server.complete_and_push("unless") == (1, [])
        step_server.pass_time(1001)
        assert step_server.work() == []
        assert step_server.fetch_outcomes() == []
        assert step_server.state.retention.unacknowledged == 0
        step_server.crash()
        assert step_server.state.retention.unacknowledged == 0
        assert step_server.query("a").state == "cancelled"

    def test_submitting_again(self, step_server):
        """A known job is not submitted again, and its outcome is not sent."""
        step_server.work()
        [leased] = due(step_server, "a")
        step_server.finish(leased)
        assert step_server.submit(job("a")).known[0].state == "completed"
        assert step_server.step() == ([], [])


class TestLeases:
    def test_one_that_ends_by_time(self, step_server):
        """The job is another worker's then; its first worker can do nothing any more."""
        step_server.work(lease_ms=500)
        [first] = due(step_server, "a")
        step_server.work(route=b"other", lease_ms=500)
        assert step_server.store_loop.max_sleep() == pytest.approx(0.5, abs=0.01)
        step_server.pass_time(499)
        assert step_server.leased == []
        step_server.pass_time(1)
        [second] = step_server.leased
        assert (second.op_id, second.attempt) == ("a", 2)
        assert second.token > first.token
        lease = Lease(first.number, first.token)
        assert step_server.ask(Keep, [lease]).done == [False]
        assert step_server.finish(first) == [False]
        assert step_server.finish(second) == [True]
        assert step_server.finish(second) == [False]

    def test_one_that_is_kept(self, step_server):
        """It lasts as long again from then on."""
        step_server.work(lease_ms=500)
        [leased] = due(step_server, "a")
        for _ in range(5):
            step_server.pass_time(400)
            assert step_server.ask(Keep, [Lease(leased.number, leased.token)]).done == [True]
        assert step_server.let_pass(499) == []
        step_server.pass_time(1)
        assert step_server.leased == []  # it does not speak
        assert ids(step_server.work(lease_ms=500)) == ["a"]

    @pytest.mark.parametrize("is_kept", [False, True])
    @pytest.mark.parametrize("absent_ms", [700, 5000, 10**6])
    @pytest.mark.parametrize("others", [0, 3000])
    def test_a_server_that_was_stopped(self, step_server, is_kept, absent_ms, others):
        """What has come meanwhile counts, behind how many requests of others it may be."""
        step_server.work(lease_ms=500, attempts=1)
        [leased] = due(step_server, "a")
        for n in range(others):
            step_server.post(Query, ["?"], client=f"other {n % 100}")
        step_server.time.ms += absent_ms
        lease = Lease(leased.number, leased.token)
        if is_kept:
            step_server.post(Keep, [lease])
        else:
            step_server.post_finish(leased)
        replies, _ = step_server.step()
        assert [one.done for one in replies if isinstance(one, Kept | Finished)] == [[True]]
        step_server.let_pass(300)
        assert step_server.finish(leased) == [is_kept]
        assert step_server.dead() == []

    def test_one_that_is_kept_for_a_shorter_time(self, step_server):
        """It ends when its worker expects, and not when the first lease would have ended."""
        step_server.work(lease_ms=60_000)
        [leased] = due(step_server, "a")
        step_server.work(lease_ms=500)
        lease = Lease(leased.number, leased.token)
        assert step_server.ask(Keep, [lease]).done == [True]
        step_server.let_pass(499)
        assert step_server.state.leases.counts.leased == 1
        step_server.let_pass(1)
        assert step_server.state.leases.counts.leased == 0
        assert step_server.finish(leased) == [False]

    def test_a_worker_that_has_gone_while_the_server_was_stopped(self, step_server):
        """Its leases last a lease longer, and no more."""
        step_server.work(lease_ms=500)
        step_server.work(route=b"other", room=1, lease_ms=500)
        assert len(due(step_server, "a", "b")) == 2
        step_server.pass_time(10_000)
        assert step_server.leased == []
        step_server.let_pass(12_000)
        assert sorted(ids(step_server.work(route=b"third"))) == ["a", "b"]

    def test_a_worker_that_is_frozen(self, step_server):
        """It is leased no job again until it speaks, whatever it says then."""
        step_server.work(lease_ms=500, room=2, attempts=100)
        first = due(step_server, "a", "b", "c", "d")[0]
        assert step_server.let_pass(60_000) == []
        assert step_server.store_loop.max_sleep() > 1
        assert why(step_server, "a") == job_leases.NO_WORKER
        [other] = step_server.work(route=b"other", lease_ms=500, room=1, attempts=100)
        assert other.attempt == 2
        lease = Lease(first.number, first.token)
        command = ClientRequest(b"w", "c", Keep(1, [lease]), 1)
        step_server.send(command)
        assert len(step_server.leased) == 2
        assert set(step_server.routes.values()) == {b"w"}

    def test_a_connection_that_has_gone(self, step_server):
        """What it holds is another's at once; attempts count."""
        step_server.work()
        due(step_server, *"ab")
        step_server.work(route=b"other")
        step_server.send(ClientDisconnected("c", b"w"))
        assert sorted((one.op_id, one.attempt) for one in step_server.leased) == [
            ("a", 2),
            ("b", 2),
        ]
        assert set(step_server.routes.values()) == {b"other"}

    def test_one_that_is_detached(self, step_server):
        """It outlasts its connection, any other one keeps and ends it, and it ends by time."""
        step_server.work(room=2, lease_ms=500, detached=True)
        first, second = due(step_server, *"abc")
        step_server.finish(first)
        assert step_server.leased == []  # two more it was, and those it was given
        step_server.send(ClientDisconnected("c", b"w"))
        assert ids(step_server.work(route=b"other", room=1, detached=True)) == ["c"]
        step_server.pass_time(400)
        lease = Lease(second.number, second.token)
        assert step_server.ask(Keep, [lease]).done == [True]
        step_server.pass_time(400)
        assert step_server.finish(second) == [True]
        step_server.let_pass(60_000)
        assert ids(step_server.work(route=b"other", room=1, detached=True)) == ["c"]

    def test_what_is_given_back(self, step_server):
        """The attempt does not count, and the job comes before the others."""
        step_server.work(room=1)
        [first] = due(step_server, *"ab")
        step_server.finish(first, how=How.RETURNED)
        [again] = step_server.leased
        assert (again.op_id, again.attempt) == ("a", 1)

    def test_stale_entries_do_not_gather(self, step_server):
        """The heap of ends has about as many entries as there are leases."""
        step_server.work(room=100)
        for n in range(30):
            found = due(step_server, *[f"{n}.{m}" for m in range(100)])
            assert step_server.finish(*found) == [True] * 100
        assert len(step_server.state.leases.lease_times._ends) < 1500
        assert step_server.state.leases.counts == (0, 0, 0)
        assert step_server.state.retention.unacknowledged == 0


class TestDisk:
    def test_a_restart(self, step_server):
        """All leases end; what is done stays done, attempts count, and tokens grow."""
        step_server.work()
        done, failed, running = due(step_server, *"abc")
        step_server.finish(done)
        step_server.finish(failed, how=How.FAILED, delay_ms=5000)
        for _ in range(2):
            step_server.crash()
            assert step_server.finish(running) == [False]
            [leased] = step_server.work()
            assert (leased.op_id, leased.attempt) == ("c", 1)
            assert leased.token > running.token
            running = leased
        step_server.pass_time(5000)
        assert [(one.op_id, one.attempt) for one in step_server.leased] == [("b", 2)]
        step_server.finish(running, *step_server.leased)
        step_server.crash()
        assert step_server.work() == []

    def test_a_commit_that_fails(self, step_server):
        """Nothing has changed: the lease lasts, and its worker may say so again."""
        step_server.work(lease_ms=500)
        [leased] = due(step_server, "a")
        step_server.faults.fail()
        assert step_server.ask(Finish, [LeaseEnd(leased.number, leased.token, 0)]).code == "store"
        step_server.pass_time(2000)
        assert step_server.leased == []
        step_server.faults.clear()
        step_server.let_pass(5000)
        [again] = step_server.work(route=b"other")
        assert (again.op_id, again.attempt) == ("a", 2)
        assert step_server.finish(again) == [True]

    @pytest.mark.parametrize("crash", [False, True])
    def test_an_end_that_is_sent_again(self, step_server, crash):
        """As its worker got no answer: that is the same as before, and nothing is done twice."""
        step_server.work(room=2, attempts=1)
        done, dead = due(step_server, "a", "b")
        ends = [LeaseEnd(done.number, done.token, How.DONE)]
        ends.append(LeaseEnd(dead.number, dead.token, How.FAILED))
        assert step_server.ask(Finish, ends, session="s", seq=7).done == [True, True]
        assert step_server.ask(RetryJobs, ["b"], session="s", seq=8).done == [True]
        if crash:
            step_server.crash()
        assert step_server.ask(Finish, ends, session="s", seq=7).done == [True, True]
        assert step_server.ask(RetryJobs, ["b"], session="s", seq=8).done == [True]
        assert step_server.ask(Finish, ends, session="s", seq=9).done == [False, False]

    def test_rows_are_deleted(self, step_server):
        """Those of jobs go with their outcomes."""
        step_server.work()
        found = due(step_server, *"abc")
        step_server.finish(*found)
        assert len(step_server.store.jobs()) == 3
        step_server.pass_time(10**6)
        assert step_server.store.jobs() == []
        assert step_server.query("a").state == "unknown"
        assert isinstance(step_server, StepServer)


def leased_job(number, route, *, begins=True, detached=False):
    record = OutcomeRecord(number, number, f"op-{number}", ClientRecord("ada"), "expired", 0)
    leased = DueJob(record, "mail")
    leased.token = 10 * number
    leased.holder = WorkerConnection(route)
    leased.holder.ask(Work(0, {"mail": 1}, 1, 1000, detached, {}, begins))
    return leased


def test_one_message_for_each_worker():
    """With all of its leases, once; cancelled and recalled ones apart."""
    leases = JobLeases(1)
    leases.cancel(leased_job(1, b"1"), "")
    leases.cancel(leased_job(2, b"1"), "")
    leases.recall(leased_job(3, b"1"))
    leases.recall(leased_job(4, b"2"))
    assert leases.untold
    assert [(route, told.recall, told.leases) for route, told in leases.take_notices()] == [
        (b"1", False, [Lease(1, 10), Lease(2, 20)]),
        (b"1", True, [Lease(3, 30)]),
        (b"2", True, [Lease(4, 40)]),
    ]
    assert not leases.untold
    assert leases.take_notices() == []


@pytest.mark.parametrize("others", [{"begins": False}, {"detached": True}])
def test_workers_that_are_not_told(others):
    """Those of earlier versions, and those whose connection says nothing of the worker."""
    leases = JobLeases(1)
    leases.cancel(leased_job(1, b"1", **others), "")
    orphan = leased_job(2, b"1")
    orphan.holder = None
    leases.cancel(orphan, "")
    assert not leases.untold


@pytest.mark.parametrize("leases", [JobLeases, NamedLeases])
def test_a_token_is_exact_in_javascript(leases):
    """For two centuries, of jobs and of names."""
    year_2200_s = 7_258_118_400
    assert leases(year_2200_s)._last_token < 2**53
