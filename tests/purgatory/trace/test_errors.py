"""Bad rows: each is named with its place, or skipped and counted."""

import pytest

from purgatory.trace import (
    BadRows,
    KeyEvent,
    SkippedRows,
    read_events,
    read_extensions,
    read_operations,
)
from tests.testing.trace_files import text_file

HEADER = "op_id,kind,submitted_ms,timeout_ms,keys,need\n"


def first_bad(read, path):
    with pytest.raises(BadRows) as caught:
        list(read(path))
    assert str(path) in str(caught.value)
    return caught.value.rows[0]


@pytest.mark.parametrize(
    ("row", "column", "value"),
    [
        (",x,1,2,k,1", "op_id", None),
        ("a,x,,2,k,1", "submitted_ms", None),
        ("a,x,1.5,2,k,1", "submitted_ms", "1.5"),
        ("a,x,1_000,2,k,1", "submitted_ms", "1_000"),
        ("a,x,\u0661,2,k,1", "submitted_ms", "\u0661"),
        ("a,x,9223372036854775808,2,k,1", "submitted_ms", 2**63),
        ("a,x," + "9" * 5000 + ",2,k,1", "submitted_ms", "9" * 5000),
        ("a,x,1,-2,k,1", "timeout_ms", -2),
        ("a,x,1,soon,k,1", "timeout_ms", "soon"),
        ("a,x,1,2,,1", "keys", None),
        ("a,x,1,2,k||l,1", "keys", ["k", "", "l"]),
        ("a,x,1,2,k,0", "need", 0),
        ("a,x,1,2,k|k,2", "need", 2),
        ("a,x,1,2,k", "", ["a", "x", "1", "2", "k"]),
        ("a,x,1,2,k,1,1", "", ["a", "x", "1", "2", "k", "1", "1"]),
    ],
)
@pytest.mark.parametrize("name", ["ops.csv", "ops.csv.gz"])
def test_a_broken_csv_row_is_named(tmp_path, name, row, column, value):
    """The error has file, physical line, column, value and what was expected."""
    path = text_file(tmp_path, name, f"{HEADER}good,x,1,2,k,1\n\n{row}\n")
    bad = first_bad(read_operations, path)
    assert (bad.path, bad.unit, bad.number) == (str(path), "line", 4)
    assert (bad.column, bad.value) == (column, value)
    assert bad.expected


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


def test_a_row_of_several_lines_is_named_by_its_first(tmp_path):
    """A quoted field may hold line breaks; an editor jumps to where the row begins."""
    path = text_file(tmp_path, "ops.csv", HEADER + 'a,"x\n\ny",1,2,k,1\n"b\n",x,1,-2,k,1\n')
    rows = read_operations(path)
    assert next(rows).kind == "x\n\ny"
    assert rows.where() == f"{path}, line 2"
    with pytest.raises(BadRows) as caught:
        next(rows)
    assert caught.value.rows[0].number == 5


@pytest.mark.parametrize(
    ("line", "column", "value"),
    [
        ('{"at_ms": 1}', "key", None),
        ('{"key": null, "at_ms": 1}', "key", None),
        ('{"key": 5, "at_ms": 1}', "key", 5),
        ('{"key": "\\ud800", "at_ms": 1}', "key", "\ud800"),
        ('{"key": "k"}', "at_ms", None),
        ('{"key": "k", "at_ms": "1"}', "at_ms", "1"),
        ('{"key": "k", "at_ms": 1.0}', "at_ms", 1.0),
        ('{"key": "k", "at_ms": true}', "at_ms", True),
        ('{"key": "k", "at_ms": 1e400}', "at_ms", float("inf")),
        ('{"key": "k", "at_ms": 9223372036854775808}', "at_ms", 2**63),
        ('{"key": "k", "at_ms": ' + "9" * 5000 + "}", "", None),
        ('{"key": "k", "at_', "", '{"key": "k", "at_'),
        ('["k", 1]', "", '["k", 1]'),
        ('{"key": "k", "at_ms": 1, "hold_ms": -1}', "hold_ms", -1),
        ('{"key": "k", "at_ms": 1, "hold_ms": 1.5}', "hold_ms", 1.5),
        ('{"key": "k", "at_ms": 1, "hold_ms": true}', "hold_ms", True),
        ('{"key": "k", "at_ms": 1, "hold_ms": 9223372036854775807}', "hold_ms", 2**63 - 1),
        ('{"key": "k", "at_ms": 1, "failed": 1}', "failed", 1),
        ('{"key": "k", "at_ms": 1, "failed": "true"}', "failed", "true"),
        ("[" * 100_000, "", None),
        ("null", "", "null"),
    ],
)
def test_a_broken_json_line_is_named(tmp_path, line, column, value):
    """As for CSV; what is not an object, or is too deep or too big, is a bad row too."""
    path = text_file(tmp_path, "e.jsonl", f'\n{{"key": "k", "at_ms": 1}}\n{line}\n')
    bad = first_bad(read_events, path)
    assert (bad.unit, bad.number, bad.column) == ("line", 3, column)
    assert value is None or bad.value == value


def test_a_broken_parquet_row_is_named(tmp_path, pq):
    """Rows are counted from 1."""
    path = pq(tmp_path / "e.parquet", key=["a", "", None], at_ms=[1, 2, 3])
    bad = first_bad(read_events, path)
    assert (bad.unit, bad.number, bad.column, bad.value) == ("row", 2, "key", "")
    good = {"op_id": ["a"], "submitted_ms": [1], "timeout_ms": [2], "keys": [["k"]], "need": [1]}
    changes = [
        ("op_id", None),
        ("submitted_ms", None),
        ("timeout_ms", -1),
        ("keys", None),
        ("keys", []),
        ("keys", [None]),
        ("keys", [""]),
        ("need", 2),
    ]
    for column, value in changes:
        columns = {name: values * 2 for name, values in good.items()}
        columns[column] = [good[column][0], value]
        bad = first_bad(read_operations, pq(tmp_path / "o.parquet", **columns))
        assert (bad.number, bad.column) == (2, column)


def test_bytes_that_are_not_utf8_are_a_bad_row(tmp_path, pq):
    """In every format, with the row's place; the rows around it are readable."""
    pa = pq.pa
    raw = pa.array([b"a", b"\xff", b"c"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    paths = [
        text_file(tmp_path, "e.csv", b"key,at_ms\na,1\n\xff,2\nc,3\n"),
        text_file(
            tmp_path,
            "e.jsonl",
            b'{"key":"a","at_ms":1}\n{"key":"\xff","at_ms":2}\n{"key":"c","at_ms":3}\n',
        ),
        pq(tmp_path / "e.parquet", key=text, at_ms=[1, 2, 3]),
    ]
    for path, number in zip(paths, (3, 2, 2), strict=True):
        skipped = SkippedRows()
        assert list(read_events(path, on_bad=skipped)) == [KeyEvent("a", 1), KeyEvent("c", 3)]
        assert [(bad.number, bad.column) for bad in skipped.first] == [(number, "key")]


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
