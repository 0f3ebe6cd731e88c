"""Rows by column: the same rows, the same checks, the same errors as row by row."""

import math
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from purgatory.trace import (
    BadRows,
    KeyEvent,
    Operation,
    OutcomeRow,
    OutOfOrder,
    SkippedRows,
    by_time,
    in_order,
    read_events,
    read_operations,
    read_outcomes,
    write_events,
    write_operations,
    write_outcomes,
)
from purgatory.trace.arrow_validation import are_good
from purgatory.trace.errors import BadValue
from purgatory.trace.reader import Reader, batches_by_time, batches_in_order
from purgatory.trace.rows import INT64_MAX, INT64_MIN
from purgatory.trace.tables import EVENTS, EXTENSIONS, OPERATIONS, OUTCOMES
from purgatory.trace.writer import Writer

SUFFIXES = ["parquet", "csv", "jsonl"]
# Good values and bad ones, for any column.
TEXTS = ["", "a", "b", "\udcff", "completed", "expired"]
NUMBERS = [-1, 0, 1, 2, 1.0, INT64_MIN, INT64_MAX, INT64_MAX + 1, True, False, None]
LISTS = [(), ("a",), ("a", "a"), ["a", "b"], ("a", ""), ("a", None)]
VALUES = st.sampled_from([*TEXTS, *NUMBERS, *LISTS])
GOOD = {
    OPERATIONS: ("a", "b", 0, 1, ("a", "b"), 2),
    EVENTS: ("a", 0, 1, False),
    EXTENSIONS: ("a", 0, 1),
    OUTCOMES: ("a", "b", "completed", 0, "a", 0, 1, 2, 0),
}


def rows_of(batches):
    """The rows of batches of columns, as tuples."""
    return [row for columns in batches for row in zip(*columns, strict=True)]


def operations(count):
    """Some operations with one key and some with two, in time order."""
    return [
        Operation(f"o{n}", "kind" * (n % 2), n // 3, n, tuple(f"k{n}") if n % 5 else ("k",), 1)
        for n in range(count)
    ]


def written(path, rows, write):
    """Write rows into a file."""
    with write(path) as out:
        for row in rows:
            out.write(row)
    return path


@st.composite
def values(draw):
    """Rows of a table, in which few values are replaced by any."""
    table = draw(st.sampled_from(list(GOOD)))
    rows = [list(GOOD[table]) for _ in range(draw(st.integers(1, 4)))]
    for _ in range(draw(st.integers(0, 3))):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, len(row) - 1))] = draw(VALUES)
    return table, rows


def checked(table, rows):
    """The rows as the check of each row makes them; None if one is bad."""
    try:
        return [tuple(table.make(*row)) for row in rows]
    except BadValue:
        return None


@given(values())
def test_columns_are_checked_as_rows_are(drawn):
    """Good together exactly if each row is good, with the same defaults."""
    table, rows = drawn
    columns = table.make_columns(*map(list, zip(*rows, strict=True)))
    made = None if columns is None else list(zip(*columns, strict=True))
    assert made == checked(table, rows)


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
    if are_good(pq.pa, table.name, arrays):
        assert wanted == [tuple(map(_as_read, row)) for row in held]
    elif table is EVENTS:  # the look sees all of its rules
        assert wanted is None or None in chain.from_iterable(held)


def _as_read(value):
    return tuple(value) if isinstance(value, list) else value


def test_most_batches_are_found_good_at_once(pq, tmp_path):
    """Whatever columns the file lacks."""
    ids, times, keys = ["o", "\u00f6"], [1, 2], [["k"], ["k", "\u00fc"]]
    path = pq(tmp_path / "o.parquet", op_id=ids, submitted_ms=times, timeout_ms=times, keys=keys)
    with Reader(path, replace(OPERATIONS, make_columns=None)) as reader:
        rows = rows_of(batch.columns for batch in reader.batches())
    assert rows == [("o", "", 1, 1, ("k",), 1), ("\u00f6", "", 2, 2, ("k", "\u00fc"), 1)]
    path = pq(tmp_path / "e.parquet", key=ids, at_ms=times)
    with Reader(path, replace(EVENTS, make_columns=None)) as events:
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


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_batches_have_the_rows_of_the_file(tmp_path, suffix):
    """In their order, with their numbers, over the bounds of batches and files."""
    rows = operations(9_000)
    for part in range(2):
        written(tmp_path / f"{part}.{suffix}", rows, write_operations)
    with read_operations(tmp_path) as reader:
        batches = list(reader.batches())
    assert rows_of(batch.columns for batch in batches) == rows * 2
    numbers = list(chain.from_iterable(batch.numbers for batch in batches))
    first = 2 if suffix == "csv" else 1
    assert numbers == [*range(first, first + 9_000)] * 2


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


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("back", [1, 2_000, 8_192, 8_999])
def test_a_row_out_of_order_is_named(tmp_path, suffix, back):
    """Also at the bounds of batches."""
    rows = [KeyEvent("k", n if n < back else n - 5) for n in range(9_000)]
    path = written(tmp_path / f"e.{suffix}", rows, write_events)
    with pytest.raises(OutOfOrder) as by_row:
        list(in_order(read_events(path)))
    with pytest.raises(OutOfOrder) as by_column:
        list(batches_in_order(read_events(path)))
    assert str(by_column.value) == str(by_row.value)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_sorted_as_by_row(tmp_path, suffix):
    """Rows of one instant keep their order; an empty table has no batch."""
    rows = [KeyEvent(f"k{n}", n * 7919 % 1_000) for n in range(9_000)]
    path = written(tmp_path / f"e.{suffix}", rows, write_events)
    assert rows_of(batches_by_time(read_events(path))) == by_time(read_events(path))
    empty = written(tmp_path / f"none.{suffix}", [], write_events)
    if suffix == "jsonl":  # nothing in it says that it is a table
        return
    assert list(batches_by_time(read_events(empty))) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_written_by_column(tmp_path, suffix):
    """The same rows as one by one, also mixed with them; rare columns are added."""
    outcomes = [
        OutcomeRow(f"o{n}", "", "completed", n, f"k{n}", n, n + 1, 0, 0) for n in range(40_000)
    ]
    path = tmp_path / f"o.{suffix}"
    with write_outcomes(path) as out:
        out.write(outcomes[0])
        out.write_columns(tuple(map(list, zip(*outcomes[1:], strict=True))))
        out.write(outcomes[0])
        out.write_columns(tuple([] for _ in OUTCOMES.columns))
    assert out.count == 40_001
    assert list(read_outcomes(path)) == [*outcomes, outcomes[0]]
    with write_events(tmp_path / f"e.{suffix}") as held:
        held.write_columns((["a"], [1], [0], [False]))
        held.write_columns((["b"], [2], [7], [False]))
    found = list(read_events(tmp_path / f"e.{suffix}"))
    assert found == [KeyEvent("a", 1), KeyEvent("b", 2, 7)]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_checked_rows_are_written_as_they_are(tmp_path, suffix):
    """The same file; where columns are written, without another look at them."""
    rows = [OutcomeRow(f"o{n}", "", "expired", n, None, n, n, 0, 0) for n in range(9)]
    columns = tuple(map(list, zip(*rows, strict=True)))
    with write_outcomes(tmp_path / f"one.{suffix}") as out:
        out.write_columns(columns)
    unchecked = replace(OUTCOMES, make_columns=None)
    with Writer(tmp_path / f"other.{suffix}", unchecked) as out:
        out.write_columns(columns, checked=True)
    one, other = (tmp_path / f"{name}.{suffix}" for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    assert out.count == 9


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_bad_row_is_not_written_by_column(tmp_path, suffix):
    """It is named by its place among all rows."""
    with write_events(tmp_path / f"e.{suffix}") as out:
        out.write(KeyEvent("a", 1))
        with pytest.raises(BadRows, match=r"row 4, column at_ms: -1\.5"):
            out.write_columns((["b", "c", "d"], [1, 2, -1.5], [0, 0, 0], [False] * 3))


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
