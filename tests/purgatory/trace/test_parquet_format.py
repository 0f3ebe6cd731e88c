"""Parquet: its schema, related types, damage, and the package that it needs."""

import sys

import pytest

from purgatory.trace import (
    KeyEvent,
    Operation,
    SkippedRows,
    TraceError,
    read_events,
    read_operations,
    write_events,
    write_extensions,
    write_operations,
    write_outcomes,
)
from tests.testing.trace_columns import rows_of
from tests.testing.trace_files import first_bad, round_trip


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


def test_parquet_has_the_schema_of_the_contract(tmp_path):
    """Other programs rely on its names and types."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    text, int64_ = pa.string(), pa.int64()
    expected = {
        write_operations: [
            ("op_id", text),
            ("kind", text),
            ("submitted_ms", int64_),
            ("timeout_ms", int64_),
            ("keys", pa.list_(text)),
            ("need", pa.int32()),
        ],
        write_events: [("key", text), ("at_ms", int64_)],
        write_extensions: [("op_id", text), ("at_ms", int64_), ("timeout_ms", int64_)],
        write_outcomes: [
            ("op_id", text),
            ("kind", text),
            ("outcome", text),
            ("at_ms", int64_),
            ("by_key", text),
            ("submitted_ms", int64_),
            ("deadline_ms", int64_),
            ("waited_ms", int64_),
            ("lateness_ms", int64_),
        ],
    }
    for write, fields in expected.items():
        path = tmp_path / "table.parquet"
        with write(path):
            pass
        schema = pq.read_schema(path)
        assert list(zip(schema.names, schema.types, strict=True)) == fields


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    """CSV works without it; for Parquet the error says what to install."""
    with write_events(tmp_path / "events.parquet") as out:
        out.write(KeyEvent("k", 1))
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(TraceError, match=r"timer-purgatory\[trace\]"):
        read_events(tmp_path / "events.parquet")
    with (
        pytest.raises(TraceError, match=r"timer-purgatory\[trace\]"),
        write_events(tmp_path / "other.parquet"),
    ):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["events.parquet"]
    rows = [KeyEvent("k", 1)]
    assert round_trip(tmp_path / "events.csv", write_events, read_events, rows) == rows


def test_related_types_of_parquet_are_read(tmp_path, pq):
    """Large strings, dictionaries, large lists and narrow integers hold the same values."""
    pa = pq.pa
    path = pq(
        tmp_path / "o.parquet",
        op_id=pa.array(["a", "b"], pa.large_string()),
        kind=pa.array(["x", None]).dictionary_encode(),
        submitted_ms=pa.array([1, 2], pa.int16()),
        timeout_ms=pa.array([3, 4], pa.uint64()),
        keys=pa.array([["k"], ["l", "m"]], pa.large_list(pa.large_string())),
        need=pa.array([None, None], pa.null()),
    )
    assert list(read_operations(path)) == [
        Operation("a", "x", 1, 3, ("k",), 1),
        Operation("b", "", 2, 4, ("l", "m"), 1),
    ]


@pytest.mark.parametrize("name", ["Kind", "OP_ID"])
def test_a_name_that_differs_only_by_case_is_refused(tmp_path, pq, name):
    """Spark would read the column, and Arrow would not: an engine would miss its values."""
    pa = pq.pa
    columns = {"op_id": ["a"], "submitted_ms": [1], "timeout_ms": [2], "keys": [["k"]]}
    path = pq(tmp_path / "o.parquet", **columns, **{name: pa.array(["x"])})
    words = f"o.parquet: the name of column {name} differs from {name.lower()} only by case"
    with pytest.raises(TraceError, match=words):
        read_operations(path)


TEXTS = ["string", "large_string", "string_view", "dictionary"]
LISTS = ["list_", "large_list", "list_view", "large_list_view", "fixed_size_list"]


def text_type(pa, name):
    """Return a type of texts by its name."""
    return pa.dictionary(pa.int32(), pa.string()) if name == "dictionary" else getattr(pa, name)()


def list_type(pa, name, of):
    """Return a type of lists by its name; of two each where the size is fixed."""
    return pa.list_(of, 2) if name == "fixed_size_list" else getattr(pa, name)(of)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", LISTS)
def test_every_layout_of_texts_is_read(tmp_path, pq, text, kind):
    """Polars and DuckDB write views, NumPy lists of one size: row by row and by column."""
    pa = pq.pa
    text = text_type(pa, text)
    rows = [
        Operation(f"o{n}", "ab"[n % 2] * 20, n, 5, (f"k{n}", f"l{n}" * 9)) for n in range(9_000)
    ]
    keys = [list(row.keys) for row in rows]
    try:
        keys = pa.array(keys, list_type(pa, kind, text))
    except pa.ArrowNotImplementedError:  # of dictionaries it makes lists by a cast alone
        keys = pa.array(keys, pa.list_(pa.string())).cast(list_type(pa, kind, text))
    path = pq(
        tmp_path / "o.parquet",
        op_id=pa.array([row.op_id for row in rows]),
        kind=pa.array([row.kind for row in rows]).cast(text),
        submitted_ms=[row.submitted_ms for row in rows],
        timeout_ms=[row.timeout_ms for row in rows],
        keys=keys,
    )
    assert list(read_operations(path)) == rows
    with read_operations(path) as reader:
        assert rows_of(batch.columns for batch in reader.batches()) == rows


def test_texts_that_are_marked_as_json_are_read(tmp_path, pq):
    """DuckDB writes its type JSON so; Spark reads the texts."""
    pa = pq.pa
    key = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["a", "b"]))
    path = pq(tmp_path / "e.parquet", key=key, at_ms=[1, 2])
    assert [row.key for row in read_events(path)] == ["a", "b"]
    keys = pa.ListArray.from_arrays([0, 1, 2], key)
    times = {"submitted_ms": [1, 2], "timeout_ms": [3, 4]}
    path = pq(tmp_path / "o.parquet", op_id=key, kind=key, keys=keys, **times)
    assert [row.keys for row in read_operations(path)] == [("a",), ("b",)]


@pytest.mark.parametrize(
    ("column", "row", "value"),
    [("key", 2, "\udcff"), ("key", 3, None), ("key", 4, "")],
)
def test_bad_rows_of_views_are_named(tmp_path, pq, column, row, value):
    """As those of any text: bytes that are not UTF-8, nulls, empty names."""
    pa = pq.pa
    raw = pa.array([b"a", b"\xff", None, b"", b"a text of more than twelve bytes"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 5, raw.buffers()).cast(pa.string_view())
    path = pq(tmp_path / "e.parquet", key=text, at_ms=[1, 2, 3, 4, 5])
    skipped = SkippedRows()
    rows = list(read_events(path, on_bad=skipped))
    assert [row.key for row in rows] == ["a", "a text of more than twelve bytes"]
    assert (column, row, value) in [(bad.column, bad.number, bad.value) for bad in skipped.first]


@pytest.mark.parametrize(
    ("column", "values", "found"),
    [
        ("submitted_ms", [1.0], "double"),
        ("timeout_ms", ["1"], "string"),
        ("keys", ["k"], "string"),
        ("keys", [[1]], "list"),
        ("op_id", [1], "int64"),
    ],
)
def test_a_parquet_column_of_a_wrong_type_is_refused(tmp_path, pq, column, values, found):
    """At once, with the type found."""
    columns = {"op_id": ["a"], "submitted_ms": [1], "timeout_ms": [2], "keys": [["k"]]}
    path = pq(tmp_path / "o.parquet", **columns | {column: values})
    with pytest.raises(TraceError, match=f"column {column} holds {found}"):
        read_operations(path)


def test_a_damaged_page_of_parquet_is_refused(tmp_path, pq):
    """The footer is sound, so the file opens; the damage is found while reading."""
    path = tmp_path / "e.parquet"
    with write_events(path) as out:
        for n in range(10_000):
            out.write(KeyEvent(f"key-{n * 7919 % 50_000}", n))
    data = bytearray(path.read_bytes())
    for at in range(100, len(data) // 2, 50):
        data[at] ^= 0xFF
    path.write_bytes(data)
    with pytest.raises(TraceError) as caught:
        list(read_events(path))
    assert str(path) in str(caught.value)
