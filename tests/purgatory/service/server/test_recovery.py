"""What a restart brings back: operations, their progress, outcomes, time, and journal rows."""

import sqlite3
from pathlib import Path

import pytest

from purgatory.service.job_messages import CancelJobs, RetryJobs, TakeLease
from purgatory.service.protocol import Complete, Completed, Completion, How
from purgatory.service.server.commands import StopStoreLoop
from purgatory.service.store.rows import JournalPosition
from tests.testing.step_server import (
    START_MS,
    ManualTime,
    RecordingSink,
    StepServer,
    job,
    operation,
    result,
)


@pytest.fixture
def server(step_server):
    return step_server


def test_progress_survives_a_crash(server):
    """A key that was completed before it need not be completed again."""
    server.submit(operation("a", "x", "y", need=2))
    server.complete("x", 1)
    server.crash()
    server.hello()
    assert server.query("a").keys_done == ["x"]
    _, [outcome] = server.complete_and_push("y", 2)
    assert result(outcome) == {"x": 1, "y": 2}


def test_outcomes_are_sent_again_until_acknowledged(server):
    """With the same numbers, after a crash too; after the acknowledgement never again."""
    server.submit(operation("a"), operation("b"))
    server.complete("a's key", 1)
    server.complete("b's key", 2)
    for _ in range(2):
        server.crash()
        server.hello()
        assert [(o.number, result(o)) for o in server.fetch_outcomes()] == [(1, 1), (2, 2)]
    server.acknowledge(1)
    assert [o.number for o in server.fetch_outcomes()] == [2]
    assert server.fetch_outcomes(after=2) == []
    server.send(StopStoreLoop())
    server.store_loop.shut_down()
    server.open()
    server.hello()
    assert [o.number for o in server.fetch_outcomes()] == [2]


def test_an_acknowledgement_is_in_memory(server):
    """After a crash an acknowledged outcome is sent again, as pages say."""
    server.submit(operation("a"))
    server.complete("a's key", 1)
    server.acknowledge(1)
    assert server.fetch_outcomes() == []
    server.crash()
    server.hello()
    assert [o.number for o in server.fetch_outcomes()] == [1]


def test_overdue_operations_expire_in_order_of_deadline(server):
    """At once after a restart; those that are not due wait for their deadline."""
    for op_id, timeout_ms in (("c", 300), ("a", 100), ("later", 10_000), ("b", 200)):
        server.submit(operation(op_id, timeout_ms=timeout_ms))
    server.time.ms += 5000
    server.crash()
    server.hello()
    outcomes = server.fetch_outcomes()
    assert [(o.op_id, o.outcome) for o in outcomes] == [(x, "expired") for x in "abc"]
    assert server.query("later").state == "pending"
    assert server.pass_time(4999) == []
    assert server.pass_time(10) != []


@pytest.mark.parametrize("wall_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("boot", ["boot 1", "boot 2"])
def test_setting_the_wall_clock_moves_no_deadline(tmp_path, wall_ms, boot):
    """Neither while the server runs, nor over a restart, nor over one of the machine."""
    time = ManualTime()
    server = StepServer(tmp_path / "a.db", time=time)
    server.submit(operation("a", timeout_ms=500_000))
    time.wall_ms = wall_ms
    server.pass_time(100_000)
    assert server.query("a").state == "pending"
    server.store_loop.shut_down()
    time.boot = boot
    server.open()
    state = server.query("a")
    assert state.state == "pending"
    assert state.deadline_ms == pytest.approx(time.ms + wall_ms + 400_000, abs=1000)
    server.pass_time(400_000)
    assert server.query("a").state == "pending"
    server.pass_time(1)
    assert server.query("a").state == "expired"
    server.store.close()


@pytest.mark.parametrize("wall_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("boot", ["boot 1", "boot 2"])
@pytest.mark.parametrize("is_noticed", [False, True])
def test_the_wall_clock_was_set_and_the_disk_is_full(tmp_path, wall_ms, boot, is_noticed):
    """Deadlines stay as they were, and the next start moves the times."""
    server = StepServer(tmp_path / "a.db")
    server.submit(operation("a", timeout_ms=500_000))
    server.time.wall_ms = wall_ms
    if is_noticed or boot != "boot 1":
        server.pass_time(100_000)
    server.faults.fail()
    server.time.boot = boot
    server.crash()
    assert server.query("a").deadline_ms == pytest.approx(START_MS + 500_000, abs=1000)
    server.faults.clear()
    server.pass_time(100_000)
    server.crash()
    deadline_ms = server.query("a").deadline_ms
    assert deadline_ms == pytest.approx(START_MS + wall_ms + 500_000, abs=1000)
    server.pass_time(START_MS + 500_000 - server.time.ms - 5)
    assert server.query("a").state == "pending"
    server.pass_time(10)
    assert server.query("a").state == "expired"
    server.store.close()


@pytest.mark.parametrize("wall_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("starts", [1, 2])
def test_a_due_job_begins_in_time_or_not_at_all(tmp_path, wall_ms, starts):
    """`start_within` counts from when it was due, wherever the wall clock was set since then."""
    server = StepServer(tmp_path / "a.db")
    server.submit(job("a", timeout_ms=100, unique_ms=0, start_within_ms=50_000))
    server.pass_time(101)
    for start in range(1, starts + 1):
        server.time.wall_ms = wall_ms * start
        server.crash()
        server.pass_time(10_000)
    server.pass_time(50_000 - 10_000 * starts - 100)
    assert server.state.leases.counts.waiting == 1
    server.pass_time(200)
    assert server.state.leases.counts.waiting == 0
    server.store.close()


@pytest.mark.parametrize("wall_ms", [-3_600_000, 3_600_000])
def test_the_wall_clock_was_set_before_the_start_before(tmp_path, wall_ms):
    """What the journal does not have yet is of another clock, and moves no deadline of now."""
    server = StepServer(tmp_path / "a.db", sink=RecordingSink())
    server.submit(operation("a"))
    server.complete("a's key", 1)
    server.time.wall_ms = wall_ms
    server.crash()
    server.crash()
    server.hello()
    server.submit(operation("b", timeout_ms=1000))
    now_ms = server.time.ms + wall_ms
    assert server.query("b").deadline_ms == pytest.approx(now_ms + 1000, abs=10)
    server.complete("c's key", 1)
    server.crash()
    server.hello()
    server.pass_time(1001)
    assert server.query("b").state == "expired"
    server.store.close()


def test_a_machine_that_boots_with_a_slow_clock(tmp_path):
    """As one without a battery has it: what is submitted then has its own timeout."""
    server = StepServer(tmp_path / "a.db", sink=RecordingSink())
    server.submit(operation("a"))
    server.complete("a's key", 1)
    server.time.boot = "boot 2"
    server.time.wall_ms = -3_600_000
    server.crash()
    server.hello()
    server.submit(operation("b", timeout_ms=1000))
    server.pass_time(1001)
    assert server.query("b").state == "expired"
    server.store.close()


@pytest.mark.parametrize("wall_ms", [-3_600_000, 3_600_000])
def test_acknowledged_outcomes_are_known_as_long_as_before(tmp_path, wall_ms):
    """Also after the wall clock was set, and another start."""
    server = StepServer(tmp_path / "a.db")
    server.submit(operation("a"))
    server.complete("a's key", 1)
    [outcome] = server.fetch_outcomes()
    server.acknowledge(outcome.number)
    server.store_loop.shut_down()
    server.time.wall_ms = wall_ms
    server.open()
    server.crash()
    server.hello()
    server.pass_time(500_000)
    assert server.query("a").state == "completed"
    server.pass_time(200_000)
    server.pass_time(1)
    assert server.query("a").state == "unknown"
    server.store.close()


def test_the_journal_gets_each_committed_row(tmp_path):
    """After a crash it gets those again that it had not confirmed."""
    sink = RecordingSink()
    server = StepServer(tmp_path / "a.db", sink=sink)
    server.submit(operation("a", "x", "y", need=2, kind="pay"), operation("b", timeout_ms=10))
    server.faults.fail()
    server.submit(operation("never"))
    server.faults.clear()
    server.pass_time(2000)
    assert [row.op_id for row in sink.operations] == ["a", "b"]
    assert sink.operations[0][4:] == (1000, ("x", "y"), 2)
    first, second = sink.outcomes
    assert first.seq < second.seq
    assert [(row.op_id, row.outcome, row.waited_ms, row.lateness_ms) for row in sink.outcomes] == [
        ("b", "expired", 10, 1990),
        ("a", "expired", 1000, 1000),
    ]
    server.sink = RecordingSink(JournalPosition(1, first.seq))
    server.crash()
    assert server.sink.operations == sink.operations[1:]
    assert server.sink.outcomes == [second]
    server.store.close()


def test_jobs_of_version_6(tmp_path):
    """A database of the version before attempts were kept: those from now on are.

    It was made by the last program with that schema, whose server was killed while a job ran.
    """
    dump = Path(__file__).parents[1] / "store" / "sqlite" / "version_6_jobs.sql"
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    server = StepServer(tmp_path / "a.db")
    server.hello()
    assert server.job_states("done", "dead", "retrying", "running", "scheduled") == [
        *("done", "dead", "retrying", "ready", "scheduled")
    ]
    assert (server.job("dead").error, server.job("dead").history) == ("Boom: z", ())
    assert server.ask(RetryJobs, ["dead"]).done == [True]
    leased = {one.op_id: one for one in server.work(attempts=1)}
    server.finish(leased["dead"], how=How.FAILED, error="Boom: new")
    for _ in range(2):
        assert [one.error for one in server.job("dead").history] == ["Boom: new"]
        server.crash()
    server.store.close()


def test_jobs_of_version_5(tmp_path):
    """A database of the version before states of jobs, with jobs in each: all go on.

    It was made by the last program with that schema, whose server was killed while a job ran.
    """
    dump = Path(__file__).parents[1] / "store" / "sqlite" / "version_5_jobs.sql"
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.executescript(dump.read_text(encoding="utf-8"))
    connection.close()
    server = StepServer(tmp_path / "a.db")
    server.hello()
    states = {
        "done": "done",
        "dead": "dead",
        "retrying": "retrying",
        "running": "ready",
        "ready": "ready",
        "scheduled": "scheduled",
        "cancelled": "cancelled",
        "by key": "cancelled",
    }
    for _ in range(2):
        assert dict(zip(states, server.job_states(*states), strict=True)) == states
        assert server.job("by key").error == "cancelled by key l"
        assert server.job("retrying").error == "Boom: y"
        assert (server.job("dead").error, server.job("dead").attempts) == ("Boom: x", 1)
        assert server.job("scheduled").unless == ("k",)
        server.crash()
    assert server.ask(CancelJobs, ["retrying", "scheduled", "ready"]).done == [True] * 3
    assert server.ask(RetryJobs, ["dead"]).done == [True]
    leased = server.work("dead", "running", "ready")
    assert sorted(one.op_id for one in leased) == ["dead", "running"]
    assert server.finish(*leased) == [True, True]
    server.store.close()


@pytest.mark.parametrize("restart", [False, True])
def test_the_order_of_ready_jobs(server, restart):
    """The one that became ready first, also one that has been retried."""
    server.submit(job("retried", timeout_ms=0), job("later", timeout_ms=2000))
    server.pass_time(2)
    server.finish(*server.work(), how=How.FAILED, delay_ms=1000)
    server.work(room=0)
    server.let_pass(3000)
    if restart:
        server.crash()
        server.hello()
    assert [one.op_id for one in server.work()] == ["retried", "later"]


def test_a_restart_counts_no_ends_of_jobs(step_server):
    """A counter that began with the dead jobs would show Prometheus that they end again."""
    server = step_server
    server.submit(job("dead", "k", timeout_ms=10), job("cancelled", timeout_ms=10))
    server.cancel("cancelled")
    server.pass_time(11)
    [leased] = server.work(attempts=1)
    server.finish(leased, how=How.FAILED, error="E: no")
    server.crash()
    assert server.job_states("dead", "cancelled") == ["dead", "cancelled"]
    assert server.state.jobs.timings.by_kind == {}
    server.complete("k")
    assert server.job_states("dead") == ["dead"]
    assert server.ask(RetryJobs, ["dead"]).done == [True]
    server.complete("k")
    assert server.job_states("dead") == ["cancelled"]


def test_a_job_that_was_dead_begins_at_any_time(step_server):
    """Also after a restart: `start_within` does not concern retries."""
    server = step_server
    server.submit(job("a", timeout_ms=10, start_within_ms=1000))
    server.pass_time(11)
    [leased] = server.work(attempts=1)
    server.finish(leased, how=How.FAILED, error="E: no")
    assert server.ask(RetryJobs, ["a"]).done == [True]
    server.crash()
    server.pass_time(5000)
    assert server.job("a").state in ("ready", "retrying")


def test_a_dead_job_is_no_end_of_the_next_run(step_server):
    """The figures of ends are since the start; its keys work again after a retry."""
    server = step_server
    server.submit(job("a", "k", timeout_ms=10))
    server.pass_time(11)
    server.finish(*server.work(attempts=1), how=How.FAILED, error="E: no")
    for _ in range(2):
        server.crash()
        assert server.state.jobs.timings.by_kind == {}
        assert server.job_counts() == {("", "dead"): 1}
        assert server.complete("k").counts == [0]
    assert server.ask(RetryJobs, ["a"]).done == [True]
    assert server.complete("k").counts == [1]
    assert server.state.jobs.timings.by_kind[""].ended == [0, 0, 1]


def test_held_events_survive_a_crash(server):
    """Until their time is over."""
    server.complete("k", 7, hold_ms=1000)
    for op_id in ("a", "b"):
        server.crash()
        server.hello()
        server.submit(operation(op_id, "k"))
        assert server.query(op_id).state == "completed"
        server.pass_time(400)
    server.pass_time(400)
    server.crash()
    server.hello()
    server.submit(operation("late", "k"))
    assert server.query("late").state == "pending"


def test_replies_survive_a_crash(server):
    """A request that is sent again is answered as before, and not carried out twice."""
    server.submit(operation("a", "k"), operation("b", "k"))
    for _ in range(2):
        server.post(Complete, [Completion("k", limit=1)], session="s", seq=9)
        [reply], _ = server.step()
        assert reply == Completed(9, [1])
        assert [server.query(op_id).state for op_id in "ab"] == ["completed", "pending"]
        server.crash()
        server.hello()


def test_named_leases_survive_a_crash(server):
    """Until they end; tokens grow."""
    token = server.ask(TakeLease, "n", "one", 1000, 0).token
    server.crash()
    assert server.ask(TakeLease, "n", "two", 1000, 0).token is None
    server.pass_time(1001)
    server.crash()
    assert server.ask(TakeLease, "n", "two", 1000, 0).token > token
