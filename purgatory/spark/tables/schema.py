"""The tables of a trace and of their outcomes as Spark schemas. Constants.

`row_checks` checks the rows of any DataFrame by the rules of these tables.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

_TEXTS: Final = ArrayType(StringType())

OPERATIONS: Final = StructType(
    [
        StructField("op_id", StringType()),
        StructField("kind", StringType()),
        StructField("submitted_ms", LongType()),
        StructField("timeout_ms", LongType()),
        StructField("keys", _TEXTS),
        StructField("need", IntegerType()),
    ]
)
EVENTS: Final = StructType([StructField("key", StringType()), StructField("at_ms", LongType())])
OUTCOMES: Final = StructType(
    [
        StructField("op_id", StringType()),
        StructField("kind", StringType()),
        StructField("outcome", StringType()),
        StructField("at_ms", LongType()),
        StructField("by_key", StringType()),
        StructField("submitted_ms", LongType()),
        StructField("deadline_ms", LongType()),
        StructField("waited_ms", LongType()),
        StructField("lateness_ms", LongType()),
    ]
)
# A row that was not taken: of which table and file (null: none), why, and itself, as JSON or, when
# it could not be taken apart, as it stood there.
REJECTED: Final = StructType(
    [
        StructField("table", StringType()),
        StructField("file", StringType()),
        StructField("reason", StringType()),
        StructField("row", StringType()),
    ]
)

# An optional column of events, int64: events of one instant count in its order; see `resolve`.
SEQUENCE: Final = "seq"

COMPLETED: Final = "completed"
EXPIRED: Final = "expired"
