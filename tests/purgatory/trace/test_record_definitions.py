"""Rows: each is defined once, and all that has columns has those of the rows."""

import json
import sqlite3
from contextlib import closing

import pyarrow.parquet
import pytest

from purgatory.service.server.journal import journal_rows
from purgatory.service.store.rows import StoredEvent, StoredJob, StoredOperation, StoredOutcome
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from purgatory.trace.tables import (
    EXTENSIONS,
    OPERATIONS,
    OUTCOMES,
    TABLES,
    Extension,
    KeyEvent,
    Operation,
    OutcomeRow,
)
from purgatory.trace.writer import Writer

ROWS = {
    "operations": Operation("o", "k", 1, 2, ("a",)),
    "events": KeyEvent("a", 1, 2, failed=True),
    "outcomes": OutcomeRow("o", "k", "completed", 3, "a", 1, 4, 2, 0),
    "extensions": Extension("o", 1, 2),
}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_files_have_the_columns_of_the_rows(table, tmp_path):
    """Of all formats, in the order of the fields."""
    row = ROWS[table.name]
    for suffix in ("csv", "jsonl", "parquet"):
        with Writer(tmp_path / f"t.{suffix}", table) as out:
            out.write(row)
    assert (tmp_path / "t.csv").read_text().splitlines()[0].split(",") == list(row._fields)
    assert list(json.loads((tmp_path / "t.jsonl").read_text())) == list(row._fields)
    assert pyarrow.parquet.read_schema(tmp_path / "t.parquet").names == list(row._fields)


def test_a_journal_has_the_rows_of_a_trace():
    """What is read from the store for it is a number and a row of a trace."""
    stored = StoredOperation(7, "me", "o", "k", 1, 3, 1, ("a",), None)
    outcome = StoredOutcome(9, 7, "completed", 2, 0, "a", None)
    number, *operation = journal_rows.stored_operation_row(stored)
    seq, *ended = journal_rows.stored_outcome_row(outcome, stored)
    assert (number, OPERATIONS.make(*operation)) == (7, Operation("o", "k", 1, 2, ("a",)))
    expected = OutcomeRow("o", "k", "completed", 2, "a", 1, 3, 1, 0)
    assert (seq, OUTCOMES.make(*ended)) == (9, expected)


def test_the_tables_of_the_store_have_the_columns_of_its_rows(tmp_path):
    """And those of what the journal is to get have a number and the columns of a trace."""
    SqliteStore(tmp_path / "a.db").close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:

        def columns(table):
            return tuple(row[1] for row in connection.execute(f"PRAGMA table_info({table})"))

        assert columns("outcomes") == StoredOutcome._fields
        assert columns("held") == ("key", *StoredEvent._fields)
        assert columns("jobs") == (*StoredJob._fields, "error")
        assert columns("queued_events") == ("number", *KeyEvent._fields)
        assert columns("queued_extensions") == ("number", *EXTENSIONS.names)
