"""Small tables: the same rows and types, without a Python worker."""

import pytest

from purgatory.spark.tables.local_table import local_table
from purgatory.spark.tables.schema import OPERATIONS


@pytest.mark.parametrize(
    "rows", [[], [("o", None, -(2**63), 2**63 - 1, ["a", "日本"], 1), (None,) * 6]]
)
def test_rows_come_back(spark, rows, capsys):
    """Nulls, lists and the ends of 64 bits are kept; the plan contains the table itself."""
    table = local_table(spark, OPERATIONS, rows)
    assert table.schema == OPERATIONS
    assert rows == [tuple(row) for row in table.collect()]
    table.explain()
    assert "LocalTableScan" in capsys.readouterr().out
