"""The health of a server: what makes a server unready, and when it does not work."""

import pytest

from purgatory.service.server.server_health import (
    NEVER,
    READY_BOUND_S,
    STUCK_S,
    report_health,
)
from purgatory.service.server.store_activity import StoreActivity

START_NS = 1_000_000_000_000


class FakeClock:
    """A monotonic clock and the server's, which the test moves together."""

    def __init__(self):
        self.passed_s = 0.0

    def now_ns(self):
        return START_NS + round(self.passed_s * 1e9)

    def now_ms(self):
        return 5_000_000 + round(self.passed_s * 1e3)


class Bench:
    """An activity that the test writes."""

    def __init__(self):
        self.clock = FakeClock()
        self.activity = StoreActivity(self.clock.now_ns)
        self.ended = ""

    def begin_commit(self):
        self.activity.commit_since_ns = self.clock.now_ns()

    def report(self, after_s=0.0, waits_for=""):
        """Return the report so many seconds later."""
        self.clock.passed_s += after_s
        return report_health(self.activity, self.ended, self.clock.now_ms(), waits_for)


@pytest.fixture
def bench():
    return Bench()


def test_an_idle_server_is_well(bench):
    """However long nothing is asked of it."""
    report = bench.report(1e6)
    assert (report.broken, report.not_ready) == ("", "")
    assert report.last_commit_age_s == 1e6


def test_a_commit_that_does_not_return(bench):
    """After some seconds the server is not ready; after a minute it does not work."""
    bench.activity.step_since_ns = bench.clock.now_ns()
    bench.begin_commit()
    assert bench.report(READY_BOUND_S).not_ready == ""
    report = bench.report(1)
    assert report.not_ready == "a commit has not returned for 6 s: the disk hangs"
    assert report.broken == ""
    report = bench.report(STUCK_S)
    assert report.broken == "a transaction has not ended for 66 s"
    bench.activity.commit_succeeded()
    bench.activity.step_since_ns = 0
    assert bench.report().not_ready == ""
    assert bench.report(3).last_commit_age_s == 3


def test_a_wait_for_a_database(bench):
    """However long it lasts the server works, and is not ready: a restart would not help."""
    bench.activity.step_since_ns = bench.clock.now_ns()
    assert bench.report(READY_BOUND_S, "host: refused").not_ready == ""
    bench.begin_commit()
    report = bench.report(2 * STUCK_S, "host: refused")
    assert report.not_ready == "a transaction has waited 125 s for the database host: refused"
    assert report.broken == ""
    bench.ended = "the network thread has ended"
    assert bench.report(waits_for="host: refused").broken == "the network thread has ended"


def test_commits_that_fail(bench):
    """The first failure is enough; the first success after it, too."""
    for _ in range(3):
        bench.begin_commit()
        bench.activity.commit_failed("database or disk is full")
        bench.report(after_s=2)
    report = bench.report()
    assert report.not_ready == "commits have failed for 6 s, 3 in a row: database or disk is full"
    assert (report.broken, report.failing_s) == ("", 6)
    bench.begin_commit()
    bench.activity.commit_succeeded()
    assert bench.report().not_ready == ""
    assert (bench.activity.commits, bench.activity.commit_failures) == (1, 3)


def test_a_late_outcome(bench):
    """What is due but not on disk within the bound makes the server unready."""
    bench.activity.deadline_ms = bench.clock.now_ms() + 1000
    assert bench.report(1 + READY_BOUND_S).not_ready == ""
    report = bench.report(2)
    assert report.not_ready == "the oldest due outcome is 7 s late; expected at most 5 s"
    assert report.oldest_due_age_s == 7
    bench.activity.deadline_ms = 0
    assert bench.report().not_ready == ""


def test_when_something_is_due_next(bench):
    """In so many seconds; 0 if it is late; a number that is no time if nothing waits."""
    assert bench.report().next_due_s == NEVER
    bench.activity.deadline_ms = bench.clock.now_ms() + 3000
    assert bench.report(1).next_due_s == 2
    assert bench.report(10).next_due_s == 0


def test_a_thread_that_has_ended(bench):
    """The server does not work, and is not ready."""
    bench.ended = "the network thread has ended"
    assert bench.report().broken == bench.report().not_ready == "the network thread has ended"
