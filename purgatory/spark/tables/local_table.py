"""Small tables made in this process, such as a clock or the numbers of files. Any thread may call.

By way of Arrow: Spark holds such a table in its plan. Of a list of rows it would make a job of its
own, with Python workers, which cost seconds to start and which executors need not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def local_table(
    spark: SparkSession, schema: StructType, rows: Iterable[Sequence[object]] = ()
) -> DataFrame:
    """The rows as a DataFrame, with their values in the order of the schema."""
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(
        pa.Table.from_pylist(named, schema=to_arrow_schema(schema)), schema
    )
