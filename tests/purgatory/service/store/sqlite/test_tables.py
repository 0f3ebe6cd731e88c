"""RowInserter: many rows in few statements, by the names of their columns."""

import sqlite3

import pytest

from purgatory.service.store.sqlite.tables import RowInserter, chunks, placeholders


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
