"""`purgatory trace`: tables are described, copied and made."""

import signal

import pytest

from purgatory.trace import KeyEvent, Operation, read_events, write_events, write_operations
from purgatory.trace.writer import Writer


@pytest.fixture
def events(tmp_path):
    """A table of two events."""
    path = tmp_path / "events.csv"
    with write_events(path) as out:
        out.write(KeyEvent("k", 1))
        out.write(KeyEvent("l", 2))
    return path


def test_check_describes_sound_tables(run, tmp_path, events):
    """One line for each file: the table, its rows and their order."""
    operations = tmp_path / "ops.jsonl.gz"
    with write_operations(operations) as out:
        out.write(Operation("a", "", 5, 1, ("k",)))
        out.write(Operation("b", "", 4, 1, ("k",)))
    code, out, err = run("trace", "check", events, operations)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"{events}: events, 2 rows, 0 bad, in time order",
        f"{operations}: operations, 2 rows, 0 bad, not in time order at {operations}, line 2",
    ]


def test_check_names_the_first_bad_rows(run, tmp_path):
    """All are counted, five are listed, and the exit code is 1."""
    path = tmp_path / "events.csv"
    path.write_text("key,at_ms\n" + "k,1\nk,x\n" * 7)
    code, out, err = run("trace", "check", path)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == f"{path}: events, 7 rows, 7 bad, in time order"
    assert len(lines) == 6
    assert f"{path}, line 3, column at_ms: 'x', expected an integer" in lines[1]


def test_check_names_each_file_that_cannot_be_read(run, tmp_path, events):
    """The others are described."""
    missing, other = tmp_path / "missing.csv", tmp_path / "other.parquet"
    other.write_text("x")
    code, out, err = run("trace", "check", missing, events, other)
    assert (code, out.count("\n")) == (2, 1)
    assert out.startswith(f"{events}: events, ")
    assert f"{missing}: No such file or directory; {other}: not a Parquet file" in err


@pytest.mark.parametrize("suffix", ["parquet", "jsonl", "csv.gz"])
def test_convert_copies_a_table(run, tmp_path, events, suffix):
    """Into any format; prints the number of rows."""
    target = tmp_path / f"copy.{suffix}"
    assert run("trace", "convert", events, target) == (0, f"{target}: events, 2 rows\n", "")
    assert list(read_events(target)) == list(read_events(events))


def test_convert_stops_at_bad_rows_or_skips_them(run, tmp_path):
    """By default there is no output file; with --skip-bad the good rows and a count."""
    path, target = tmp_path / "events.csv", tmp_path / "copy.jsonl"
    path.write_text("key,at_ms\nk,1\nk,x\nk,2\nk,y\n")
    code, out, err = run("trace", "convert", path, target)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert "line 3" in err
    assert "line 5" in err
    assert not target.exists()
    code, out, _ = run("trace", "convert", "--skip-bad", path, target)
    assert (code, out) == (0, f"{target}: events, 2 rows, 2 bad rows skipped\n")
    assert list(read_events(target)) == [KeyEvent("k", 1), KeyEvent("k", 2)]


def test_sigterm_leaves_no_hidden_file(run, tmp_path, events, monkeypatch):
    """The exit code is the signal's, and an earlier file stays."""
    target = tmp_path / "copy.jsonl"
    target.write_text("old")
    write = Writer.write

    def write_and_end(writer, row):
        write(writer, row)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(Writer, "write", write_and_end)
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit, match="143"):
            run("trace", "convert", events, target)
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert {path.name for path in tmp_path.iterdir()} == {events.name, target.name}
    assert target.read_text() == "old"


def test_convert_does_not_write_over_its_input(run, events):
    """The file is as before."""
    before = list(read_events(events))
    code, _, error = run("trace", "convert", events, events)
    assert (code, error) == (2, f"purgatory: OUT {events}: would replace the input {events}\n")
    assert list(read_events(events)) == before


def test_flights_prints_one_line_of_counts(run, tmp_path, monkeypatch):
    """The line has the directory and the numbers of operations and events."""
    monkeypatch.setattr("purgatory.trace.flights.read_flights", lambda: iter(()))
    folder = tmp_path / "demo"
    assert run("trace", "flights", folder) == (0, f"{folder}: 0 operations, 0 events\n", "")
    assert sorted(file.name for file in folder.iterdir()) == [
        "events.parquet",
        "operations.parquet",
    ]
