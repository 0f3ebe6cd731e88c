"""RowInserter: many rows in few statements, by the names of their columns."""

import sqlite3

import pytest

from purgatory.service.store.sqlite.tables import RowInserter, StoredTable, chunks, placeholders


@pytest.fixture
def connection():
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (b, a)")
    yield connection
    connection.close()


@pytest.mark.parametrize("count", [1, 8, 9, 600])
def test_all_rows_are_inserted_in_order(connection, count):
    """Whatever their number; columns by name, and an empty text as NULL where one may be."""
    statements = []

    def execute(sql, values):
        statements.append(sql)
        connection.execute(sql, values)

    inserter = RowInserter("t", ("a", "b"), 32_766, nullable=("b",))
    inserter.run(execute, [value for n in range(count) for value in (n, "" if n % 2 else n)])
    expected = [(n, None if n % 2 else n) for n in range(count)]
    assert connection.execute("SELECT a, b FROM t").fetchall() == expected
    assert len(statements) <= 1 + count // 8


def test_values_are_named_in_portions():
    """Which together are all of them."""
    portions = list(chunks(range(1100)))
    assert [len(portion) for portion in portions] == [500, 500, 100]
    assert placeholders([1, 2, 3]) == "(?,?,?)".replace(",", ", ")


@pytest.mark.parametrize("count", [0, 1, 501])
@pytest.mark.parametrize("is_new", [False, True])
def test_rows_are_looked_up_where_there_are_some(connection, count, is_new):
    """Written by this table or before; an empty one is not asked."""
    rows = [(n, 10 * n) for n in range(count)]
    if not is_new:
        connection.executemany("INSERT INTO t (a, b) VALUES (?, ?)", rows)
    table = StoredTable(connection, 32_766, "t", ("a", "b"))
    if is_new and count:
        table.write([value for row in rows for value in row])
    asked = []
    connection.set_trace_callback(asked.append)
    keys = [count - 1, count, 0]
    assert sorted(table.select_keys(keys, ("b",))) == [(b,) for a, b in rows if a in keys]
    table.delete(keys)
    table.delete_where("a = ?", (1,))
    assert bool(asked) == bool(count)
    assert table.select("ORDER BY a") == [row for row in rows if row[0] not in (*keys, 1)]
