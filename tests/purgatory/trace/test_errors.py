"""Bad rows: each is named with its place, or skipped and counted."""

import pytest

from purgatory.trace import (
    BadRows,
    KeyEvent,
    SkippedRows,
    read_events,
    read_extensions,
)
from tests.testing.trace_files import first_bad, text_file


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        (",1,2", "op_id", None),
        ("a,,2", "at_ms", None),
        ("a,1,", "timeout_ms", None),
        ("a,1,-2", "timeout_ms", -2),
        ("a,1,9223372036854775807", "timeout_ms", 2**63 - 1),
    ],
)
def test_a_bad_extension_is_named(tmp_path, row, column, value):
    """As a bad operation is."""
    path = text_file(tmp_path, "x.csv", f"op_id,at_ms,timeout_ms\ngood,1,2\n{row}\n")
    bad = first_bad(read_extensions, path)
    assert (bad.number, bad.column, bad.value) == (3, column, value)


@pytest.mark.parametrize(
    ("cells", "column", "value"),
    [
        ("-1,", "hold_ms", -1),
        ("x,", "hold_ms", "x"),
        ("0,1", "failed", "1"),
        ("0,no", "failed", "no"),
    ],
)
def test_a_bad_hold_or_failure_is_named(tmp_path, cells, column, value):
    """Empty cells are allowed there, bad ones are not."""
    path = text_file(tmp_path, "e.csv", f"key,at_ms,hold_ms,failed\nk,1,,\nk,1,{cells}\n")
    bad = first_bad(read_events, path)
    assert (bad.number, bad.column, bad.value) == (3, column, value)


def test_reading_stops_at_the_first_five_bad_rows(tmp_path):
    """Good rows before them are returned; the error lists five and says there may be more."""
    lines = ["good,1"] + [f"bad-{n},x" for n in range(9)]
    path = text_file(tmp_path, "e.csv", "key,at_ms\n" + "\n".join(lines))
    rows = read_events(path)
    assert next(rows) == KeyEvent("good", 1)
    with pytest.raises(BadRows) as caught:
        next(rows)
    assert [bad.number for bad in caught.value.rows] == [3, 4, 5, 6, 7]
    assert caught.value.more
    assert "there may be more" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(StopIteration):
        next(rows)


def test_fewer_bad_rows_are_listed_and_no_more_are_announced(tmp_path):
    """A short file is read to its end."""
    path = text_file(tmp_path, "e.csv", "key,at_ms\nk,x\nk,1\nk,y\n")
    with pytest.raises(BadRows) as caught:
        list(read_events(path))
    assert [bad.number for bad in caught.value.rows] == [2, 4]
    assert not caught.value.more
    assert "more" not in str(caught.value)


def test_looking_for_more_bad_rows_has_an_end(tmp_path):
    """A bad row at the top of a huge file is reported without reading the whole file."""
    good = "k,1\n" * 20_000
    path = text_file(tmp_path, "e.csv", f"key,at_ms\nk,x\n{good}k,y\n")
    with pytest.raises(BadRows) as caught:
        list(read_events(path))
    assert len(caught.value.rows) == 1
    assert caught.value.more


def test_bad_rows_can_be_skipped_and_counted(tmp_path):
    """With `on_bad` all good rows are returned and bad ones counted; five are kept."""
    lines = "".join(f"k,{n}\nk,x\n" for n in range(20))
    path = text_file(tmp_path, "e.csv", "key,at_ms\n" + lines)
    skipped = SkippedRows()
    assert list(read_events(path, on_bad=skipped)) == [KeyEvent("k", n) for n in range(20)]
    assert skipped.count == 20
    assert [bad.number for bad in skipped.first] == [3, 5, 7, 9, 11]
