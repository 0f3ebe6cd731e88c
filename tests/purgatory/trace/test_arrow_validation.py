"""Arrays of Arrow that are good are found good at once; others are checked row by row."""

import math
from dataclasses import replace
from itertools import chain

import pytest
from hypothesis import HealthCheck, given, reject, settings

from purgatory.trace import (
    BadRows,
    read_events,
    read_operations,
)
from purgatory.trace.arrow_validation import are_good
from purgatory.trace.reader import Reader, batches_in_order
from purgatory.trace.tables import EVENTS, OPERATIONS
from tests.testing.trace_columns import checked, rows_of, values


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
