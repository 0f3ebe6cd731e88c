"""Time order: a row out of order is refused with its place, or rows are sorted."""

import pytest

from purgatory.trace import (
    KeyEvent,
    Operation,
    OutOfOrder,
    TraceError,
    by_time,
    in_order,
    read_events,
    read_operations,
    write_events,
    write_operations,
)


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
