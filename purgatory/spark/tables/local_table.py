"""Small tables made in this process, such as the numbers of files.

Any thread may call. The tables go through Arrow, so that Spark keeps them in its plan. For a list
of rows Spark would run a job with Python workers, which take seconds to start and which executors
need not have.
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
    """Make a DataFrame of rows with values in the schema's order."""
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(
        pa.Table.from_pylist(named, schema=to_arrow_schema(schema)), schema
    )
