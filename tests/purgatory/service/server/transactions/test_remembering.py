"""Rows of what is remembered: written when other rows are deleted, and deleted by time."""

import pytest

from purgatory.errors import StoreError
from purgatory.service.protocol import SubmissionOptions
from purgatory.service.server.records.remembered_ids import SHARDS
from purgatory.service.server.records.retention import DELETION_DELAY_MS, RETAINED_OUTCOMES_MS
from purgatory.service.server.transactions import remembering
from purgatory.service.server.transactions.remembering import LOOK_MS
from tests.testing.step_server import job, operation

#: After that an acknowledged outcome is deleted.
KEPT_MS = RETAINED_OUTCOMES_MS + DELETION_DELAY_MS
DAY_MS = 86_400_000


def end(server, *op_ids, unique_ms=DAY_MS):
    """Complete operations that are remembered for a period, and acknowledge the outcomes."""
    server.submit(*[operation(op_id, "k") for op_id in op_ids])
    _, outcomes = server.complete_and_push("k", 5)
    for op_id in op_ids:
        record = server.state.known[op_id]
        record.end_period(unique_ms, record.ended_ms)
        server.state.remembered.reserved += unique_ms > 0
    server.acknowledge(*[outcome.number for outcome in outcomes])


def places(server, *op_ids):
    """Return how many rows there are of each id."""
    server.state.remembered._check()
    return [len(server.state.remembered.places(op_id)) for op_id in op_ids]


def is_empty(server):
    """Whether nothing of an operation or an outcome is stored."""
    return not list(server.store.submissions()) and not list(
        server.store.outcomes_without_results()
    )


def test_a_row_takes_the_place_of_others(step_server):
    """In the same transaction, for the period that is left; then it is deleted, too."""
    server = step_server
    end(server, "a", "b")
    start_ms = server.time.ms
    assert places(server, "a", "b") == [0, 0]
    assert server.state.remembered.total == 2
    server.pass_time(KEPT_MS)
    assert is_empty(server)
    assert "a" not in server.state.known
    assert places(server, "a", "b", "c") == [1, 1, 0]
    assert (server.state.remembered.count, server.state.remembered.reserved) == (2, 0)
    [row] = server.store.remembered.read(server.state.remembered.places("a"))
    assert row.until_ms == start_ms + DAY_MS
    server.crash()
    assert places(server, "a", "b", "c") == [1, 1, 0]
    assert server.state.remembered.total == 2
    server.pass_time(start_ms + DAY_MS - server.time.ms - 1)
    assert places(server, "a", "b") == [1, 1]
    server.pass_time(LOOK_MS + 1)
    assert places(server, "a", "b") == [0, 0]
    assert server.state.remembered.total == 0
    assert server.store.remembered.counts()[0] == 0


def test_many_become_rows_at_once(step_server, monkeypatch):
    """Operations and jobs, which are read in portions."""
    server = step_server
    monkeypatch.setattr(remembering, "_CHUNK", 2)
    end(server, "a", "b", "c")
    for op_id in "def":
        submission = job(op_id, timeout_ms=0)
        submission.options = SubmissionOptions(DAY_MS)
        server.submit(submission)
    server.pass_time(1)
    for leased in server.work(""):
        assert server.finish(leased) == [True]
    server.pass_time(KEPT_MS)
    assert is_empty(server)
    assert places(server, *"abcdef") == [1] * 6


def test_outcomes_that_cannot_be_read(step_server, monkeypatch):
    """They stay until they can be read; those before are deleted, and remembered."""
    server, looks = step_server, []
    monkeypatch.setattr(remembering, "_CHUNK", 2)
    end(server, *"abcde")
    read = server.store.outcomes_by_seqs

    def fail_second(seqs):
        looks.append(seqs)
        if len(looks) == 2:
            raise StoreError("cannot read")
        return read(seqs)

    monkeypatch.setattr(server.store, "outcomes_by_seqs", fail_second)
    server.time.ms += KEPT_MS
    server.step(once=True)
    assert places(server, *"abcde") == [1, 1, 0, 0, 0]
    assert server.state.known.keys() == set("cde")
    assert server.state.remembered.total == 5
    server.pass_time(LOOK_MS)
    assert places(server, *"abcde") == [1] * 5
    assert is_empty(server)


@pytest.mark.parametrize("unique_ms", [-1, 0, 1000])
def test_a_period_that_is_over(step_server, unique_ms):
    """Nor is what a client made the id of: there is no row."""
    server = step_server
    end(server, "a", unique_ms=unique_ms)
    server.pass_time(KEPT_MS)
    assert is_empty(server)
    assert places(server, "a") == [0]
    assert server.state.remembered.total == 0


def test_a_commit_that_fails(step_server):
    """Neither row is lost: the outcome is there, and becomes a row later."""
    server = step_server
    end(server, "a")
    server.faults.fail()
    server.pass_time(KEPT_MS)
    assert places(server, "a") == [0]
    assert "a" in server.state.known
    assert server.state.remembered.total == 1
    server.faults.clear()
    server.pass_time(2000)
    server.pass_time(2000)
    assert places(server, "a") == [1]
    assert server.state.remembered.total == 1
    assert is_empty(server)


def test_many_are_forgotten_in_portions(step_server, monkeypatch):
    """So that no transaction takes long."""
    server = step_server
    monkeypatch.setattr(remembering, "FORGOTTEN", 4)
    end(server, *[f"id-{number}" for number in range(10)])
    server.pass_time(KEPT_MS)
    assert server.state.remembered.count == 10
    counts = []
    server.time.ms += DAY_MS
    for _ in range(4):
        server.step(once=True)
        counts.append(server.state.remembered.count)
        server.time.ms += remembering.PAUSE_MS
    assert counts == [6, 2, 0, 0]


@pytest.mark.parametrize("ending", ["crash", "stop"])
def test_entries_are_written(step_server, monkeypatch, ending):
    """From time to time, and at the end; a start reads these, and makes the others itself."""
    server = step_server
    monkeypatch.setattr(remembering, "_DUMP_AFTER", 3)
    monkeypatch.setattr(remembering, "_DUMP_AT_STOP", 1)
    end(server, "a", "b")
    server.pass_time(KEPT_MS)
    assert list(server.store.remembered.shards()) == []
    end(server, "c")
    server.pass_time(KEPT_MS)
    for _ in range(SHARDS // remembering.DUMPED + 1):
        server.pass_time(LOOK_MS)
    assert len(list(server.store.remembered.shards())) == SHARDS
    end(server, "d")
    server.pass_time(KEPT_MS)
    if ending == "stop":
        server.store_loop._maintenance.remembering.stop()
    read = []
    entries = type(server.store.remembered).entries

    def counted(table, after):
        read.append(after)
        return entries(table, after)

    monkeypatch.setattr(type(server.store.remembered), "entries", counted)
    server.crash()
    assert read == [4 if ending == "stop" else 3]
    assert places(server, "a", "b", "c", "d", "e") == [1, 1, 1, 1, 0]


def test_entries_of_deleted_rows(step_server, monkeypatch):
    """If they are most of those written, a start makes all entries itself."""
    server = step_server
    monkeypatch.setattr(remembering, "_DUMP_AT_STOP", 1)
    monkeypatch.setattr("purgatory.service.server.recovery._STALE_ENTRIES", 0)
    end(server, "a", "b", "c")
    server.pass_time(KEPT_MS)
    server.store_loop._maintenance.remembering.stop()
    server.pass_time(DAY_MS)
    server.crash()
    assert server.state.remembered.entries == 0
    server.hello()
    end(server, "d")
    server.pass_time(KEPT_MS)
    server.crash()
    assert server.state.remembered.entries == server.state.remembered.count == 1
    assert places(server, "a", "d") == [0, 1]


def test_a_clock_that_was_set(step_server):
    """The period goes on as long as it would have."""
    server = step_server
    end(server, "a")
    server.pass_time(KEPT_MS)
    [before] = server.store.remembered.read(server.state.remembered.places("a"))
    server.time.wall_ms += 5 * DAY_MS
    server.crash()
    [after] = server.store.remembered.read(server.state.remembered.places("a"))
    assert after.until_ms - before.until_ms == 5 * DAY_MS


def test_the_loop_sleeps_between_two_looks(step_server):
    """When it wakes for a look at the rows, it looks."""
    server = step_server
    end(server, "a")
    server.pass_time(KEPT_MS)
    assert places(server, "a") == [1]
    for _ in range(20):
        slept = server.store_loop.max_sleep()
        assert 0 < slept <= LOOK_MS / 1000
        server.pass_us(round(slept * 1_000_000))
