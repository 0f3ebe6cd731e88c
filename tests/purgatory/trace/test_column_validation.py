"""Columns of a batch are checked as rows are."""

import pytest
from hypothesis import given

from purgatory.trace import (
    BadRows,
    SkippedRows,
    read_events,
)
from purgatory.trace.reader import batches_in_order
from tests.testing.trace_columns import checked, values

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
