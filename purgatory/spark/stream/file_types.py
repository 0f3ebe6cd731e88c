"""Checks the types of columns in the Parquet files of a stream, by their footers.

Spark reads a stream's files with one schema, and takes timestamps for integers. So each file is
checked before the rows of its micro-batch are used. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from purgatory.spark.errors import TableError, wrapping_spark_errors
from purgatory.spark.filesystem import local_name
from purgatory.spark.tables.footers import LIST, STRING, UNTYPED, footer_types
from purgatory.spark.tables.schema import EVENTS, EXTENSIONS, OPERATIONS
from purgatory.spark.tables.timestamps import TIME_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

_WANTED: Final = {
    column.name: column.dataType.simpleString() for column in (*OPERATIONS, *EVENTS, *EXTENSIONS)
}
_INTEGERS: Final = ("int", "bigint")
_UNSIGNED: Final = "INTEGER(64,false)"
_OF_INTEGERS: Final = ("INT32", "INT64", "INTEGER(")
_OTHERS: Final = {"string": STRING, "boolean": "BOOLEAN", "array<string>": LIST}


def check_types(spark: SparkSession, files: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return the columns that all files have.

    Raises `TableError` for a column that a stream would misread or cannot read.
    """
    names = [*columns]
    found: list[dict[str, str]] = []
    for file in files:
        with wrapping_spark_errors(file):
            found += footer_types(spark, [file], names)
        _check_file(file, found[-1])
    return [name for name in names if all(name in types for types in found)]


def _check_file(file: str, types: Mapping[str, str]) -> None:
    shown = local_name(file)
    for name, kind in types.items():
        wanted = _WANTED.get(name)
        if wanted is None:
            continue  # of a source that is not a table's files
        if not _is_of_type(kind, wanted):
            raise TableError(f"{shown}: column {name} holds {_shown(kind)}; {_expected(name)}")


def _is_of_type(kind: str, wanted: str) -> bool:
    if wanted in _INTEGERS:
        # Parquet keeps nulls without a type as integers.
        return kind == UNTYPED or (kind != _UNSIGNED and kind.startswith(_OF_INTEGERS))
    return kind == _OTHERS[wanted]  # Spark would take any bytes for a text


def _shown(kind: str) -> str:
    if kind == UNTYPED:
        return "nulls without a type"
    if kind.startswith("TIMESTAMP"):
        return "timestamps"
    return "uint64" if kind == _UNSIGNED else kind


def _expected(name: str) -> str:
    wanted = "int64" if _WANTED[name] in _INTEGERS else _WANTED[name]
    of_time = "Unix milliseconds as " if name in TIME_COLUMNS else ""
    return f"a stream reads {of_time}{wanted}, in all files"


def files_of_batch(query: StreamingQuery) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the Parquet files of a query's current micro-batch, and the columns, by source.

    Call it in `foreachBatch`. Other formats carry no types.
    """
    plan: Any = query._jsq.streamingQuery().lastExecution().optimizedPlan()
    leaves = plan.collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        if leaf.getClass().getSimpleName() != "LogicalRelation":
            continue
        relation = leaf.relation()
        if str(relation.fileFormat().toString()) == "Parquet":
            files = [unquote(str(file)) for file in relation.inputFiles()]
            yield files, [str(name) for name in relation.schema().fieldNames()]
