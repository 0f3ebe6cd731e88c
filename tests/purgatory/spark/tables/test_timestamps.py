"""Times that are timestamps, as pandas writes them."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory.spark.tables.reader import read_table
from purgatory.spark.tables.row_checks import EVENTS_TABLE
from purgatory.trace import read_events as read_events_in_process


@pytest.fixture
def lenient(spark):
    """The session, of which a setting is undone afterwards."""
    yield spark
    spark.conf.unset("spark.sql.legacy.parquet.nanosAsLong")


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_times_of_parquet_may_be_timestamps(lenient, tmp_path, unit, zone):
    """Nanoseconds too, which Spark refuses; the same times as in process. Other columns as well."""
    counts = [-(10**7) - 1, -1, 0, 999_999_999, 1_357_034_400_123_456_789 // 1000]
    if unit == "ns":
        counts[0] = -(2**63) + 1  # the earliest of pandas
    times = pa.array(counts, pa.int64()).cast(pa.timestamp(unit, zone))
    table = {"key": list("abcde"), "at_ms": times, "seen": times}
    (tmp_path / "a b%20c").mkdir()
    path = str(tmp_path / "a b%20c" / "e.parquet")
    pq.write_table(pa.table(table), path)
    found = {row.key: row.at_ms for row in read_table(lenient, path, EVENTS_TABLE).good.collect()}
    assert found == {row.key: row.at_ms for row in read_events_in_process(path)}


def test_an_unused_column_of_nanoseconds_is_ignored(lenient, tmp_path):
    """As any other column is."""
    seen = pa.array([1], pa.timestamp("ns"))
    pq.write_table(pa.table({"key": ["a"], "at_ms": [7], "seen": seen}), tmp_path / "e.parquet")
    (row,) = read_table(lenient, str(tmp_path / "e.parquet"), EVENTS_TABLE).good.collect()
    assert row.at_ms == 7
