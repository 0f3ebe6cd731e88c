"""Lines of text in Python workers: what the reader of a trace takes, and nothing else."""

import io
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory.spark.tables.line_parser import (
    CSV,
    FAULT,
    JSON,
    MESSAGES,
    PLACE,
    SHOWN,
    LineParser,
    text_lines,
)
from purgatory.trace import SkippedRows, TraceError, read_events, read_operations

OPERATION = b'{"op_id":"o","submitted_ms":1,"timeout_ms":5,"keys":["k"]}'
# Lines of events that are no object alone, or hold what a reader might take for something else.
ODD_LINES = [
    b'{"key":"a","at_ms":1}{"key":"b","at_ms":2}',
    b'{"key":"a","at_ms":1} {"key":"b","at_ms":2}',
    b'{"key":"a","at_ms":1},',
    b'{"key":"a","at_ms":1}]',
    b'{"key":"a","at_ms":1} junk',
    b'{"key":"a","at_ms":1}\x00',
    b'{"key":"a","at_ms":1} // note',
    b'/* note */ {"key":"a","at_ms":1}',
    b"{'key':'a','at_ms':1}",
    b'{key:"a",at_ms:1}',
    b'[{"key":"a","at_ms":1}]',
    b'{"key":"a","at_ms":NaN}',
    b'{"key":"a","at_ms":1,"more":NaN}',
    b'{"key":"a","at_ms":1,"more":-Infinity}',
    b'{"key":"a","at_ms":1,"at_ms":2}',
    b'{"key":"a","key":5,"at_ms":2}',
    b'{"key":"a","at_ms":01}',
    b'{"key":"a","at_ms":+1}',
    b'{"key":"a","at_ms":1.0}',
    b'{"key":"a","at_ms":1e0}',
    b'{"key":"a","at_ms":-0}',
    b'{"key":"a","at_ms":9223372036854775808}',
    b'{"key":"a","at_ms":' + b"1" * 5000 + b"}",
    b'{"key":"a\tb","at_ms":1}',
    b'{"key":"\\u0000","at_ms":1}',
    b'{"key":"\\ud800","at_ms":1}',
    b'{"key":"\\udce9","at_ms":1}',
    b'{"key":"\\ude00\\ud83d","at_ms":1}',
    b'{"key":"a","at_ms":1,"more":"\\ud800"}',
    b'{"key":"a","at_ms":1,"\\ud800":"more"}',
    b'{"key":"\xef\xbb\xbfa","at_ms":1}',
    b'{\xef\xbb\xbf"key":"a","at_ms":1}',
    b'{"key":"a","at_ms":1}\xef\xbb\xbf',
    b'{"key":"?","at_ms":1}',
    b'{"key":"\\ud83d\\ude00","at_ms":1}',
    b'{"key":"\\x41","at_ms":1}',
    b'{"key":"a","at_ms":1,"more":' + b"[" * 2000 + b"]" * 2000 + b"}",
    b'\xef\xbb\xbf{"key":"a","at_ms":1}',
    b'"key"',
    b"null",
    b"{}",
    b'{"key":"a","at_ms":1',
    b"  ",
    b"\x1c",
    b'{"key":"a","at_ms":1}\r',
    b'{"key":"a",\r"at_ms":1}',
]
# Bytes that are not UTF-8: Latin-1, a lone continuation, cut short, overlong, surrogates, too high.
BAD_BYTES = [
    *(b"\xe8", b"\x80", b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98"),
    *(b"\xc0\xaf", b"\xed\xa0\x80", b"\xed\xb2\xa9", b"\xf5\x80\x80\x80", b"\xff\xfe"),
]


def parsed(table, form, lines, file="f", batch_rows=3):
    """Return the rows of a `LineParser`, as dictionaries; lines come in several batches."""
    rows = [(line, file, place) for place, line in enumerate(lines)]
    batches = [
        pa.RecordBatch.from_arrays(
            [
                pa.array(column, kind)
                for column, kind in zip(
                    zip(*rows[at : at + batch_rows], strict=True),
                    (pa.binary(), pa.string(), pa.int64()),
                    strict=True,
                )
            ],
            names=["value", "_file", PLACE],
        )
        for at in range(0, len(rows), batch_rows)
    ]
    return [row for batch in LineParser(table, form)(iter(batches)) for row in batch.to_pylist()]


def in_process(read, path):
    """Return the good rows of the reader of a trace, and the number of bad ones."""
    skipped = SkippedRows()
    return [tuple(row) for row in read(path, on_bad=skipped)], skipped.count


def check_same(read, table, form, path, data):
    """Compare a parser with the reader of a trace, on the bytes of a file."""
    path.write_bytes(data)
    good, bad = in_process(read, path)
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rows = parsed(table, form, lines[:-1] if data.endswith(b"\n") else lines)
    found = [list(row.values())[:-4] for row in rows if row[FAULT] is None]
    assert [json.dumps(row) for row in good] == [json.dumps(row) for row in found]
    assert bad == sum(row[FAULT] is not None for row in rows)
    return rows


def test_a_line_is_one_object_and_nothing_else(tmp_path):
    """What follows an object, and what only looks like one, makes the whole line bad."""
    lines = [b'{"key":"first","at_ms":1}', *ODD_LINES]
    rows = check_same(read_events, "events", JSON, tmp_path / "e.jsonl", b"\n".join(lines))
    bad = {row[SHOWN] for row in rows if row[FAULT]}
    assert ODD_LINES[0].decode() in bad
    assert {row["key"] for row in rows} >= {"first", "a", "?", "\0"}


@pytest.mark.parametrize("bad", BAD_BYTES)
@pytest.mark.parametrize("column", ["op_id", "kind", "keys", "more"])
def test_bytes_that_are_not_utf8_make_a_json_line_bad(tmp_path, bad, column):
    """In any column of the table; in another one they change nothing. The others stay."""
    value = b'"k' + bad + b'"'
    row = OPERATION[:-1] + b',"%s":%s}' % (
        column.encode(),
        b"[%s]" % value if column == "keys" else value,
    )
    data = b"\n".join([OPERATION, row, OPERATION])
    rows = check_same(read_operations, "operations", JSON, tmp_path / "o.jsonl", data)
    assert [bool(row[FAULT]) for row in rows] == [False, column != "more", False]


@pytest.mark.parametrize("bad", BAD_BYTES)
@pytest.mark.parametrize("place", [0, 1, 2, 3, 4, 5])
def test_bytes_that_are_not_utf8_make_a_csv_record_bad(tmp_path, bad, place):
    """In any column of the table; in another one they change nothing. The others stay."""
    cells = [b"o", b"K", b"1", b"5", b"a|b", b"x"]
    cells[place] += bad
    head = b"op_id,kind,submitted_ms,timeout_ms,keys,more\n"
    data = head + b"o,K,1,5,a|b,x\n" + b",".join(cells) + b"\no,K,1,5,a|b,x\n"
    rows = check_same(read_operations, "operations", CSV, tmp_path / "o.csv", data)
    assert [bool(row[FAULT]) for row in rows] == [False, place != 5, False]


ODD_CSV = (
    b'\xef\xbb\xbfkey ,at_ms,more\n"a\r\nb",1,x\r\n"a\nb",2,\n"a\rb",3,\rlone,4,\n\n'
    b'a"b,5,\n"a""b",7,\na b ,8,\n a,9,\n"",1,\nk,1\nk,1,2,3\n,,\n'
    b'k,"1\n",\nk,0x1,\nk,\xd9\xa1,\nk,1_0,\nk\x00,1,\n\tk,1,\nlast,1,"not\nended"'
)


def test_csv_is_taken_apart_as_in_process(tmp_path):
    """Quoted line breaks stay as they are; also quotes in the middle, gaps, blanks and NUL."""
    rows = check_same(read_events, "events", CSV, tmp_path / "e.csv", ODD_CSV)
    assert [row["key"] for row in rows][:3] == ["a\r\nb", "a\nb", "a\rb"]
    assert [row[PLACE] for row in rows] == list(range(len(rows)))
    shown = [row[SHOWN] for row in rows if row[FAULT]]
    assert {"k,1", "k,1,2,3", json.dumps({"key": "k", "at_ms": "0x1", "more": ""})} <= {*shown}


@pytest.mark.parametrize("row", [b'"a"b,6', b'k,"1'])
def test_a_quote_that_does_not_end_a_field_is_refused_as_in_process(tmp_path, row):
    """Read leniently, it would join what follows with the field."""
    data = b"key,at_ms\n" + row + b"\nlast,1\n"
    (tmp_path / "e.csv").write_bytes(data)
    with pytest.raises(TraceError, match=r"expected after|end of data"):
        in_process(read_events, tmp_path / "e.csv")
    with pytest.raises(TraceError, match=r"expected after|end of data"):
        parsed("events", CSV, data.split(b"\n")[:-1])


@given(st.lists(st.binary(max_size=8), max_size=8), st.sampled_from([CSV, JSON]))
def test_any_bytes(tmp_path_factory, pieces, form):
    """Whatever a file holds, both take and reject the same rows."""
    path = tmp_path_factory.mktemp("any") / ("e.csv" if form == CSV else "e.jsonl")
    head = b"key,at_ms\n" if form == CSV else b'{"key":"k","at_ms":1}\n'
    inner = [b'"k%s",1\n' if form == CSV else b'{"key":"%s","at_ms":1}\n'] * len(pieces)
    lines = [line % piece for line, piece in zip(inner, pieces, strict=True)]
    data = head + b"".join(lines) + b"end,1\n"
    path.write_bytes(data)
    try:
        in_process(read_events, path)
    except TraceError:
        with pytest.raises(TraceError):
            parsed("events", form, data.split(b"\n")[:-1])
    else:
        check_same(read_events, "events", form, path, data)


def test_a_header_of_another_table_is_refused():
    """By the name of its file."""
    with pytest.raises(TraceError, match=r"a\.csv: not a table of events, it has no column at_ms"):
        parsed("events", CSV, [b"key,x", b"a,1"], "a.csv")
    with pytest.raises(TraceError, match=r"a\.csv: not UTF-8 text"):
        parsed("events", CSV, [b"key,at_ms,\xe9", b"a,1,2"], "a.csv")


def test_a_field_that_is_too_long_is_damage():
    """As in the reader of a trace, which names the file."""
    line = b"k" * 200_000 + b",1"
    with pytest.raises(TraceError, match=r"e\.csv, after line 2: field larger than field limit"):
        parsed("events", CSV, [b"key,at_ms", b"k,1", line], "e.csv")


def test_blank_messages_are_rows():
    """A blank line of a file is none, but each message of a topic counts."""
    lines = [b"", None, b" ", b'{"key":"a",\n"at_ms":1}']
    assert len(parsed("events", JSON, lines)) == 1
    rows = parsed("events", MESSAGES, lines)
    assert [bool(row[FAULT]) for row in rows] == [True, True, True, False]


def test_messages_are_taken_as_lines():
    """A message is good or bad as the same line of a file is; a byte order mark stays there."""
    lines = [line for line in ODD_LINES if not line.decode(errors="replace").isspace()]
    assert parsed("events", MESSAGES, lines) == parsed("events", JSON, lines)


def test_lines_end_as_in_a_text_file():
    """A lone carriage return ends one."""
    data = b"a\rb\r\nc\n\xe9"
    lines = list(text_lines(data.split(b"\n")))
    text = io.TextIOWrapper(io.BytesIO(data + b"\n"), "utf-8", "surrogateescape", "")
    assert lines == list(text)
