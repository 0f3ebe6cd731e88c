"""Random workers, jobs, failures and restarts against a naive model of leases."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from purgatory.service.job_messages import RetryJobs
from purgatory.service.protocol import How, Keep, Lease
from purgatory.service.server.commands import ClientDisconnected
from tests.testing.step_server import StepServer, job

ATTEMPTS = 3
LEASE_MS = 1000
ROUTES = (b"1", b"2", b"3")
KINDS = ("a", "b")
ROUNDS = int(os.environ.get("PURGATORY_ROUNDS", "1"))


class ModelJob:
    """What a job is: waiting for a time, leased to a route, dead, or done."""

    def __init__(self, op_id, kind, deadline_ms):
        self.op_id = op_id
        self.kind = kind
        self.ready_ms = deadline_ms + 1  # when it can be leased
        self.attempts = 0
        self.route = None
        self.lease = None
        self.until_ms = 0
        self.state = "waiting"
        self.begun = False
        self.cancelled = False

    def lose(self, now_ms, delay_ms=0):
        """End a lease: an attempt has ended if it had begun."""
        self.route = None
        self.attempts += self.begun
        if self.cancelled:
            self.state = "cancelled"
            return
        if not self.begun:
            self.state, self.ready_ms = "waiting", now_ms
            return
        self.state = "dead" if self.attempts >= ATTEMPTS else "waiting"
        self.ready_ms = now_ms + delay_ms


class LeaseMachine(RuleBasedStateMachine):
    """Every lease that the server gives is possible in the model, and no job is forgotten."""

    @initialize()
    def open(self):
        self.directory = tempfile.TemporaryDirectory()
        self.server = StepServer(Path(self.directory.name) / "a.db")
        self.jobs = {}
        self.workers = {}  # route -> kinds and room
        self.highest = 0
        self.past = []  # leases that have ended
        self.count = 0

    @property
    def now(self):
        return self.server.time.ms

    def leased(self):
        return [one for one in self.jobs.values() if one.state == "leased"]

    def look(self):
        """Compare what was leased in the last step with the model."""
        for one in self.leased():
            if one.until_ms <= self.now:
                self.past.append(one.lease)
                one.lose(self.now)
        for leased in sorted(self.server.leased, key=lambda one: one.token):
            route = self.server.routes[leased.token]
            one = self.jobs[leased.op_id]
            assert one.state == "waiting", f"{one.op_id} is {one.state}"
            assert one.ready_ms <= self.now
            assert leased.attempt == one.attempts + 1
            assert leased.token > self.highest
            self.highest = leased.token
            kinds, room, begins = self.workers[route]
            assert one.kind in kinds
            one.state, one.route, one.lease = "leased", route, Lease(leased.number, leased.token)
            one.until_ms = self.now + LEASE_MS
            one.begun = not begins
            assert sum(other.route == route for other in self.leased()) <= room or room == 0

    def send(self, step):
        """Take a step, and all that follow from it without a further one."""
        answer = step()
        self.look()
        while self.server.store_loop.max_sleep() == 0:
            self.server.step(once=True)
            self.look()
        return answer

    @rule(kind=st.sampled_from(KINDS), timeout_ms=st.integers(0, 1500))
    def submit(self, kind, timeout_ms):
        op_id = f"job {self.count}"
        self.count += 1
        self.jobs[op_id] = ModelJob(op_id, kind, self.now + timeout_ms)
        self.send(lambda: self.server.submit(job(op_id, timeout_ms=timeout_ms, kind=kind)))

    @rule(
        route=st.sampled_from(ROUTES),
        kinds=st.sets(st.sampled_from(KINDS)),
        room=st.integers(0, 3),
        begins=st.booleans(),
    )
    def work(self, route, kinds, room, begins):
        self.workers[route] = (kinds, room, begins)
        self.send(
            lambda: self.server.work(
                *(kinds or ["none"]),
                route=route,
                room=room,
                lease_ms=LEASE_MS,
                attempts=ATTEMPTS,
                begins=begins,
            )
        )

    @rule(data=st.data())
    def begin(self, data):
        held = self.leased()
        if held:
            one = data.draw(st.sampled_from(sorted(held, key=lambda one: one.op_id)))
            one.begun = True
            self.send(lambda: self.server.begin(one.lease))

    @rule(data=st.data())
    def cancel(self, data):
        """A running job has no other attempt; one that waits has ended."""
        jobs = [one for one in self.jobs.values() if one.state in ("waiting", "leased")]
        known = {job.record.op_id: job for job in self.server.state.leases.by_number.values()}
        jobs = [one for one in jobs if one.op_id in known]
        if not jobs:
            return
        one = data.draw(st.sampled_from(sorted(jobs, key=lambda one: one.op_id)))
        if one.state == "leased":
            one.cancelled = True
        else:
            one.state, one.route = "cancelled", None
        cancel = lambda ends: ends.cancel(known[one.op_id], "why")  # noqa: E731
        assert self.send(lambda: self.server.change_jobs(cancel))

    @rule(
        data=st.data(),
        how=st.sampled_from([How.DONE, How.DONE, How.FAILED, How.RETURNED]),
        delay_ms=st.sampled_from([0, 700]),
        fails=st.booleans(),
    )
    def finish(self, data, how, delay_ms, fails):
        held = self.leased()
        if not held:
            return
        one = data.draw(st.sampled_from(sorted(held, key=lambda one: one.op_id)))
        lease = one.lease
        if fails and how != How.RETURNED:
            self.server.faults.fail()
            self.server.post_finish(lease, how, delay_ms)
            self.server.step(once=True)
            self.server.faults.clear()
            self.pass_time(1000)  # the next try; in one jump, the server would have been stopped
            return
        self.past.append(lease)
        if how == How.DONE:
            one.state, one.route = "done", None
        elif how == How.RETURNED and one.cancelled:
            one.state, one.route = "cancelled", None
        elif how == How.RETURNED:
            one.state, one.route, one.ready_ms = "waiting", None, self.now
        else:
            one.begun = True
            one.lose(self.now, delay_ms)
        done = self.send(lambda: self.server.finish(lease, how=how, delay_ms=delay_ms))
        assert done == [True]

    @rule(data=st.data())
    def use_an_old_lease(self, data):
        if self.past:
            lease = data.draw(st.sampled_from(self.past))
            assert self.send(lambda: self.server.finish(lease)) == [False]
            assert self.send(lambda: self.server.ask(Keep, [lease])).done == [False]

    @rule(data=st.data())
    def keep(self, data):
        held = self.leased()
        if held:
            one = data.draw(st.sampled_from(sorted(held, key=lambda one: one.op_id)))
            assert self.send(lambda: self.server.ask(Keep, [one.lease])).done == [True]
            one.until_ms = self.now + LEASE_MS

    @rule(route=st.sampled_from(ROUTES))
    def disconnect(self, route):
        if route in self.workers:
            del self.workers[route]
            for one in self.leased():
                if one.route == route:
                    self.past.append(one.lease)
                    one.lose(self.now)
            self.send(lambda: self.server.send(ClientDisconnected("c", route)))

    @rule(ms=st.sampled_from([1, 300, 1000, 2500]))
    def pass_time(self, ms):
        for _ in range(ms // 100 + 1):
            self.send(lambda: self.server.pass_time(min(ms, 100)))

    @rule()
    def crash(self):
        self.server.crash()
        self.workers = {}
        for one in self.leased():
            self.past.append(one.lease)
            one.state, one.route, one.ready_ms = "waiting", None, self.now
            if one.cancelled:
                one.state = "cancelled"

    @rule(drop=st.booleans())
    def end_the_dead(self, drop):
        dead = {one.job_id for one in self.server.dead()}
        assert dead == {one.op_id for one in self.jobs.values() if one.state == "dead"}
        for op_id in dead:
            one = self.jobs[op_id]
            one.attempts = 0
            one.state, one.ready_ms = ("done" if drop else "waiting"), self.now
        done = self.send(lambda: self.server.ask(RetryJobs, list(dead), drop)).done
        assert done == [True] * len(dead)

    @invariant()
    def counts_agree(self):
        if not hasattr(self, "server"):
            return
        counts = self.server.state.leases.counts
        states = [one.state for one in self.jobs.values()]
        assert (counts.leased, counts.dead) == (states.count("leased"), states.count("dead"))

    def teardown(self):
        """No job is lost: a worker that comes gets all that are left, until they are done."""
        if not hasattr(self, "server"):
            return
        for route in ROUTES:
            self.disconnect(route)
        self.end_the_dead(drop=False)
        self.workers[b"last"] = (set(KINDS), 100, False)
        self.send(
            lambda: self.server.work(*KINDS, route=b"last", room=100, lease_ms=LEASE_MS, attempts=3)
        )
        for _ in range(60):
            for one in self.leased():
                one.state, one.route = "done", None
                assert self.send(lambda one=one: self.server.finish(one.lease)) == [True]
            self.send(lambda: self.server.pass_time(100))
        assert {one.state for one in self.jobs.values()} <= {"done", "cancelled"}
        assert self.server.state.retention.unacknowledged == 0
        self.server.store.close()
        self.directory.cleanup()


LeaseMachine.TestCase.settings = settings(
    max_examples=30 * ROUNDS, stateful_step_count=40, deadline=None
)
TestLeaseMachine = LeaseMachine.TestCase
