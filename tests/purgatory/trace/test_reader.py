"""Reading: columns, damaged files, directories, in constant memory, in time order."""

import gzip
import os
import tracemalloc

import pytest

from purgatory.trace import (
    BadRows,
    KeyEvent,
    Operation,
    OutOfOrder,
    SkippedRows,
    TraceError,
    by_time,
    in_order,
    read_events,
    read_operations,
    write_events,
    write_operations,
)
from purgatory.trace.reader import table_of
from purgatory.trace.tables import EVENTS
from tests.testing.trace_files import text_file

HEADER = "op_id,kind,submitted_ms,timeout_ms,keys,need\n"


# Columns


def test_columns_may_come_in_any_order_with_others_among_them(tmp_path, pq):
    """Names decide; unknown columns are ignored; kind and need may be absent or empty."""
    expected = [Operation("a", "", 1, 2, ("k", "l"), 1)]
    csv = text_file(tmp_path, "a.csv", "x,keys,timeout_ms, op_id ,submitted_ms\n?,k|l,2,a,1\n")
    bom = text_file(tmp_path, "b.csv", b"\xef\xbb\xbf" + HEADER.encode() + b"a,,1,2,k|l,\r\n")
    line = '{"x":[1],"keys":["k","l"],"timeout_ms":2,"op_id":"a","submitted_ms":1}'
    json = text_file(tmp_path, "c.json", line)
    null = text_file(tmp_path, "d.json", line.replace("{", '{"need":null,"kind":null,'))
    parquet = pq(
        tmp_path / "e.parquet",
        x=[{"y": 1}],
        keys=[["k", "l"]],
        timeout_ms=[2],
        op_id=["a"],
        submitted_ms=[1],
    )
    for path in (csv, bom, json, null, parquet):
        assert list(read_operations(path)) == expected


# Files


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("e.csv", b"", "empty"),
        ("e.csv", "key,at_ms\nk,1\n".encode("utf-16"), "not UTF-8"),
        ("e.json", '{"key":"k","at_ms":1}\n'.encode("utf-16"), "not UTF-8"),
        ("e.csv", gzip.compress(b"key,at_ms\nk,1\n", mtime=0), "not UTF-8"),
        ("e.parquet", b"", "not a Parquet file"),
        ("e.parquet", b"key,at_ms\n", "not a Parquet file"),
        ("e.parquet", b"PAR1 and then something else", "damaged Parquet file"),
    ],
)
def test_a_file_of_another_kind_is_refused(tmp_path, name, data, message):
    """One clear error that names the file."""
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(TraceError, match=message) as caught:
        list(read_events(path))
    assert str(path) in str(caught.value)


def test_what_cannot_be_opened_is_refused_at_once(tmp_path):
    """Missing, a loop of links, an impossible name: the system's message, with the name."""
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    for name in ("missing.csv", "missing/e.csv", "loop.csv", "x" * 300 + ".csv", "nul\0.csv"):
        with pytest.raises(TraceError) as caught:
            read_events(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    """Permission denied, with the name."""
    path = text_file(tmp_path, "e.csv", "key,at_ms\n")
    path.chmod(0)
    with pytest.raises(TraceError, match="Permission denied"):
        read_events(path)


# Directories


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json.gz"])
def test_a_directory_of_parts_is_read_by_name(tmp_path, suffix):
    """Part files are read in the order of their names; hidden files are skipped."""
    parts = tmp_path / f"events.{suffix}"
    parts.mkdir()
    for part in (2, 0, 1):
        with write_events(parts / f"part-{part}.{suffix}") as out:
            for n in range(3):
                out.write(KeyEvent(f"{part}", n))
    for name in ("_SUCCESS", f".part-0.{suffix}.crc", f".hidden.{suffix}", "README"):
        (parts / name).write_text("not rows")
    rows = read_events(parts)
    assert list(rows) == [KeyEvent(f"{part}", n) for part in range(3) for n in range(3)]
    assert rows.where().startswith(f"{parts / 'part-2'}.{suffix}, ")


def test_the_partitions_of_a_directory_are_read(tmp_path):
    """In the order of their names, one for each day of a journal; no other directories."""
    for name, at_ms in (("date=2026-11-22/a", 2), ("date=2026-11-21/b", 1), ("others/c", 3)):
        file = tmp_path / f"{name}.csv"
        file.parent.mkdir()
        file.write_text(f"key,at_ms\nk,{at_ms}\n")
    with read_events(tmp_path) as rows:
        assert [row.at_ms for row in rows] == [1, 2]


def test_a_directory_without_parts_is_refused(tmp_path):
    """It is not read as an empty trace."""
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(TraceError, match="directory without files"):
        read_events(tmp_path)


def test_a_link_to_a_directory_above_is_not_followed(tmp_path):
    """Its rows would count many times. Other links are."""
    day = tmp_path / "events" / "date=2026-11-21"
    (tmp_path / "elsewhere").mkdir()
    day.mkdir(parents=True)
    text_file(day, "a.csv", "key,at_ms\nk,1\n")
    text_file(tmp_path / "elsewhere", "b.csv", "key,at_ms\nk,2\n")
    (day / "again=1").symlink_to(tmp_path / "events")
    (day.parent / "date=2026-11-22").symlink_to(tmp_path / "elsewhere")
    with read_events(tmp_path / "events") as rows:
        assert [row.at_ms for row in rows] == [1, 2]


def test_an_empty_directory_of_a_journal_is_an_empty_table(tmp_path):
    """A server makes the directories of all tables before the first row."""
    events = tmp_path / "journal" / "events"
    (events / "date=2026-11-21").mkdir(parents=True)
    (events / "date=2026-11-21" / ".unfinished-1-0").touch()
    with read_events(events) as rows:
        assert list(rows) == []
    with read_events(f"{events}/") as rows:
        assert list(rows.batches()) == []
    assert table_of(events) is EVENTS
    with pytest.raises(TraceError, match="events: an empty directory; expected a table of oper"):
        read_operations(events)
    (events / "README").touch()
    with pytest.raises(TraceError, match="directory without files"):
        read_events(events)


@pytest.mark.parametrize("name", ["events.jsonl", "events.2026.ndjson"])
def test_json_lines_without_a_row_are_the_table_of_their_name(tmp_path, name):
    """The writer makes such a file; it has no columns."""
    path = tmp_path / name
    with write_events(path):
        pass
    assert table_of(path) is EVENTS
    with pytest.raises(TraceError, match="expected a table of a trace"):
        table_of(path.rename(tmp_path / "other.jsonl"))


def test_an_empty_path_is_not_the_current_directory(tmp_path, monkeypatch):
    """It is an unset variable of a shell."""
    text_file(tmp_path, "a.csv", "key,at_ms\nk,1\n")
    monkeypatch.chdir(tmp_path)
    for read in (read_events, table_of):
        with pytest.raises(TraceError, match="path of a table is empty"):
            read("")


def test_a_closed_reader_is_not_an_empty_one(tmp_path):
    """A loop over it would find nothing and say nothing."""
    path = text_file(tmp_path, "e.csv", "key,at_ms\nk,1\n")
    with read_events(path) as rows:
        pass
    for read in (list, next, lambda rows: list(rows.batches())):
        with pytest.raises(TraceError, match=r"e\.csv: read after its reader was closed"):
            read(rows)


def test_on_bad_is_a_function_that_runs(tmp_path):
    """It is refused at once, not at the first bad row, or never."""

    async def later(_):
        pass

    path = text_file(tmp_path, "e.csv", "key,at_ms\nk,1\n")
    with pytest.raises(TypeError, match="on_bad is 5; expected a callable"):
        read_events(path, on_bad=5)
    with pytest.raises(TypeError, match=r"on_bad is .*, a coroutine function"):
        read_events(path, on_bad=later)


def test_a_bad_part_is_named(tmp_path):
    """Row, column and type errors name the part, not the directory."""
    text_file(tmp_path, "a.csv", "key,at_ms\nk,1\n")
    text_file(tmp_path, "b.csv", "key,at_ms\nk,x\n")
    text_file(tmp_path, "c.csv", "key\nk\n")
    skipped = SkippedRows()
    with pytest.raises(TraceError, match=r"c\.csv: .* no column at_ms"):
        list(read_events(tmp_path, on_bad=skipped))
    assert skipped.first[0].path == str(tmp_path / "b.csv")
    with pytest.raises(BadRows) as caught:
        list(read_events(tmp_path))
    assert caught.value.more


# The reader itself


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_where_is_the_row_returned_last(tmp_path, suffix):
    """A message about a row can name its place until the next row is read."""
    path = tmp_path / f"e.{suffix}"
    with write_events(path) as out:
        for n in range(20_000):
            out.write(KeyEvent("k", n))
    begin = {"csv": 2, "json": 1, "parquet": 1}[suffix]
    unit = "row" if suffix == "parquet" else "line"
    with read_events(path) as rows:
        for number, _ in enumerate(rows, begin):
            if number % 997 == 0:
                assert rows.where() == f"{path}, {unit} {number}"


def test_a_reader_left_early_is_closed(tmp_path):
    """The file may be left at any point."""
    path = text_file(tmp_path, "e.csv", "key,at_ms\nk,1\nk,2\n")
    with read_events(path) as rows:
        next(rows)
    with pytest.raises(TraceError, match="read after its reader was closed"):
        next(rows)
    unread = read_events(path)
    unread.close()
    unread.close()
    with pytest.raises(TraceError, match="read after its reader was closed"):
        list(unread)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl.gz"])
def test_memory_does_not_follow_the_size(tmp_path, suffix):
    """100,000 rows, some 45 MB as objects, pass through a few megabytes."""
    path = tmp_path / f"ops.{suffix}"
    with write_operations(path) as out:
        for n in range(100_000):
            out.write(Operation(f"operation-{n}", "kind", n, 1000, (f"key-{n}",)))
    with read_operations(path) as rows:
        next(rows)  # imports what it needs
    tracemalloc.start()
    try:
        count = sum(1 for _ in read_operations(path))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 100_000
    assert peak < 8_000_000


def events_file(path, *times):
    with write_events(path) as out:
        for place, at_ms in enumerate(times):
            out.write(KeyEvent(f"k{place}", at_ms))
    return path


@pytest.mark.parametrize(("suffix", "place"), [("csv", "line 5"), ("parquet", "row 4")])
def test_a_row_out_of_order_is_named(tmp_path, suffix, place):
    """The error has file, row and both times; the rows before it were returned."""
    path = events_file(tmp_path / f"e.{suffix}", 5, 7, 7, 6, 8)
    seen = []
    with pytest.raises(OutOfOrder) as caught:
        seen.extend(in_order(read_events(path)))
    error = caught.value
    assert (error.place, error.before_ms, error.at_ms) == (f"{path}, {place}", 7, 6)
    assert str(error) == f"{path}, {place}: out of time order, at_ms 6 follows 7"
    assert isinstance(error, TraceError)


def test_rows_in_order_pass_through(tmp_path):
    """Equal times are in order."""
    path = events_file(tmp_path / "e.csv", -3, 0, 0, 9)
    assert [row.at_ms for row in in_order(read_events(path))] == [-3, 0, 0, 9]


def test_sorting_keeps_the_order_of_one_instant(tmp_path):
    """Events of one instant count in the order of the file."""
    path = events_file(tmp_path / "e.csv", 2, 1, 2, 1)
    assert [row.key for row in by_time(read_events(path))] == ["k1", "k3", "k0", "k2"]


def test_operations_are_ordered_by_submission(tmp_path):
    """Deadlines may come in any order."""
    path = tmp_path / "o.csv"
    rows = [Operation("a", "", 1, 90, ("k",)), Operation("b", "", 2, 5, ("k",))]
    with write_operations(path) as out:
        for row in rows:
            out.write(row)
    assert list(in_order(read_operations(path))) == rows
    assert by_time(read_operations(path)) == rows
