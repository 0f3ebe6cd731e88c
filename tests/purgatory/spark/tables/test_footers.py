"""What the footers of Parquet files say of a table's columns."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory.spark.errors import TableError
from purgatory.spark.tables.footers import UNTYPED, footer_types, group_by_columns
from purgatory.spark.tables.reader import read_table
from purgatory.spark.tables.row_checks import OPERATIONS_TABLE

NAMES = ["key", "at_ms", "failed"]


def test_only_the_named_columns_count(spark, tmp_path):
    """Other columns may have types that Spark does not know; untyped ones are in no schema."""
    file = str(tmp_path / "a b%20c.parquet")
    columns = {"key": ["a"], "at_ms": [1], "failed": pa.nulls(1), "x": pa.array([1], pa.float16())}
    pq.write_table(pa.table(columns), file)
    (found,) = group_by_columns(spark, [file], NAMES)
    fields = json.loads(found.schema)["fields"]
    assert [(field["name"], field["type"]) for field in fields] == [
        ("key", "string"),
        ("at_ms", "long"),
    ]
    assert found.untyped == ["failed"]
    types = {"key": "STRING", "at_ms": "INT64", "failed": UNTYPED}
    assert footer_types(spark, [file], NAMES) == [types]
    assert dict(found.types) == types


def test_a_file_without_a_typed_column(spark, tmp_path):
    """Its schema is empty: the caller names the missing columns."""
    file = str(tmp_path / "e.parquet")
    pq.write_table(pa.table({"key": pa.nulls(1), "x": [1]}), file)
    assert group_by_columns(spark, [file], NAMES) == {("", (("key", UNTYPED),)): [file]}


def test_a_list_of_nulls_is_untyped(spark, tmp_path):
    """As pyarrow writes a column of empty lists; a replay rejects its rows, and takes the file."""
    file = str(tmp_path / "o.parquet")
    ids = pa.array(["a", "b"])
    numbers = {"submitted_ms": pa.array([1, 2]), "timeout_ms": pa.array([5, 5])}
    for keys in ([[], []], [[None], None]):
        pq.write_table(pa.table({"op_id": ids, "keys": pa.array(keys), **numbers}), file)
        assert footer_types(spark, [file], ["keys"]) == [{"keys": UNTYPED}]
        assert read_table(spark, file, OPERATIONS_TABLE).rejected.count() == 2
    pq.write_table(pa.table({"keys": pa.array([["a"], []])}), file)
    assert footer_types(spark, [file], ["keys"]) == [{"keys": "LIST"}]


def test_names_that_differ_only_by_case(spark, tmp_path):
    """Only if one of them is a column of the table."""
    file = str(tmp_path / "e.parquet")
    pq.write_table(pa.table({"key": ["a"], "x": [1], "X": [2]}), file)
    assert [found.untyped for found in group_by_columns(spark, [file], NAMES)] == [[]]
    for name in ("key", "at_ms"):  # beside the table's own, and instead
        pq.write_table(pa.table({"key": ["a"], name.title(): ["b"]}), file)
        words = f"column {name.title()} differs from {name} only by case"
        with pytest.raises(TableError, match=words):
            group_by_columns(spark, [file], NAMES)
