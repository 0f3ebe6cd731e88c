"""The tables with a row for each thing: their shapes are those of both databases."""

import re
import sqlite3

import pytest

from purgatory.service.store.changes import Changes
from purgatory.service.store.postgres.schema_tables import TABLES as POSTGRES_TABLES
from purgatory.service.store.sqlite.migrations import create_tables
from purgatory.service.store.table_store import SHAPES, SHIFTED, TABLES, rows_of
from tests.testing.changes import changes_of


@pytest.mark.parametrize("name", TABLES)
def test_the_shape_is_that_of_sqlite(name):
    """Columns in order, and the first ones are the key."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    create_tables(connection)
    found = connection.execute(f"SELECT name, pk FROM pragma_table_info('{name}')").fetchall()
    connection.close()
    shape = TABLES[name]
    assert tuple(column for column, _ in found) == shape.columns
    assert tuple(column for column, key in found if key) == shape.columns[: shape.keys]


@pytest.mark.parametrize("name", TABLES)
def test_the_shape_is_that_of_postgresql(name):
    """Columns in order, and the first ones are the key."""
    text = re.search(rf"CREATE TABLE {{schema}}\.{name} \((.*?)\n\)", POSTGRES_TABLES, re.DOTALL)[1]
    lines = [line.split() for line in text.splitlines()[1:]]
    columns = [words[0] for words in lines if words[0] != "PRIMARY"]
    shape = TABLES[name]
    assert tuple(columns) == shape.columns
    keys = re.search(r"PRIMARY KEY \((.*)\)", text)
    expected = shape.columns[: shape.keys]
    assert (tuple(keys[1].split(", ")) if keys else (columns[0],)) == expected


def test_times_are_columns():
    """A shift moves them, but the deadlines of ended operations stay."""
    for shape in SHAPES.values():
        assert set(shape.times) <= set(shape.columns)
    assert set(SHIFTED) == {name for name, shape in SHAPES.items() if shape.times} - {"deadlines"}


def test_what_changes_write():
    """Each table has a list of that name; only those with rows are named."""
    changes = Changes()
    assert rows_of(changes) == []
    for name in SHAPES:
        getattr(changes, name).append(1)
    assert rows_of(changes) == [(name, [1]) for name in SHAPES]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_the_last_event_in_the_queue(store, count):
    """The time of that with the highest number, unless all have been journaled."""
    rows = [v for n in range(1, count + 1) for v in (n, "k", 9000 - n, 0, 0)]
    store.commit(changes_of(queued_events=rows))
    assert store.last_event_ms(0) == (9000 - count if count else None)
    assert store.last_event_ms(count) is None
