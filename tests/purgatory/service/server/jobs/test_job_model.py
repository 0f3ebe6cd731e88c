"""The lives of jobs against a naive model: states, control, keys and restarts, in any order."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from purgatory.service.job_messages import (
    CancelJobs,
    CancelMatching,
    JobFilter,
    ListJobs,
    Reschedule,
    RescheduleJobs,
    RetryJobs,
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
HOWS = st.sampled_from([How.DONE, How.FAILED, How.FAILED, How.FAILED, How.RETURNED])
names = st.sampled_from(NAMES)


class ModelJob:
    """What is expected of a job."""

    def __init__(self, number, kind, tags, keys, due_ms):
        self.number = number
        self.kind, self.tags, self.keys, self.due_ms = kind, tags, keys, due_ms
        self.state = "scheduled"
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

    def end(self, state, error=""):
        """End, or be dead."""
        self.state, self.error, self.lease = state, error, None


class JobMachine(RuleBasedStateMachine):
    """A server and the model; each rule does the same to both."""

    def __init__(self):
        super().__init__()
        self.jobs = {}
        self.number = 0

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
    )
    def submit(self, name, kind, tags, keys, delay_ms):
        """Submit a job; a known one stays as it is."""
        submission = job(name, *keys, kind=kind, timeout_ms=delay_ms, tags=tuple(tags))
        reply = self.server.submit(submission)
        assert (reply.known == []) == (name not in self.jobs)
        if name not in self.jobs:
            self.number += 1
            due_ms = self.stamp_ms + delay_ms
            self.jobs[name] = ModelJob(self.number, kind, set(tags), set(keys), due_ms)

    @rule(ms=st.sampled_from([10, 50, 200]))
    def pass_time(self, ms):
        """Let jobs become due."""
        self.server.pass_time(ms)
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
        assert len(leased) == min(1, len(ready))
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
            one.end("done")
            return
        one.ended_attempts += how == How.FAILED
        if one.is_cancelled:
            one.end("cancelled", "cancelled")
        elif how == How.FAILED and one.ended_attempts >= one.max_attempts:
            one.end("dead", "Boom")
        else:
            one.lease = None
            one.wait(self.now_ms, self.now_ms + delay_ms if how == How.FAILED else 0)

    def cancel_in_model(self, one):
        """Cancel a job of the model; returns whether there was anything to cancel."""
        if one.state == "running":
            one.is_cancelled = True
        elif one.state in WAITS:
            one.end("cancelled", "cancelled")
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
                one.end("cancelled", f"cancelled by key {key}")
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
                one.end("cancelled", "cancelled")
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
        for status in [self.server.job(name) for name in NAMES]:
            one = self.jobs.get(status.job_id)
            if one is None:
                assert status.state == "unknown"
                continue
            assert (status.state, status.attempts) == (one.state, one.attempts), status.job_id
            if one.state in ("dead", "cancelled"):
                assert status.error == one.error
            if one.state in ("scheduled", "retrying"):
                assert status.due_ms == one.due_ms
        self.same_lists()

    def same_lists(self):
        """Counts are exact, and lists are complete and in order."""
        counts = {}
        for one in self.jobs.values():
            counts[one.kind, one.state] = counts.get((one.kind, one.state), 0) + 1
        assert self.server.job_counts() == counts
        newest = self.server.ask(ListJobs, JobFilter(), "newest").jobs
        expected = sorted(self.jobs, key=lambda name: -self.jobs[name].number)
        assert [one.job_id for one in newest] == expected
        for tag in TAGS:
            found = self.server.ask(ListJobs, JobFilter(tag=tag)).jobs
            assert {one.job_id for one in found} == {
                name for name, one in self.jobs.items() if tag in one.tags
            }
            assert [one.due_ms for one in found] == sorted(one.due_ms for one in found)


TestJobs = JobMachine.TestCase
TestJobs.settings = settings(max_examples=50, stateful_step_count=50, deadline=None)
