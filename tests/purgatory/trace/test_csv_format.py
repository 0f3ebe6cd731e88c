"""CSV: what others expect, and rows that are broken."""

import pytest

from purgatory.trace import (
    BadRows,
    KeyEvent,
    Operation,
    TraceError,
    read_events,
    read_operations,
    write_operations,
)
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
