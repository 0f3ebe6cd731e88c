"""Rows by column: batches have the rows of the file, in order, sorted and written."""

from itertools import chain

import pytest

from purgatory.trace import (
    BadRows,
    KeyEvent,
    Operation,
    OutcomeRow,
    OutOfOrder,
    by_time,
    in_order,
    read_events,
    read_operations,
    read_outcomes,
    write_events,
    write_operations,
    write_outcomes,
)
from purgatory.trace.reader import batches_by_time, batches_in_order
from purgatory.trace.tables import OUTCOMES
from purgatory.trace.writer import Writer
from tests.testing.trace_columns import rows_of, unchecked

SUFFIXES = ["parquet", "csv", "jsonl"]


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
    with Writer(tmp_path / f"other.{suffix}", unchecked(OUTCOMES)) as out:
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
