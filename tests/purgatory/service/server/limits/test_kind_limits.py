"""Pauses, numbers of running jobs, and rates, at a server that is stepped by hand."""

from itertools import pairwise

import pytest

from purgatory.service.job_messages import CancelJobs, SetLimit
from purgatory.service.protocol import How
from purgatory.service.server.commands import ClientDisconnected
from purgatory.service.server.leases import job_leases
from purgatory.service.server.limits import kind_limits
from purgatory.service.server.limits.kind_limits import KindLimits, LimitChanges, TokenBucket
from purgatory.service.store.changes import Changes
from purgatory.service.store.rows import StoredLimit
from tests.testing.step_server import job, step_server

__all__ = ["step_server"]


def limit(server, kind="", **fields):
    paused, running = fields.get("paused"), fields.get("running")
    server.ask(SetLimit, kind, paused, running, fields.get("per_second"))
    return server.leased


def due(server, count, kind="", client="c"):
    """Have so many jobs be due; returns what is leased then."""
    server.submit(*[job(f"{client}{kind}{n}", kind=kind) for n in range(count)], client=client)
    server.pass_time(1001)
    return server.leased


def why(server, op_id):
    return server.state.leases.why(server.due_job(op_id), server.time.ms)


class TestPause:
    def test_a_paused_kind(self, step_server):
        """None of its jobs is given out; those that run go on; others are not concerned."""
        step_server.work("a", "b", begins=True)
        [running] = due(step_server, 1, "a")
        limit(step_server, "a", paused=True)
        assert due(step_server, 2, "b")
        step_server.submit(job("more", kind="a"))
        assert step_server.let_pass(5000) == []
        assert step_server.store_loop.max_sleep() > 1
        assert why(step_server, "more") == kind_limits.PAUSED
        assert step_server.finish(running) == [True]
        assert [one.op_id for one in limit(step_server, "a", paused=False)] == ["more"]
        assert why(step_server, "more") == ""

    def test_a_restart(self, step_server):
        """It does not end the pause, nor forget the limits."""
        limit(step_server, "a", paused=True, running=3)
        limit(step_server, "b", running=1)
        limit(step_server, "b", running=0)
        step_server.crash()
        [found] = step_server.state.leases.limits.listed()
        assert (found.kind, found.paused, found.running, found.per_second) == ("a", True, 3, None)
        due(step_server, 1, "a")
        assert step_server.work("a") == []


class TestRunning:
    def test_no_more_than_that(self, step_server):
        """What was given out counts, of all workers and client names, until it has ended."""
        limit(step_server, running=3)
        step_server.work(route=b"1", room=2, begins=True)
        step_server.work(route=b"2", begins=True)
        step_server.work(route=b"3", client="d")
        found = due(step_server, 3) + due(step_server, 3, client="d")
        assert len(found) == 3
        assert why(step_server, "d2") == kind_limits.RUNNING
        assert step_server.store_loop.max_sleep() > 1
        for how in (How.DONE, How.RETURNED):
            step_server.finish(found.pop(0), how=how)
            assert len(step_server.leased) == 1
            found += step_server.leased

    def test_names_take_turns(self, step_server):
        """Of a kind with a limit none keeps the others from it."""
        limit(step_server, running=1)
        step_server.work(route=b"1", client="c")
        step_server.work(route=b"2", client="d")
        due(step_server, 5)
        due(step_server, 5, client="d")
        ended = []
        for _ in range(6):
            jobs = step_server.state.leases.by_number.values()
            [held] = [one for one in jobs if one.holder is not None]
            ended.append(held.record.client.name)
            step_server.finish(Held(held), client=ended[-1])
        assert set(ended[1:]) == {"c", "d"}
        assert abs(ended.count("c") - ended.count("d")) <= 1

    def test_a_connection_that_let_a_lease_lapse(self, step_server):
        """What it holds counts no more, until it speaks; it never counts twice."""
        limit(step_server, running=2)
        step_server.work(route=b"1", lease_ms=500, room=1, begins=True)
        due(step_server, 4)
        step_server.work(route=b"1", lease_ms=60_000, room=2, begins=True)
        assert step_server.state.leases.limits.leased == {"": 2}
        step_server.let_pass(600)
        assert len(step_server.state.leases.lapsed) == 1
        assert step_server.state.leases.limits.leased == {}
        assert len(step_server.work(route=b"2")) == 2
        assert step_server.work(route=b"1", room=2) == []
        assert step_server.state.leases.limits.leased == {"": 3}
        step_server.send(ClientDisconnected("c", b"1"))
        step_server.send(ClientDisconnected("c", b"2"))
        assert step_server.state.leases.limits.leased == {}

    def test_a_lapsed_connection_that_goes(self, step_server):
        """It had ceased to count."""
        limit(step_server, running=2)
        step_server.work(lease_ms=500, begins=True)
        assert len(due(step_server, 4)) == 2
        step_server.let_pass(600)
        step_server.send(ClientDisconnected("c", b"w"))
        assert step_server.state.leases.limits.leased == {}
        assert len(step_server.work(route=b"2")) == 2

    def test_a_connection_that_was_detached(self, step_server):
        """What it got before counts until that lease ends, also if another of its leases lapses."""
        limit(step_server, running=2)
        step_server.work(detached=True, room=1, lease_ms=800, begins=True)
        due(step_server, 2)
        step_server.work(lease_ms=500, begins=True)
        assert step_server.state.leases.limits.leased == {"": 2}
        step_server.let_pass(600)
        assert step_server.state.leases.limits.leased == {"": 1}
        step_server.let_pass(300)
        assert step_server.state.leases.limits.leased == {}

    def test_a_limit_that_is_lowered(self, step_server):
        """What runs goes on; none is given out until fewer run."""
        step_server.work(begins=True)
        found = due(step_server, 4)
        assert limit(step_server, running=1) == []
        step_server.submit(job("more"))
        step_server.pass_time(1001)
        step_server.finish(*found[:3])
        assert step_server.leased == []
        step_server.finish(found[3])
        assert [one.op_id for one in step_server.leased] == ["more"]


class TestRate:
    def test_so_many_in_a_second(self, step_server):
        """At once as many as a second has; then one after the other, and the server sleeps."""
        limit(step_server, per_second=5)
        step_server.work(room=100)
        assert len(due(step_server, 20)) == 5
        assert why(step_server, "c19") == kind_limits.RATE
        times = []
        for _ in range(1000):
            step_server.pass_time(1)
            times += [step_server.time.ms] * len(step_server.leased)
        assert [later - sooner for sooner, later in pairwise(times)] == [200] * 4
        assert step_server.store_loop.max_sleep() == pytest.approx(0.2, abs=0.002)

    def test_less_than_one_in_a_second(self, step_server):
        """One at first, then one each time that the rate has one."""
        limit(step_server, per_second=0.1)
        step_server.work(room=100)
        assert len(due(step_server, 3)) == 1
        assert step_server.let_pass(9900) == []
        assert len(step_server.let_pass(200)) == 1

    def test_what_is_given_back(self, step_server):
        """It counts for nothing; what has failed does."""
        limit(step_server, per_second=0.1)
        step_server.work(begins=True, room=1)
        [leased] = due(step_server, 2)
        for _ in range(3):
            step_server.finish(leased, how=How.RETURNED)
            [leased] = step_server.leased
        step_server.finish(leased, how=How.FAILED)
        assert step_server.leased == []

    def test_what_is_cancelled_before_it_begins(self, step_server):
        """It counts for nothing, too: its worker gives it back."""
        limit(step_server, per_second=0.1)
        step_server.work(begins=True, room=1)
        [leased] = due(step_server, 2)
        step_server.ask(CancelJobs, [leased.op_id])
        step_server.finish(leased, how=How.RETURNED)
        [other] = step_server.leased
        assert {leased.op_id, other.op_id} == {"c0", "c1"}

    def test_a_restart(self, step_server):
        """The bucket is empty: the last run may have emptied it a moment ago."""
        limit(step_server, per_second=1)
        step_server.work()
        assert len(due(step_server, 3)) == 1
        step_server.crash()
        assert step_server.work() == []
        assert len(step_server.let_pass(1000)) == 1

    def test_other_kinds_go_on(self, step_server):
        """A kind that waits for its rate keeps none of the others back."""
        limit(step_server, "a", per_second=1)
        step_server.work("a", "b", room=100)
        due(step_server, 10, "a")
        assert len(due(step_server, 10, "b")) >= 10


class TestWhy:
    def test_no_worker_and_busy_ones(self, step_server):
        """What a ready job waits for."""
        due(step_server, 2, "a")
        assert why(step_server, "ca0") == job_leases.NO_WORKER
        step_server.work("b")
        assert why(step_server, "ca0") == job_leases.NO_WORKER
        step_server.work("a", route=b"other", room=1, begins=True)
        assert why(step_server, "ca0") == ""
        assert why(step_server, "ca1") == job_leases.BUSY


class TestTokenBucket:
    def test_it_holds_one_second(self):
        """More do not gather, and one at least fits in."""
        bucket = TokenBucket(5.0, 5.0, 0)
        assert bucket.look(10_000) == 5.0
        slow = TokenBucket(0.1, 0.0, 0)
        assert slow.look(5_000) == pytest.approx(0.5)
        assert slow.look(500_000) == 1.0

    def test_when_there_is_one(self):
        """At the first millisecond at which it is there, not sooner."""
        for rate in (0.001, 0.3, 1.0, 7.0, 999.0):
            bucket = TokenBucket(rate, 0.0, 0)
            at_ms = bucket.next_ms(0)
            assert bucket.look(max(0, at_ms - 2)) < 1.0
            assert bucket.look(at_ms) >= 1.0 - 1e-9

    def test_a_clock_that_goes_back(self):
        """It takes no token away."""
        bucket = TokenBucket(1.0, 1.0, 10_000)
        assert bucket.look(0) == 1.0


def test_a_rate_that_is_set_again():
    """Tokens that were used are not given anew."""
    limits = KindLimits()
    limits.put(StoredLimit("a", 0, 0, 1.0), 0)
    limits.take("a")
    limits.put(StoredLimit("a", 0, 0, 2.0), 0)
    assert limits.blocked("a", 0) == kind_limits.RATE
    limits.put(StoredLimit("a", 1, 0, 2.0), 0)
    limits.put(StoredLimit("a", 0, 0, 2.0), 0)
    assert limits.blocked("a", 0) == kind_limits.RATE
    limits.put(StoredLimit("a", 0, 0, 0.0), 0)
    assert (limits.is_used, limits.bytes, limits.blocked("a", 0)) == (False, 0, "")


class Held:
    """A lease, as `StepServer.finish` takes one."""

    def __init__(self, due_job):
        self.number, self.token = due_job.record.seq, due_job.token


def test_several_changes_of_a_kind():
    """The later ones see the earlier ones; one row is written, or deleted."""
    limits, changes = KindLimits(), Changes()
    limits.put(StoredLimit("b", 1, 0, 0.0), 0)
    changed = LimitChanges(limits, changes, 0)
    changed.put(StoredLimit("a", 1, 0, 0.0))
    assert changed.find("a").paused
    changed.put(changed.find("a")._replace(running=5))
    changed.put(changed.find("b")._replace(paused=0))
    changed.prepare()
    assert changes.limits == ["a", 1, 5, 0.0]
    assert changes.delete_limits == ["b"]
    assert not limits.has("a")
    changed.publish()
    assert (limits.has("a"), limits.has("b")) == (True, False)


def test_a_commit_that_fails(step_server):
    """Nothing has changed, in memory and on disk."""
    step_server.faults.fail()
    answer = step_server.ask(SetLimit, "a", True)
    assert answer.code == "store"
    assert not step_server.state.leases.limits.is_used
    step_server.faults.clear()
    step_server.crash()
    assert not step_server.state.leases.limits.is_used
