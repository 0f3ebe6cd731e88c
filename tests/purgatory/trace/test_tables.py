"""Tables: columns and Arrow arrays of a batch are checked as rows are; files are recognised."""

import math
from itertools import chain

import pytest
from hypothesis import HealthCheck, given, reject, settings

from purgatory.trace import (
    BadRows,
    Operation,
    SkippedRows,
    TraceError,
    read_events,
    read_operations,
    read_outcomes,
    write_events,
    write_operations,
)
from purgatory.trace.errors import BadValue
from purgatory.trace.reader import Reader, batches_in_order, table_of
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES, TABLES, recognise
from tests.testing.trace_columns import checked, rows_of, unchecked, values
from tests.testing.trace_files import text_file


def test_a_missing_column_is_refused(tmp_path, pq):
    """At once, and by name: the file may hold another table."""
    csv = text_file(tmp_path, "e.csv", "key,when\nk,1\n")
    parquet = pq(tmp_path / "e.parquet", key=["k"])
    for path in (csv, parquet):
        with pytest.raises(TraceError, match=r"no column at_ms"):
            read_events(path)
    with pytest.raises(TraceError, match="no column op_id, outcome, at_ms"):
        read_outcomes(parquet)


def test_a_column_twice_is_refused(tmp_path):
    """The reader cannot know which one is meant."""
    path = text_file(tmp_path, "e.csv", "key,at_ms,key\nk,1,l\n")
    with pytest.raises(TraceError, match="column key is there more than once"):
        read_events(path)


def test_the_table_is_recognised_by_its_columns(tmp_path):
    """In every format; a file of something else is refused."""
    with write_operations(tmp_path / "o.jsonl") as out:
        out.write(Operation("a", "", 1, 2, ("k",)))
    with write_events(tmp_path / "e.csv"):
        pass
    assert table_of(tmp_path / "o.jsonl").name == "operations"
    assert table_of(tmp_path / "e.csv").name == "events"
    for name, text in (("x.csv", "a,b\n1,2\n"), ("x.json", "[1]"), ("y.json", "")):
        with pytest.raises(TraceError, match="expected a table of a trace"):
            table_of(text_file(tmp_path, name, text))


SUFFIXES = ["parquet", "csv", "jsonl"]


@given(values())
def test_columns_are_checked_as_rows_are(drawn):
    """Good together exactly if each row is good, with the same defaults."""
    table, rows = drawn
    columns = table.make_columns(*map(list, zip(*rows, strict=True)))
    made = None if columns is None else list(zip(*columns, strict=True))
    assert made == checked(table, rows)


def test_a_bad_row_of_a_batch_is_named(pq, tmp_path):
    """As row by row: with file, row, column and value, and those that follow."""
    keys = [f"k{n}" for n in range(20_000)]
    keys[9_000] = keys[15_000] = ""
    path = pq(tmp_path / "e.parquet", key=keys, at_ms=range(20_000))
    with pytest.raises(BadRows) as by_row:
        list(read_events(path))
    with pytest.raises(BadRows) as by_column:
        list(batches_in_order(read_events(path)))
    assert str(by_column.value) == str(by_row.value)
    assert by_column.value.rows == by_row.value.rows
    assert [row.number for row in by_column.value.rows] == [9_001, 15_001]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bad_rows_of_a_batch_are_skipped_on_demand(pq, tmp_path, suffix):
    """And counted; the numbers of the others stay."""
    path = tmp_path / f"e.{suffix}"
    if suffix == "parquet":
        pq(path, key=["a", "", "c"], at_ms=[1, 2, 3])
    elif suffix == "csv":
        path.write_text("key,at_ms\na,1\n,2\nc,3\n")
    else:
        path.write_text('{"key":"a","at_ms":1}\n{"at_ms":2}\n{"key":"c","at_ms":3}\n')
    skipped = SkippedRows()
    with read_events(path, on_bad=skipped) as reader:
        (batch,) = reader.batches()
    assert batch.columns[0] == ["a", "c"]
    assert batch.numbers[1] - batch.numbers[0] == 2
    assert (skipped.count, skipped.first[0].column) == (1, "key")


@settings(suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture])
@given(values())
def test_arrays_that_are_good_have_good_rows(pq, drawn):
    """The quick look at Arrow arrays finds no row good that the check of each row refuses."""
    table, rows = drawn
    texts = pq.pa.string()
    types = {"text": texts, "list of texts": pq.pa.list_(texts), "true or false": pq.pa.bool_()}
    arrays = {}
    for column, found in zip(table.columns, zip(*rows, strict=True), strict=True):
        try:
            arrays[column.name] = pq.pa.array(found, types.get(column.type.value, pq.pa.int64()))
        except (pq.pa.ArrowException, OverflowError, UnicodeEncodeError):
            reject()
    held = list(zip(*(array.to_pylist() for array in arrays.values()), strict=True))
    wanted = checked(table, held)
    if table.surely_allows(pq.pa, arrays):
        assert wanted == [tuple(map(_as_read, row)) for row in held]
    elif table in (EVENTS, EXTENSIONS):  # the look sees all of their rules
        assert wanted is None or None in chain.from_iterable(held)


def _as_read(value):
    return tuple(value) if isinstance(value, list) else value


def test_most_batches_are_found_good_at_once(pq, tmp_path):
    """Whatever columns the file lacks."""
    ids, times, keys = ["o", "\u00f6"], [1, 2], [["k"], ["k", "\u00fc"]]
    path = pq(tmp_path / "o.parquet", op_id=ids, submitted_ms=times, timeout_ms=times, keys=keys)
    with Reader(path, unchecked(OPERATIONS)) as reader:
        rows = rows_of(batch.columns for batch in reader.batches())
    assert rows == [("o", "", 1, 1, ("k",), 1), ("\u00f6", "", 2, 2, ("k", "\u00fc"), 1)]
    path = pq(tmp_path / "e.parquet", key=ids, at_ms=times)
    with Reader(path, unchecked(EVENTS)) as events:
        assert rows_of(batch.columns for batch in events.batches())[1] == ("\u00f6", 2, 0, False)


def test_bytes_that_are_no_text_are_a_bad_row(pq, tmp_path):
    """By column as by row, in a list, too: two keys that are good only together."""
    pa = pq.pa
    broken = pa.array([b"k\xc3", b"\xa9"]).cast(pa.binary()).view(pa.string())
    keys = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), broken)
    path = pq(tmp_path / "o.parquet", op_id=["o"], submitted_ms=[1], timeout_ms=[1], keys=keys)
    with pytest.raises(BadRows, match="row 1, column keys"):
        list(batches_in_order(read_operations(path)))
    path = pq(tmp_path / "e.parquet", key=broken, at_ms=[1, 2])
    with pytest.raises(BadRows, match="row 1, column key: "):
        list(batches_in_order(read_events(path)))


@pytest.mark.parametrize(("unit", "divisor"), [("s", 0.001), ("ms", 1), ("us", 1e3), ("ns", 1e6)])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_times_may_be_timestamps(pq, tmp_path, unit, divisor, zone):
    """Of any unit, nanoseconds too, as pandas writes them; rounded down to a millisecond."""
    counts = [-(10**7) - 1, -1, 0, 1, 999_999_999, 1_357_034_400_000]
    times = pq.pa.array(counts, pq.pa.int64()).cast(pq.pa.timestamp(unit, zone))
    path = pq(tmp_path / "e.parquet", key=["k"] * len(counts), at_ms=times)
    wanted = [math.floor(count / divisor) for count in counts]
    assert [row.at_ms for row in read_events(path)] == wanted
    assert rows_of(batches_in_order(read_events(path))) == list(read_events(path))


def test_a_missing_timestamp_is_a_bad_row(pq, tmp_path):
    """It is named as any missing value is."""
    times = pq.pa.array([1, None], pq.pa.timestamp("ns"))
    path = pq(tmp_path / "e.parquet", key=["k", "k"], at_ms=times)
    with pytest.raises(BadRows, match="row 2, column at_ms: nothing"):
        list(batches_in_order(read_events(path)))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_columns_are_the_fields_of_a_row(table):
    """In their order; a rare one comes last and has a default."""
    assert table.names == table.row._fields
    assert table.without_rare_columns().names == table.names[: len(table.names) - rare(table)]
    assert table.names[table.time_place] == table.time_column


def rare(table):
    return sum(column.rare for column in table.columns)


def test_a_table_is_recognised_by_its_required_columns():
    """Columns that may be absent tell nothing."""
    assert recognise("f", {"op_id", "submitted_ms", "timeout_ms", "keys"}) is OPERATIONS
    assert recognise("f", {"key", "at_ms", "other"}) is EVENTS
    with pytest.raises(TraceError, match="expected a table of a trace"):
        recognise("f", {"key"})


def test_a_column_that_is_missing_or_there_twice_is_refused():
    """The error names the file and the column."""
    with pytest.raises(TraceError, match="f: not a table of events, it has no column at_ms"):
        EVENTS.check_columns("f", ["key"])
    with pytest.raises(TraceError, match="column key is there more than once"):
        EVENTS.check_columns("f", ["key", "at_ms", "key"])


def test_rows_that_are_not_plain_are_made_as_others():
    """The quick look at a row is for the usual values; the rules decide of the others."""
    assert OPERATIONS.make("\u00f6", None, 1, 2, ["a", "b"], 2).keys == ("a", "b")
    assert OUTCOMES.make("o", "k", "completed", 3, "\u00f6", 1, 4, 2, 0).by_key == "\u00f6"
    with pytest.raises(BadValue, match="column need: 3"):
        OPERATIONS.make("o", "", 1, 2, ["a", "b"], 3)
