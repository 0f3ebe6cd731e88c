"""Tables: known by their columns, which all have to be there, once."""

import pytest

from purgatory.trace import (
    Operation,
    TraceError,
    read_events,
    read_outcomes,
    write_events,
    write_operations,
)
from purgatory.trace.reader import table_of
from tests.testing.trace_files import text_file


def test_a_missing_column_is_refused(tmp_path, pq):
    """At once, and by name: the file may hold another table."""
    csv = text_file(tmp_path, "e.csv", "key,when\nk,1\n")
    parquet = pq(tmp_path / "e.parquet", key=["k"])
    for path in (csv, parquet):
        with pytest.raises(TraceError, match=r"no column at_ms"):
            read_events(path)
    with pytest.raises(TraceError, match="no column op_id, outcome, at_ms"):
        read_outcomes(parquet)


def test_a_column_twice_is_refused(tmp_path):
    """The reader cannot know which one is meant."""
    path = text_file(tmp_path, "e.csv", "key,at_ms,key\nk,1,l\n")
    with pytest.raises(TraceError, match="column key is there more than once"):
        read_events(path)


def test_the_table_is_recognised_by_its_columns(tmp_path):
    """In every format; a file of something else is refused."""
    with write_operations(tmp_path / "o.jsonl") as out:
        out.write(Operation("a", "", 1, 2, ("k",)))
    with write_events(tmp_path / "e.csv"):
        pass
    assert table_of(tmp_path / "o.jsonl").name == "operations"
    assert table_of(tmp_path / "e.csv").name == "events"
    for name, text in (("x.csv", "a,b\n1,2\n"), ("x.json", "[1]"), ("y.json", "")):
        with pytest.raises(TraceError, match="none of the tables"):
            table_of(text_file(tmp_path, name, text))
