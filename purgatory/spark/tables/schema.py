"""The tables of a trace and of their outcomes as Spark schemas. Constants.

`row_checks` checks the rows of any DataFrame by the rules of these tables.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
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
EVENTS: Final = StructType(
    [
        StructField("key", StringType()),
        StructField("at_ms", LongType()),
        StructField("hold_ms", LongType()),
        StructField("failed", BooleanType()),
    ]
)
EXTENSIONS: Final = StructType(
    [
        StructField("op_id", StringType()),
        StructField("at_ms", LongType()),
        StructField("timeout_ms", LongType()),
    ]
)
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
# A row that breaks a rule: its table, its file (null if it came from none), the reason, and the row
# itself as JSON or, if it could not be parsed, as text.
REJECTED: Final = StructType(
    [
        StructField("table", StringType()),
        StructField("file", StringType()),
        StructField("reason", StringType()),
        StructField("row", StringType()),
    ]
)

# An optional column of events and extensions, int64, that orders those of one instant; see
# `batch.resolve`.
SEQUENCE: Final = "seq"

COMPLETED: Final = "completed"
FAILED: Final = "failed"
EXPIRED: Final = "expired"
