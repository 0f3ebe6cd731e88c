"""How long outcomes are kept: until acknowledged, for a while after that, and in the journal."""

import pytest

from purgatory.service.server.records import retention
from purgatory.service.store.rows import JournalPosition
from tests.testing.step_server import RecordingSink, StepServer, operation

# After so long an acknowledged outcome is deleted at the latest.
KEPT_MS = retention.RETAINED_OUTCOMES_MS + retention.DELETION_DELAY_MS


@pytest.fixture
def server(step_server):
    return step_server


def test_an_acknowledged_outcome_is_kept_for_a_while(server):
    """It can be queried, and its operation submitted again; then its rows are deleted."""
    server.submit(operation("a"))
    server.complete("a's key")
    server.acknowledge(1)
    assert server.query("a").state == "completed"
    assert [k.state for k in server.submit(operation("a")).known] == ["completed"]
    server.pass_time(KEPT_MS + 1)
    assert server.query("a").state == "unknown"
    assert list(server.store.operations()) == list(server.store.outcomes_without_results()) == []
    assert server.submit(operation("a")).known == []
    assert server.query("a").state == "pending"


def test_an_acknowledged_outcome_is_known_after_a_restart(server):
    """It is not sent again; and its operation, submitted again, is not done a second time."""
    server.submit(operation("a"), operation("b"))
    server.complete("a's key")
    server.complete("b's key")
    server.acknowledge(1)
    server.store_loop.shut_down()
    server.open()
    server.hello()
    assert [outcome.op_id for outcome in server.fetch_outcomes()] == ["b"]
    assert [k.state for k in server.submit(operation("a")).known] == ["completed"]
    server.pass_time(KEPT_MS + 1)
    assert server.query("a").state == "unknown"
    assert server.query("b").state == "completed"


def test_only_the_last_acknowledged_outcomes_are_kept(server, monkeypatch):
    """The oldest beyond that number are deleted with the acknowledgement."""
    monkeypatch.setattr(retention, "RETAINED_OUTCOMES", 2)
    monkeypatch.setattr(retention, "DELETED_TOGETHER", 1)
    server.submit(*(operation(name, "k") for name in "abc"))
    server.complete("k")
    server.acknowledge(1, 2, 3)
    states = [server.query(name).state for name in "abc"]
    assert states == ["unknown", "completed", "completed"]


def test_outcomes_are_deleted_together(server):
    """Not each in a transaction of its own, when its time is over: a minute's at once."""
    for name in "abc":
        server.submit(operation(name))
        server.complete(f"{name}'s key")
        server.pass_time(1000)
    server.acknowledge(1, 2, 3)
    commits = server.store_loop.activity.commits
    for _ in range(10):
        server.pass_time(KEPT_MS // 10)
    assert list(server.store.outcomes_without_results()) == []
    assert server.store_loop.activity.commits == commits + 1


def test_many_are_deleted_as_soon_as_they_are_too_many(server, monkeypatch):
    """Not before there are enough for a transaction, and then at once."""
    monkeypatch.setattr(retention, "RETAINED_OUTCOMES", 2)
    monkeypatch.setattr(retention, "DELETED_TOGETHER", 3)
    server.submit(*(operation(name, "k") for name in "abcde"))
    server.complete("k")
    server.acknowledge(1, 2, 3, 4)
    assert server.query("a").state == "completed"
    server.acknowledge(5)
    states = [server.query(name).state for name in "abcde"]
    assert states == ["unknown"] * 3 + ["completed"] * 2


def test_a_deletion_that_cannot_be_committed_is_tried_again(server):
    """Until then the outcome is known as before."""
    server.submit(operation("a"))
    server.complete("a's key")
    server.acknowledge(1)
    server.faults.fail()
    server.pass_time(KEPT_MS + 1)
    server.faults.clear()
    assert server.query("a").state == "completed"
    server.pass_time(1001)
    assert server.query("a").state == "unknown"
    assert list(server.store.outcomes_without_results()) == []


def test_the_retention_of_unacknowledged_outcomes_ends(server):
    """After the time of the configuration they count as acknowledged."""
    server.store_loop._maintenance._retention_ms = 100_000
    server.submit(operation("a", timeout_ms=10))
    server.pass_time(11)
    server.pass_time(90_000)
    assert server.query("a").state == "expired"
    server.pass_time(70_000)
    assert server.state.retention.unacknowledged == 0
    server.pass_time(700_000)
    assert list(server.store.operations()) == []


@pytest.mark.parametrize("wall_ms", [-3_600_000, 3_600_000])
def test_the_wall_clock_was_set(server, wall_ms):
    """Outcomes from before are kept from the next start on, and not longer either."""
    server.submit(operation("a", timeout_ms=10))
    server.pass_time(11)
    server.time.wall_ms = wall_ms
    server.crash()
    for unacknowledged in (1, 0):
        server.crash()
        server.hello()
        server.store_loop._maintenance._retention_ms = 100_000
        server.pass_time(61_000)
        assert server.state.retention.unacknowledged == unacknowledged
    server.pass_time(700_000)
    assert list(server.store.operations()) == []


def test_rows_are_kept_until_the_journal_has_them(tmp_path):
    """However long ago they were acknowledged."""
    sink = RecordingSink()
    server = StepServer(tmp_path / "a.db", sink=sink)
    server.submit(operation("a"))
    server.complete("a's key")
    server.acknowledge(1)
    server.pass_time(700_000)
    server.pass_time(700_000)
    assert len(list(server.store.outcomes_without_results())) == 1
    assert server.state.total == 0
    sink.confirm(JournalPosition(1, 1))
    server.step()
    server.pass_time(1)
    assert list(server.store.outcomes_without_results()) == []
    server.store_loop.shut_down()
    assert sink.closed


def test_nothing_is_kept_of_a_client_without_operations_outcomes_and_connections(server):
    """Whichever of the three goes last, and after a failed transaction too."""
    server.submit(operation("a", timeout_ms=10))
    server.bye()
    assert set(server.state.clients.by_name) == {"c"}
    server.pass_time(20)
    server.hello()
    [outcome] = server.fetch_outcomes()
    server.acknowledge(outcome.number)
    server.bye()
    assert server.fetch_outcomes() == []
    assert server.state.clients.by_name == {}
    server.hello()
    server.faults.fail()
    server.submit(operation("b"))
    server.bye()
    server.faults.clear()
    server.pass_time(60_001)
    assert server.state.clients.by_name == {}
