"""Writes tables as Parquet files of limited size.

Any thread may call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Above this number of rows, one file would keep a single task busy for long.
MAX_ROWS_PER_FILE: Final = 500_000


def write_parquet(rows: DataFrame, count: int, path: str) -> None:
    """Write `count` rows, replacing a directory; do nothing for none."""
    if count:
        rows.coalesce(-(-count // MAX_ROWS_PER_FILE)).write.mode("overwrite").parquet(path)
