"""Tables as users have them: all readers take and reject the same rows, or refuse the file."""

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from purgatory.replay.engine import Replay
from purgatory.spark.batch.job import resolve_files
from purgatory.spark.errors import SparkError, TableError
from purgatory.spark.stream.file_types import check_types
from purgatory.spark.stream.sources import directory_source
from purgatory.spark.tables.reader import read_table
from purgatory.spark.tables.row_checks import EVENTS_TABLE
from purgatory.spark.tables.schema import EVENTS
from purgatory.trace import (
    SkippedRows,
    TraceError,
    read_events,
    read_operations,
    read_outcomes,
)
from purgatory.trace.validation import FARTHEST_MS, INT64_MAX, INT64_MIN
from tests.testing.stream_input import StreamInput

pytestmark = pytest.mark.timeout(400)

FAR = [FARTHEST_MS, FARTHEST_MS + 1, -FARTHEST_MS, -FARTHEST_MS - 1, INT64_MIN, INT64_MAX, None]
TEXTS = pa.list_(pa.string())


def operations(number, rng):
    """Return columns of operations with far times, nulls and empty texts; ids may be repeated."""
    times = [rng.choice([*FAR, *range(50)]) for _ in range(number)]
    keys = [rng.choice([["k1"], ["k2", "k3"], ["k1", "k1"], [], None, [""]]) for _ in times]
    return {
        "op_id": [rng.choice([f"o{n}", "same", "", None]) for n in range(number)],
        "submitted_ms": pa.array(times, pa.int64()),
        "timeout_ms": pa.array(
            [rng.choice([0, 5, 40, -1, 2**62, INT64_MAX, None]) for _ in times], pa.int64()
        ),
        "keys": pa.array(keys, TEXTS),
    }


def events(number, rng):
    """Return columns of events with far times and nulls."""
    times = [rng.choice([*FAR, *range(90)]) for _ in range(number)]
    return {
        "key": [rng.choice(["k1", "k2", "k3", "", None]) for _ in times],
        "at_ms": pa.array(times, pa.int64()),
    }


def narrow(columns):
    """Return the rows of small times, in the narrowest integers."""
    table = pa.table(columns)
    name = "submitted_ms" if "keys" in columns else "at_ms"
    near = [at is not None and 0 <= at < 100 for at in table[name].to_pylist()]
    table = table.filter(pa.array(near))
    place = table.schema.get_field_index(name)
    return table.set_column(place, name, table[name].cast(pa.int8()))


def write_drifting(directory, make, optional, rng):
    """Write files whose optional columns are absent, untyped nulls, or have values."""
    plain = pa.table(make(60, rng))
    pq.write_table(plain, directory / "0.parquet")
    pq.write_table(plain.slice(0, 0), directory / "1-without-rows.parquet")
    pq.write_table(narrow(make(60, rng)), directory / "2-narrow.parquet")
    untyped = plain.append_column(optional, pa.nulls(len(plain)))
    pq.write_table(untyped, directory / "3-untyped.parquet")
    values = pa.array([rng.choice([1, 2, 0, -1, None, 2**40]) for _ in range(len(plain))])
    pq.write_table(plain.append_column(optional, values), directory / "4-values.parquet")


def read(reader, path):
    """Return the good rows by time, and the number of bad ones."""
    skipped = SkippedRows()
    with reader(path, on_bad=skipped) as rows:
        return sorted(rows, key=rows.table.time_of), skipped.count


def test_rows_far_away_and_columns_that_drift(spark, tmp_path):
    """The batch and the stream have the outcomes of a replay, and reject as many rows."""
    rng = random.Random(41)
    feed = StreamInput(tmp_path)
    write_drifting(tmp_path / "operations", operations, "need", rng)
    write_drifting(tmp_path / "events", events, "hold_ms", rng)
    good, bad = read(read_operations, tmp_path / "operations")
    happened, bad_events = read(read_events, tmp_path / "events")
    wanted = []
    with Replay(on_outcome=wanted.append) as replay:
        replay.run(good, happened)
    wanted.sort(key=repr)
    assert {row.outcome for row in wanted} == {"completed", "expired"}
    tables = [str(tmp_path / name) for name in ("operations", "events")]
    done = resolve_files(spark, *tables, str(tmp_path / "batch"))
    with read_outcomes(tmp_path / "batch") as outcomes:
        assert wanted == sorted(outcomes, key=repr)
    assert done.rejected == bad + bad_events > 100
    entry = feed.stream(spark, files_a_batch=9, watermark_ms=0).run(until_end=True)
    assert wanted == feed.outcomes()
    assert entry.counts["rejected_operations"] == bad
    assert entry.counts["rejected_events"] == bad_events


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("AT_MS", pa.array([2])),
        ("Hold_ms", pa.array([2])),
        ("hold_ms", pa.array([2.0])),
        ("hold_ms", pa.array(["2"])),
        ("hold_ms", pa.array([2], pa.duration("ms"))),
        ("hold_ms", pa.array([2], pa.duration("ns"))),
        ("hold_ms", pa.array([2], pa.timestamp("ms"))),
        ("failed", pa.array([1])),
        ("failed", pa.array(["true"])),
    ],
)
def test_columns_that_all_readers_refuse(spark, tmp_path, column, values):
    """Before a row counts, whichever the file is; each names the column."""
    plain = {"key": ["k"], "at_ms": [1]}
    odd = tmp_path / "2.parquet"
    pq.write_table(pa.table({**plain, column: values}), odd)
    with pytest.raises(SparkError, match=column):  # the first file of a stream, and a later one
        directory_source(spark, str(tmp_path)).rows(spark, EVENTS_TABLE)
    with pytest.raises(TableError, match=column):
        check_types(spark, [str(odd)], EVENTS.names)
    with pytest.raises(TraceError, match=column):
        read(read_events, tmp_path)
    with pytest.raises(TableError, match=column):
        read_table(spark, str(tmp_path), EVENTS_TABLE)
