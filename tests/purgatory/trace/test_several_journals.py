"""The union of the journals of several servers: each row once, in order of time."""

import pytest

from purgatory.service.server.journal.parquet_sink import ParquetSink
from purgatory.trace import OutOfOrder, Reader
from purgatory.trace.several_journals import journals_below, union
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES
from tests.testing.step_server import StepServer, operation

HEAD = "key,at_ms\n"


def journal(directory, server, rows):
    """Write events of a server's journal, as CSV."""
    events = directory / server / "journal" / "events"
    events.mkdir(parents=True)
    lines = [f"{key},{at_ms}\n" for key, at_ms in rows]
    (events / "part.csv").write_text(HEAD + "".join(lines))


def rows_below(directory, table, *, sort=False):
    """Return the rows of a table of all servers' journals."""
    paths = journals_below(directory, table.name)
    return list(union([Reader(path, table) for path in paths], sort=sort))


def events_below(directory, **options):
    """Return key and time of the events of all journals."""
    return [(row.key, row.at_ms) for row in rows_below(directory, EVENTS, **options)]


def test_rows_come_in_order_of_time(tmp_path):
    """Whichever server has written them."""
    journal(tmp_path, "a_7411", [("x", 1), ("z", 30)])
    journal(tmp_path, "b_7411", [("y", 20)])
    assert events_below(tmp_path) == [("x", 1), ("y", 20), ("z", 30)]


def test_a_row_of_several_journals_is_read_once(tmp_path):
    """As often as the journal has it that has it most: events may be alike."""
    journal(tmp_path, "a", [("x", 1), ("y", 1), ("z", 2)])
    journal(tmp_path, "b", [("y", 1), ("x", 1), ("x", 1), ("z", 3)])
    assert events_below(tmp_path) == [("x", 1), ("y", 1), ("x", 1), ("z", 2), ("z", 3)]


def test_a_journal_out_of_order_is_named(tmp_path):
    """Unless it is sorted."""
    journal(tmp_path, "a", [("x", 1)])
    journal(tmp_path, "b", [("y", 9), ("z", 3)])
    with pytest.raises(OutOfOrder, match=r"b/journal/events/part.csv"):
        events_below(tmp_path)
    assert events_below(tmp_path, sort=True) == [("x", 1), ("z", 3), ("y", 9)]


def test_other_paths_have_no_journals_below(tmp_path):
    """A table, a single journal, an empty one, a file, a glob."""
    journal(tmp_path, "a", [("x", 1)])
    assert journals_below(tmp_path / "a" / "journal" / "events", "events") == []
    assert journals_below(tmp_path / "a" / "journal", "events") == []
    assert journals_below(tmp_path / "a" / "journal" / "events" / "part.csv", "events") == []
    assert journals_below(tmp_path / "*", "events") == []
    (tmp_path / "b" / "journal" / "operations").mkdir(parents=True)
    assert journals_below(tmp_path, "extensions") == []


def test_an_empty_table_has_no_rows(tmp_path):
    """Of one server, or of all: each made its directories when it began."""
    for server in ("a", "b"):
        (tmp_path / server / "journal" / "events").mkdir(parents=True)
    assert events_below(tmp_path) == []
    (tmp_path / "b" / "journal" / "events" / "part.csv").write_text(f"{HEAD}x,1\n")
    assert events_below(tmp_path) == [("x", 1)]


def test_servers_that_take_turns_leave_each_row_once(tmp_path):
    """Each writes again what the store still has and its own journal lacks."""
    sinks = {name: ParquetSink(tmp_path / name / "journal", seconds=3600) for name in "ab"}
    server = StepServer(tmp_path / "store.db", sink=sinks["a"])
    for turn, name in enumerate("abab"):
        if turn:
            sinks["ba"[turn % 2]].close()
            server.sink = sinks[name]
            server.crash()
        server.hello()
        server.submit(operation(f"waits-{turn}", timeout_ms=900_000))
        server.submit(operation(f"ends-{turn}", f"key-{turn}"))
        server.complete(f"key-{turn}", turn)
        server.extend(f"waits-{turn}", 900_000 + turn)
        server.pass_time(5)
        server.sink.flush()
    sinks["b"].close()
    server.store.close()
    names = [f"{what}-{turn}" for turn in range(4) for what in ("waits", "ends")]
    assert [row.op_id for row in rows_below(tmp_path, OPERATIONS)] == names
    assert [row.key for row in rows_below(tmp_path, EVENTS)] == [f"key-{n}" for n in range(4)]
    assert [row.op_id for row in rows_below(tmp_path, OUTCOMES)] == names[1::2]
    assert len(rows_below(tmp_path, EXTENSIONS)) == 4
