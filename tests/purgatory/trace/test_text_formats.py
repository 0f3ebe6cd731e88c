"""Text: what others expect of CSV and of JSON lines, and rows and bytes that are broken."""

import gzip
import json

import pytest

from purgatory.trace import (
    EXPIRED,
    BadRows,
    KeyEvent,
    Operation,
    Outcome,
    SkippedRows,
    TraceError,
    read_events,
    read_operations,
    write_events,
    write_operations,
    write_outcomes,
)
from purgatory.trace.reader import table_of
from tests.testing.trace_files import first_bad, text_file

HEADER = "op_id,kind,submitted_ms,timeout_ms,keys,need\n"


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


def test_a_row_of_several_lines_is_named_by_its_first(tmp_path):
    """A quoted field may hold line breaks; an editor jumps to where the row begins."""
    path = text_file(tmp_path, "ops.csv", HEADER + 'a,"x\n\ny",1,2,k,1\n"b\n",x,1,-2,k,1\n')
    rows = read_operations(path)
    assert next(rows).kind == "x\n\ny"
    assert rows.where() == f"{path}, line 2"
    with pytest.raises(BadRows) as caught:
        next(rows)
    assert caught.value.rows[0].number == 5


@pytest.mark.parametrize("rest", ['6,"k', '6,"k\n7,l\n', '6,"k" \n7,l\n', '6,"k"l\n7,l\n'])
@pytest.mark.parametrize("how", [list, lambda rows: list(rows.batches())])
def test_a_quote_that_does_not_end_a_field_is_refused(tmp_path, how, rest):
    """Read leniently, it would join what follows with the field: rows would be lost unseen."""
    path = text_file(tmp_path, "events.csv", f"at_ms,key\n5,k\n{rest}")
    with pytest.raises(TraceError, match=r"events\.csv, after line 2: "):
        how(read_events(path, on_bad=SkippedRows()))


def test_csv_is_what_others_expect(tmp_path):
    """A header, line feeds, quotes only where needed, '|' between keys."""
    path = tmp_path / "ops.csv"
    with write_operations(path) as out:
        out.write(Operation("a", "", 1, 2, ("k", "l"), 2))
        out.write(Operation('b,"', "x\ny", 1, 2, ("k",)))
    assert path.read_bytes() == (
        b'op_id,kind,submitted_ms,timeout_ms,keys,need\na,,1,2,k|l,2\n"b,""","x\ny",1,2,k,1\n'
    )


def test_a_field_beyond_the_limit_of_csv_is_refused(tmp_path):
    """An open quote takes in all that follows; that ends in an error, not in all memory."""
    path = text_file(tmp_path, "e.csv", 'key,at_ms\nk,1\n"' + "x,1\n" * 100_000)
    rows = read_events(path)
    assert next(rows) == KeyEvent("k", 1)
    with pytest.raises(TraceError, match="after line 2: field larger than field limit"):
        next(rows)


def test_csv_refuses_what_it_cannot_hold(tmp_path):
    """A '|' within a key, a field that CSV readers would refuse: nothing of the row is there."""
    path = tmp_path / "o.csv"
    with write_operations(path) as out:
        with pytest.raises(BadRows, match=r"column keys: 'k\|l'"):
            out.write(Operation("a", "", 1, 2, ("k|l",)))
        with pytest.raises(BadRows, match=r"column op_id: .* at most 131072 characters"):
            out.write(Operation("a" * 131_073, "", 1, 2, ("k",)))
    assert path.read_text().count("\n") == 1


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


def test_json_lines_are_what_others_expect(tmp_path):
    """One object a line; text as it is; null for no key."""
    path = tmp_path / "out.jsonl.gz"
    row = Outcome("a", "é", EXPIRED, 3, None, 1, 3, 2, 0)
    with write_outcomes(path) as out:
        out.write(row)
    text = gzip.decompress(path.read_bytes()).decode()
    assert "é" in text
    assert text.endswith("}\n")
    assert json.loads(text) == row._asdict()


@pytest.mark.parametrize("name", ["e.csv.gz", "e.jsonl.gz"])
def test_a_damaged_gz_is_refused(tmp_path, name):
    """Not gzip at all, cut short, or with a wrong checksum: after the rows that could be read."""
    path = tmp_path / name
    with write_events(path) as out:
        for n in range(50_000):
            out.write(KeyEvent(f"key-{n * 7919 % 50_000}", n))
    whole = path.read_bytes()
    for data in (b"key,at_ms\nk,1\n", whole[: len(whole) // 2], whole[:-4] + b"\0\0\0\0"):
        path.write_bytes(data)
        rows = []
        with pytest.raises(TraceError) as caught:
            rows.extend(read_events(path))
        count = len(rows)
        assert not isinstance(caught.value, BadRows)
        assert str(path) in str(caught.value)
        assert (count == 0) == (data[:2] != whole[:2])
        assert count == 0 or f"after line {count + ('csv' in name)}" in str(caught.value)


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("key;at_ms\nk;1\n", "its columns are separated by ';', expected ','"),
        ("key\tat_ms\nk\t1\n", "its columns are separated by '\\t', expected ','"),
        ("key|at_ms\nk|1\n", "its columns are separated by '|', expected ','"),
        ("\nkey,at_ms\nk,1\n", "the first line is blank, expected names of columns"),
        (",,\nkey,at_ms\nk,1\n", "the first line is blank, expected names of columns"),
        ("  \nkey,at_ms\n", "the first line is blank, expected names of columns"),
        ("k,1\n", "no column key, at_ms; its columns are 'k', '1'"),
        ("Key,at ms\n", "no column key, at_ms; its columns are 'Key', 'at ms'"),
        (",".join(f"c{n}" for n in range(99)), "'c11', ..."),
    ],
)
def test_a_header_says_what_was_found(tmp_path, text, message):
    """Of a spreadsheet, or of a program that writes no header; also where any table is taken."""
    path = text_file(tmp_path, "e.csv", text)
    for read in (read_events, table_of):
        with pytest.raises(TraceError) as caught:
            read(path)
        found = message.rpartition("; ")[2]
        assert (message if read is read_events else found) in str(caught.value)


def test_names_of_json_are_found(tmp_path):
    """A table that is none of the four is named by what it has."""
    path = text_file(tmp_path, "e.jsonl", '{"k": 1, "at": 2}\n')
    with pytest.raises(TraceError, match="its columns are 'k', 'at'; expected a table of a trace"):
        table_of(path)
    path = text_file(tmp_path, "e.jsonl", "no object\n")
    with pytest.raises(TraceError, match="its columns are none; expected a table of a trace"):
        table_of(path)
