"""The tables of `purgatory.trace.tables` as Spark schemas. Constants; any thread."""

from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from purgatory.trace import tables
from purgatory.trace.tables import Table
from purgatory.trace.validation import ColumnType

_TYPES: Final[dict[ColumnType, DataType]] = {
    ColumnType.TEXT: StringType(),
    ColumnType.TEXTS: ArrayType(StringType()),
    ColumnType.INT32: IntegerType(),
    ColumnType.INT64: LongType(),
    ColumnType.BOOL: BooleanType(),
}


def schema_of(table: Table[Any]) -> StructType:
    """Return the Spark schema of a table."""
    schema = StructType()
    for column in table.columns:
        schema.add(column.name, _TYPES[column.type])
    return schema


OPERATIONS: Final = schema_of(tables.OPERATIONS)
EVENTS: Final = schema_of(tables.EVENTS)
EXTENSIONS: Final = schema_of(tables.EXTENSIONS)
OUTCOMES: Final = schema_of(tables.OUTCOMES)
JOBS: Final = schema_of(tables.JOBS)
# A row that breaks a rule; `row`: as JSON or, if not parsed, as text.
REJECTED: Final = StructType()
for _name in ("table", "file", "reason", "row"):
    REJECTED.add(_name, StringType())

# An optional column, int64, that orders the rows of an instant.
SEQUENCE: Final = "seq"
