"""The lives of jobs against a naive model, in any order.

States, control, keys, limits, repeats, ids that are remembered and forgotten, restarts.
"""

from collections import Counter
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatory.service.job_messages import (
    CancelJobs,
    CancelMatching,
    JobFilter,
    ListJobs,
    ReadJobs,
    Repeat,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
    SetLimit,
    SetRepeat,
)
from purgatory.service.protocol import How
from tests.testing.step_server import START_MS, StepServer, job

NAMES = [f"job-{number}" for number in range(9)]
KINDS = ["mail", "bill"]
TAGS = ["x", "y"]
KEYS = ["k", "l"]
WAITS = ("scheduled", "ready", "retrying")
# No time that passes ends in the same digit as a delay: nothing is due at the moment of a look.
DELAYS = st.sampled_from([3, 13, 53, 203])
# Of an id after the job's end: certainly known for so long, and perhaps for so much longer.
UNIQUE = st.sampled_from([0, 500, 10**6])
LATER_MS = 30_000
EVERY_MS = 15_000
# A server looks each so many milliseconds, also after a commit that failed.
STEP_MS = 5000
HOWS = st.sampled_from([How.DONE, How.FAILED, How.FAILED, How.FAILED, How.RETURNED])
names = st.sampled_from(NAMES)


class ModelJob:
    """What is expected of a job."""

    def __init__(self, number, kind, tags, keys, due_ms, unique_ms):
        self.number = number
        self.kind, self.tags, self.keys, self.due_ms = kind, tags, keys, due_ms
        self.unique_ms = unique_ms
        self.state = "scheduled"
        self.ended_ms = None
        self.ended_attempts = 0
        self.max_attempts = 1
        self.error = ""
        self.is_cancelled = False  # while it runs
        self.lease = None

    @property
    def attempts(self):
        """Attempts that have begun."""
        return self.ended_attempts + (self.state == "running")

    def wait(self, now_ms, due_ms):
        """Wait for a time, or for a worker."""
        if due_ms <= now_ms:
            self.state = "ready"
            return
        self.due_ms = due_ms
        self.state = "retrying" if self.ended_attempts else "scheduled"

    def end(self, now_ms, state, error=""):
        """End, or be dead."""
        self.state, self.error, self.lease = state, error, None
        self.ended_ms = None if state == "dead" else now_ms

    def may_be_forgotten(self, now_ms):
        """Tell whether the id's period is over."""
        return self.ended_ms is not None and now_ms >= self.ended_ms + self.unique_ms


class JobMachine(RuleBasedStateMachine):
    """A server and the model; each rule does the same to both."""

    def __init__(self):
        super().__init__()
        self.jobs = {}
        self.forgotten = []  # jobs whose ids the server knows no longer
        self.number = 0
        self.paused = set()
        self.running = {}  # how many may run, by kind
        self.next_run_ms = None  # of the repeat

    @initialize()
    def start(self):
        """Start a server."""
        self.folder = TemporaryDirectory()
        self.server = StepServer(Path(self.folder.name) / "a.db")
        self.server.time.ms = START_MS + 5
        self.server.hello()

    def teardown(self):
        """Close the database."""
        if hasattr(self, "server"):
            self.server.store.close()
            self.folder.cleanup()

    @property
    def now_ms(self):
        """The time of the server."""
        return self.server.time.ms

    @property
    def stamp_ms(self):
        """What delays count from: after an event of one of a job's keys, the next millisecond."""
        return max(self.now_ms, self.server.state.stamp.now_ms)

    def alive(self, states=WAITS):
        """Return the jobs of the model in some states."""
        return [one for one in self.jobs.values() if one.state in states]

    @precondition(lambda self: len(self.alive()) < len(NAMES))
    @rule(
        name=names,
        kind=st.sampled_from(KINDS),
        tags=st.lists(st.sampled_from(TAGS), unique=True),
        keys=st.lists(st.sampled_from(KEYS), unique=True),
        delay_ms=DELAYS,
        unique_ms=UNIQUE,
    )
    def submit(self, name, kind, tags, keys, delay_ms, unique_ms):
        """Submit a job; a known one stays as it is."""
        others = {"tags": tuple(tags), "unique_ms": unique_ms}
        submission = job(name, *keys, kind=kind, timeout_ms=delay_ms, **others)
        reply = self.server.submit(submission)
        is_new = reply.known == []
        one = self.jobs.get(name)
        if one is None or not one.may_be_forgotten(self.stamp_ms):
            assert is_new == (one is None)
        if is_new:
            due_ms = self.stamp_ms + delay_ms
            self.add(name, kind, set(tags), set(keys), due_ms, unique_ms)

    def add(self, name, *others):
        """Add a job to the model."""
        self.number += 1
        self.jobs[name] = ModelJob(self.number, *others)

    @precondition(lambda self: self.next_run_ms is None)
    @rule()
    def repeat(self):
        """Declare a repeat whose times all have a job."""
        repeat = Repeat("r", every_ms=EVERY_MS, kind=KINDS[0], overlap="allow", missed="all")
        self.next_run_ms = self.server.ask(SetRepeat, repeat).state.next_ms
        assert self.next_run_ms == self.now_ms + EVERY_MS

    @rule(kind=st.sampled_from(KINDS), paused=st.booleans(), running=st.sampled_from([0, 1, 2]))
    def limit(self, kind, paused, running):
        """Pause or resume a kind, and say how many jobs of it may run; 0: any number."""
        self.server.ask(SetLimit, kind, paused, running)
        (self.paused.add if paused else self.paused.discard)(kind)
        self.running[kind] = running or 10**6

    def is_blocked(self, kind):
        """Tell whether no job of a kind may begin."""
        count = sum(one.kind == kind for one in self.alive(("running",)))
        return kind in self.paused or count >= self.running.get(kind, 10**6)

    @rule(ms=st.sampled_from([10, 50, 200, 200, 40_000]))
    def pass_time(self, ms):
        """Let jobs become due, and ids be forgotten; a server looks often."""
        for start in range(0, ms, STEP_MS):
            self.server.pass_time(min(STEP_MS, ms - start))
            self.follow()

    def follow(self):
        """Have the model follow the clock."""
        for run in self.new_runs():
            name, _, at = run.job_id.partition("@")
            at_ms = round(1000 * datetime.fromisoformat(at).timestamp())
            assert (name, at_ms) == ("r", self.next_run_ms)
            assert self.next_run_ms <= run.due_ms <= self.now_ms
            self.add(run.job_id, KINDS[0], {"r"}, set(), run.due_ms, 10**6)
            self.next_run_ms += EVERY_MS
        assert self.next_run_ms is None or self.next_run_ms > self.now_ms - STEP_MS
        for one in self.alive(("scheduled", "retrying")):
            if one.due_ms < self.now_ms:
                one.state = "ready"

    @precondition(lambda self: self.alive(("ready",)))
    @rule(data=st.data())
    def lease(self, data):
        """Have a worker take a job."""
        kind = data.draw(st.sampled_from(self.alive(("ready",)))).kind
        ready = {
            name for name, one in self.jobs.items() if (one.state, one.kind) == ("ready", kind)
        }
        room = len(self.alive(("running",))) + 1
        attempts = data.draw(st.sampled_from([1, 3]))
        leased = self.server.work(kind, room=room, attempts=attempts, lease_ms=10**9)
        self.server.work(kind, room=0, lease_ms=10**9)
        assert len(leased) == (0 if self.is_blocked(kind) else min(1, len(ready)))
        for one in leased:
            assert one.op_id in ready
            found = self.jobs[one.op_id]
            assert one.attempt == found.ended_attempts + 1
            assert set(one.tags) == found.tags
            found.state, found.lease, found.max_attempts = "running", one, attempts

    @precondition(lambda self: self.alive(("running",)))
    @rule(
        data=st.data(),
        how=HOWS,
        delay_ms=st.sampled_from([0, 13, 203]),
    )
    def finish(self, data, how, delay_ms):
        """End an attempt."""
        one = data.draw(st.sampled_from(self.alive(("running",))))
        assert self.server.finish(one.lease, how=how, delay_ms=delay_ms, error="Boom") == [True]
        if how == How.DONE:
            one.ended_attempts += 1
            one.end(self.now_ms, "done")
            return
        one.ended_attempts += how == How.FAILED
        if one.is_cancelled:
            one.end(self.now_ms, "cancelled", "cancelled")
        elif how == How.FAILED and one.ended_attempts >= one.max_attempts:
            one.end(self.now_ms, "dead", "Boom")
        else:
            one.lease = None
            one.wait(self.now_ms, self.now_ms + delay_ms if how == How.FAILED else 0)

    def cancel_in_model(self, one):
        """Cancel a job of the model; returns whether there was anything to cancel."""
        if one.state == "running":
            one.is_cancelled = True
        elif one.state in WAITS:
            one.end(self.now_ms, "cancelled", "cancelled")
        else:
            return False
        return True

    @rule(data=st.data(), change=st.sampled_from(["cancel", "matching", "key", "move"]))
    def control(self, data, change):
        """Change jobs: one rule, so that jobs live longer than a few steps."""
        if change == "cancel":
            self.cancel(data.draw(names))
        elif change == "matching":
            kind = data.draw(st.sampled_from([None, *KINDS]))
            tag = data.draw(st.sampled_from([None, *TAGS]))
            state = data.draw(st.sampled_from(["ready", "running", "dead", "retrying"]))
            self.cancel_matching(kind, tag, state)
        elif change == "key":
            self.complete(data.draw(st.sampled_from([*KEYS, *NAMES[:2]])))
        else:
            self.reschedule(data.draw(names), data.draw(DELAYS))

    def cancel(self, name):
        """Cancel a job."""
        expected = name in self.jobs and self.cancel_in_model(self.jobs[name])
        assert self.server.ask(CancelJobs, [name]).done == [expected]

    def cancel_matching(self, kind, tag, state):
        """Cancel jobs by a filter."""
        expected = 0
        for one in list(self.jobs.values()):
            is_meant = kind in (None, one.kind) and state in (None, one.state)
            if is_meant and (tag is None or tag in one.tags):
                expected += self.cancel_in_model(one)
        wanted = JobFilter(kind=kind, tag=tag, state=state)
        assert self.server.ask(CancelMatching, wanted).count == expected

    def complete(self, key):
        """Complete a key: it cancels jobs that wait."""
        expected = 0
        for one in self.alive():
            if key in one.keys:
                one.end(self.stamp_ms, "cancelled", f"cancelled by key {key}")
                expected += 1
        assert self.server.complete(key).counts == [expected]

    def reschedule(self, name, delay_ms):
        """Move a job."""
        one = self.jobs.get(name)
        expected = one is not None and one.state in WAITS
        if expected:
            one.error = "" if one.state != "scheduled" else one.error
            one.wait(self.now_ms, self.stamp_ms + delay_ms)
        move = Reschedule(name, delay_ms)
        assert self.server.ask(RescheduleJobs, [move]).done == [expected]

    @precondition(lambda self: self.alive(("dead",)))
    @rule(name=names, drop=st.booleans())
    def retry(self, name, drop):
        """Have a dead job tried again, or drop it."""
        one = self.jobs.get(name)
        expected = one is not None and one.state == "dead"
        assert self.server.ask(RetryJobs, [name], drop).done == [expected]
        if expected and drop:
            del self.jobs[name]
        elif expected:
            one.ended_attempts, one.state = 0, "ready"

    @rule()
    def crash(self):
        """Restart: nothing is lost but leases."""
        self.server.crash()
        for one in self.alive(("running",)):
            if one.is_cancelled:
                one.end(self.now_ms, "cancelled", "cancelled")
            else:
                one.state, one.lease = "ready", None

    @rule()
    def fail_to_commit(self):
        """A change that is not written has no effect."""
        self.server.faults.fail()
        self.server.ask(CancelJobs, NAMES)
        self.server.ask(RescheduleJobs, [Reschedule(name, 999) for name in NAMES])
        self.server.faults.clear()
        self.pass_time(2000)

    @invariant()
    def same(self):
        """Each job is in the state that the model says; so are counts and lists."""
        if not hasattr(self, "server"):
            return
        self.follow()  # the last request's transaction may have been the first that could commit
        for status in self.server.ask(ReadJobs, [*{*NAMES, *self.jobs}]).jobs:
            one = self.jobs.get(status.job_id)
            if one is not None and one.may_be_forgotten(self.stamp_ms):
                if status.state == "unknown":
                    self.forgotten.append(self.jobs.pop(status.job_id))
                    continue
                assert self.now_ms <= one.ended_ms + one.unique_ms + LATER_MS
            if one is None:
                assert status.state == "unknown"
                continue
            assert (status.state, status.attempts) == (one.state, one.attempts), status.job_id
            if one.state in ("dead", "cancelled"):
                assert status.error == one.error
            if one.state in ("scheduled", "retrying"):
                assert status.due_ms == one.due_ms
        self.same_lists()

    def new_runs(self):
        """Return the jobs of the repeat that the model does not know yet."""
        if self.next_run_ms is None:
            return []
        found = self.server.ask(ListJobs, JobFilter(tag="r")).jobs
        return [one for one in found if one.job_id not in self.jobs]

    def same_lists(self):
        """Counts are exact, and lists are complete and in order."""
        newest = self.server.ask(ListJobs, JobFilter(), "newest").jobs
        # An outcome that nobody has acknowledged is listed when its id is forgotten.
        numbers = {one.number for one in newest}
        listed = [*self.jobs.values(), *[one for one in self.forgotten if one.number in numbers]]
        expected = sorted((one.number for one in listed), reverse=True)
        assert [one.number for one in newest] == expected
        counts = Counter((one.kind, one.state) for one in listed)
        assert self.server.job_counts() == counts
        for tag in TAGS:
            found = self.server.ask(ListJobs, JobFilter(tag=tag)).jobs
            tagged = {one.number for one in listed if tag in one.tags}
            assert {one.number for one in found} == tagged
            assert [one.due_ms for one in found] == sorted(one.due_ms for one in found)


TestJobs = JobMachine.TestCase
TestJobs.pytestmark = [pytest.mark.timeout(600)]  # each commit waits for the disk
TestJobs.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
