"""The store loop notes what is due and not on disk, and finds out that its disk is well again."""

from purgatory.service.protocol import Submitted
from purgatory.service.server.commits import RETRY_MS
from purgatory.service.server.server_health import report_health
from purgatory.service.server.store_activity import NS_PER_S
from purgatory.service.server.transactions import transaction
from purgatory.service.server.transactions.maintenance import MAINTENANCE_MS
from tests.testing.step_server import START_MS, operation


def lateness(server):
    """Return the seconds that the oldest due outcome is late, as a sleeping store loop says."""
    server.store_loop.max_sleep()
    report = report_health(server.store_loop.activity, "", server.time.ms)
    return report.oldest_due_age_s


def test_what_waits_is_not_late(step_server):
    """Nor is what was told."""
    assert lateness(step_server) == 0
    step_server.submit(operation("a", timeout_ms=1000))
    assert lateness(step_server) == 0
    step_server.pass_time(1001)
    assert lateness(step_server) == 0


def test_a_store_thread_that_does_nothing(step_server):
    """The deadline that it knows is late, by as much as it sleeps beyond."""
    step_server.submit(operation("a", timeout_ms=1000))
    assert lateness(step_server) == 0
    step_server.time.ms += 8001
    report = report_health(step_server.store_loop.activity, "", step_server.time.ms)
    assert 7 <= report.oldest_due_age_s <= 8


def test_outcomes_that_cannot_be_written(step_server):
    """They stay late until a commit has them, whatever else is asked meanwhile."""
    step_server.submit(operation("a", timeout_ms=1000), operation("b", timeout_ms=3000))
    step_server.faults.fail()
    assert step_server.pass_time(1001) == []
    for _ in range(10):
        step_server.submit(operation("c"))
        step_server.pass_time(RETRY_MS)
    assert lateness(step_server) == (step_server.time.ms - START_MS - 1000) / 1000 > 9
    step_server.faults.clear()
    assert len(step_server.pass_time(RETRY_MS)) == 2
    assert lateness(step_server) == 0


def test_more_than_one_transaction_expires(step_server, monkeypatch):
    """What is left for the next transactions is late, by the last deadline that was told."""
    monkeypatch.setattr(transaction, "MAX_EXPIRED_PER_TRANSACTION", 1)
    for n in range(1, 4):
        step_server.submit(operation(f"op {n}", timeout_ms=1000 * n))
    ages = []
    step_server.time.ms += 10_000
    while step_server.step()[1]:
        ages.append(lateness(step_server))
    assert ages == sorted(ages, reverse=True)
    assert (ages[0], ages[-1]) == (9, 0)


def test_a_disk_that_is_well_again(step_server):
    """After a failure the loop tries by itself, though nothing is due and nothing is asked."""
    step_server.faults.fail()
    assert not isinstance(step_server.submit(operation("a")), Submitted)
    activity = step_server.store_loop.activity
    assert activity.failures_in_a_row == 1
    assert step_server.store_loop.max_sleep() <= RETRY_MS / 1000
    step_server.pass_time(RETRY_MS)
    assert activity.failures_in_a_row == 2
    step_server.faults.clear()
    step_server.pass_time(RETRY_MS)
    assert (activity.failures_in_a_row, activity.failing_since_ns) == (0, 0)
    assert step_server.store_loop.max_sleep() > 1


def test_a_disk_that_hangs_when_the_clock_is_noted(step_server, monkeypatch):
    """That is a commit, too: the server is not ready if it does not return."""
    found = []
    activity = step_server.store_loop.activity

    def hang(metadata):
        later_ns = activity.commit_since_ns + 6 * NS_PER_S
        monkeypatch.setattr(activity, "now_ns", lambda: later_ns)
        report = report_health(activity, "", step_server.time.ms)
        found.append(report.not_ready)

    monkeypatch.setattr(step_server.store, "set_metadata", hang)
    step_server.time.wall_ms += 10_000
    step_server.pass_time(MAINTENANCE_MS)
    assert found == ["a commit has not returned for 6 s: the disk hangs"]
    assert activity.commit_since_ns == 0
