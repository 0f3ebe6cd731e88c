"""Three engines, one result: replay, resolve and stream agree in every column of every row."""

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from purgatory.replay.engine import Replay
from purgatory.spark.batch.job import resolve_files
from purgatory.spark.batch.resolve import resolve
from purgatory.spark.tables.schema import EVENTS, OPERATIONS, SEQUENCE
from purgatory.trace import Outcome, read_events, read_operations, read_outcomes
from tests.testing.hostile_tables import (
    WRITERS,
    json_lines,
    spoil_types,
    write_mixed,
)
from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, joined, random_traces

FILES = 4
BOM = b"\xef\xbb\xbf"
JITTER_MS = 5


def jittered(trace, rng):
    """Return the rows in an order in which no row is further behind than JITTER_MS."""
    operations, events = trace
    return (
        sorted(operations, key=lambda row: row.submitted_ms + rng.randint(0, JITTER_MS)),
        sorted(events, key=lambda row: row.at_ms + rng.randint(0, JITTER_MS)),
    )


def replayed(trace):
    """Return the outcomes of an in-process replay, sorted."""
    operations, events = trace
    outcomes = []
    with Replay(on_outcome=outcomes.append) as replay:
        replay.run(
            sorted(operations, key=lambda row: row.submitted_ms),
            sorted(events, key=lambda row: row.at_ms),
        )
    return sorted(outcomes, key=repr)


def resolved(spark, trace):
    """Return the outcomes of the batch, sorted; `seq` numbers the events by their place."""
    operations, events = trace
    numbered = [(*event, place) for place, event in enumerate(events)]
    sequenced = StructType([*EVENTS, StructField(SEQUENCE, LongType())])
    frame = resolve(
        spark.createDataFrame(operations, OPERATIONS), spark.createDataFrame(numbered, sequenced)
    )
    return sorted((Outcome(*row) for row in frame.collect()), key=repr)


def test_two_hundred_random_traces(spark, tmp_path):
    """All three engines agree on ties, need=n, shared keys, zero timeouts and unordered input."""
    traces = random_traces(200, in_order=False)
    assert len(traces) >= 200
    trace = jittered(joined(traces), random.Random(3))
    wanted = replayed(trace)
    assert expected(trace) == wanted
    assert wanted == resolved(spark, trace)
    feed = StreamInput(tmp_path)
    feed.put_trace(trace, FILES)
    commits = []
    entry = feed.stream(spark, watermark_ms=JITTER_MS, on_commit=commits.append).run(until_end=True)
    assert wanted == feed.outcomes()
    assert len({commit.counts["completed"] for commit in commits} - {0}) >= 2
    assert entry.pending == entry.counts["late_operations"] == entry.counts["late_events"] == 0


def read_leniently(path):
    """Return the good rows of two tables, and the file and line of each bad one."""
    bad = []
    with read_operations(path / "operations", on_bad=bad.append) as operations:
        with read_events(path / "events", on_bad=bad.append) as events:
            return (list(operations), list(events)), [(row.path, row.number) for row in bad]


def rejected(spark, out):
    """Return the file and the text of each rejected row."""
    rows = spark.read.parquet(f"{out}/_rejected").collect()
    return Counter((row.file.rpartition("/")[2], row.row) for row in rows)


def shown(bad):
    """Return the file and the text of each bad line."""
    lines = {path: Path(path).read_bytes().split(b"\n") for path, _ in bad}
    found = (
        (path, lines[path][number - 1].removeprefix(BOM if number == 1 else b""))
        for path, number in bad
    )
    return Counter(
        (Path(path).name, line.decode(errors="backslashreplace")) for path, line in found
    )


@pytest.mark.timeout(300)  # several micro-batches of a Spark that may be busy
def test_two_hundred_traces_with_hostile_lines(spark, tmp_path):
    """Of spoiled JSON lines all three engines take the same rows, and reject the same ones."""
    rng = random.Random(35)
    trace = joined(random_traces(200, in_order=False))
    feed = StreamInput(tmp_path)
    for table, rows in zip(WRITERS, trace, strict=True):
        for number in range(FILES):
            data = json_lines(rows[number::FILES], rng)
            feed.put_bytes(table, data, suffix=".jsonl")
    good, bad = read_leniently(tmp_path)
    assert len(bad) > 200
    wanted = replayed(good)
    assert {outcome.outcome for outcome in wanted} == {"completed", "expired"}
    tables = [str(tmp_path / name) for name in WRITERS]
    done = resolve_files(spark, *tables, str(tmp_path / "batch"))
    assert done.rejected == len(bad)
    with read_outcomes(tmp_path / "batch") as outcomes:
        assert wanted == sorted(outcomes, key=repr)
    assert shown(bad) == rejected(spark, tmp_path / "batch")
    entry = feed.stream(spark, files_a_batch=2, watermark_ms=10**9).run(until_end=True)
    assert wanted == feed.outcomes()
    assert shown(bad) == rejected(spark, feed.out)
    assert entry.counts["rejected_operations"] + entry.counts["rejected_events"] == len(bad)


def test_two_hundred_traces_in_hostile_directories(spark, tmp_path):
    """All formats beside each other, in directories named as columns; integers of two sizes."""
    rng = random.Random(36)
    trace = joined(random_traces(200, in_order=False))
    for (table, write), rows in zip(WRITERS.items(), trace, strict=True):
        write_mixed(tmp_path / table, write, rows, rng)
    good, bad = read_leniently(tmp_path)
    tables = [str(tmp_path / name) for name in WRITERS]
    done = resolve_files(spark, *tables, str(tmp_path / "batch"))
    with read_outcomes(tmp_path / "batch") as outcomes:
        assert replayed(good) == sorted(outcomes, key=repr)
    files = Counter(file for file, _ in rejected(spark, tmp_path / "batch").elements())
    assert files == Counter(path.rpartition("/")[2] for path, _ in bad)
    assert done.rejected == len(bad) > 100


@pytest.mark.timeout(300)
def test_two_hundred_traces_in_parquet_of_any_types(spark, tmp_path):
    """All three engines read integers of two sizes, and texts and lists that are views."""
    rng = random.Random(37)
    trace = joined(random_traces(200, in_order=False))
    feed = StreamInput(tmp_path)
    for (table, write), rows in zip(WRITERS.items(), trace, strict=True):
        for number in range(2 * FILES):
            file = tmp_path / "next.parquet"
            with write(file) as out:
                for row in rows[number :: 2 * FILES]:
                    out.write(row)
            spoil_types(file, rng)
            feed.adopt(table, file)
    good, bad = read_leniently(tmp_path)
    assert bad == []
    wanted = replayed(good)
    done = resolve_files(spark, *[str(tmp_path / name) for name in WRITERS], str(tmp_path / "all"))
    with read_outcomes(tmp_path / "all") as outcomes:
        assert wanted == sorted(outcomes, key=repr)
    entry = feed.stream(spark, files_a_batch=4, watermark_ms=10**9).run(until_end=True)
    assert wanted == feed.outcomes()
    rejections = entry.counts["rejected_operations"] + entry.counts["rejected_events"]
    assert done.rejected == rejections == 0
