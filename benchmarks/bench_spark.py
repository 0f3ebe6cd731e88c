"""`purgatory spark resolve` compared with the same job written for pandas and for DuckDB.

    python benchmarks/bench_spark.py [--sizes 100000,1000000] [--repeats 3] [--memory 4g]

Resolves so many operations with one to three keys each, any number of which they need, and twice as
many events, a tenth of them of one key. Each contestant reads both tables from Parquet, resolves,
and writes the outcomes as Parquet, in a fresh process with all cores. Measures wall seconds of the
process as a whole (Spark starts its Java in it), of the job, and of the same job once more, when
Java has compiled what it uses; and CPU seconds of both jobs, which a busy machine changes less.
Compares the outcomes, row by row, before it prints any figure. Spark resolves another trace, too,
in which no key occurs more often than others: "spark, even".
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from harness import machine, measure, median, table

from purgatory.spark.batch.job import resolve_files
from purgatory.spark.session import open_session

KEYS_PER_OPERATION = 3
DAY_MS = 86_400_000
MEMORY = "4g"
CONTESTANTS = ("spark", "spark, even", "pandas", "duckdb")
COMPARED = ["op_id", "outcome", "at_ms", "by_key"]

Job = Callable[[str, str, str], object]  # operations, events, output


def make_trace(
    directory: Path,
    size: int,
    *,
    longest_ms: int = DAY_MS,
    last_ms: int = 2 * DAY_MS,
    hot: float = 0.1,
) -> None:
    """Write operations.parquet and events.parquet: a day of so many operations.

    Timeouts are below `longest_ms`, events before `last_ms`. `hot`: part of the events that have
    the same key; a tenth of that part of the operations watches it.
    """
    rng = np.random.default_rng(size)
    counts = rng.integers(1, KEYS_PER_OPERATION + 1, size)
    ends = np.cumsum(counts, dtype=np.int32)
    numbers = rng.integers(0, size, ends[-1])
    numbers[ends[rng.random(size) < hot / 10] - 1] = 0
    keys = named("key-", numbers)
    submitted = np.sort(rng.integers(0, DAY_MS, size))
    offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, keys)
    distinct = np.array([len(set(part)) for part in np.split(numbers, ends[:-1])])
    need = 1 + (rng.random(size) * distinct).astype(np.int32)
    operations = {
        "op_id": named("op-", np.arange(size)),
        "kind": named("kind-", rng.integers(0, 10, size)),
        "submitted_ms": submitted,
        "timeout_ms": rng.integers(0, longest_ms, size),
        "keys": lists,
        "need": pa.array(need, pa.int32()),
    }
    pq.write_table(pa.table(operations), directory / "operations.parquet")
    completed = rng.integers(0, size, 2 * size)
    completed[rng.random(2 * size) < hot] = 0
    events = {
        "key": named("key-", completed),
        "at_ms": np.sort(rng.integers(0, last_ms, 2 * size)),
    }
    pq.write_table(pa.table(events), directory / "events.parquet")


def named(prefix: str, numbers: Any) -> pa.Array:
    """Return numbers as texts with a prefix."""
    return pc.binary_join_element_wise(prefix, pa.array(numbers).cast(pa.string()), "")


def with_pandas(operations: str, events: str, out: str) -> None:
    """Resolve with an as-of merge of the exploded keys, and a rank within each operation."""
    ours = pd.read_parquet(operations)
    ours["deadline_ms"] = ours.submitted_ms + ours.timeout_ms
    ours["row"] = np.arange(len(ours))
    watches = ours[["row", "submitted_ms", "deadline_ms", "need", "keys"]].explode("keys")
    watches = watches.rename(columns={"keys": "key"}).drop_duplicates(["row", "key"])
    moments = pd.read_parquet(events)
    moments["seq"] = np.arange(len(moments))
    firsts = pd.merge_asof(
        watches.sort_values("submitted_ms", kind="stable"),
        moments.sort_values("at_ms", kind="stable"),
        left_on="submitted_ms",
        right_on="at_ms",
        by="key",
        direction="forward",
    )
    firsts = firsts[firsts.at_ms <= firsts.deadline_ms].sort_values(["row", "at_ms", "seq"])
    nth = firsts[firsts.groupby("row").cumcount() + 1 == firsts.need]
    found = ours.merge(nth[["row", "at_ms", "key"]], "left", on="row")
    completed = found.at_ms.notna()
    at_ms = found.at_ms.fillna(found.deadline_ms).astype("int64")
    outcomes = pd.DataFrame(
        {
            "op_id": found.op_id,
            "kind": found.kind,
            "outcome": np.where(completed, "completed", "expired"),
            "at_ms": at_ms,
            "by_key": found.key.where(completed, None),
            "submitted_ms": found.submitted_ms,
            "deadline_ms": found.deadline_ms,
            "waited_ms": at_ms - found.submitted_ms,
            "lateness_ms": 0,
        }
    )
    outcomes.to_parquet(out)


def with_duckdb(operations: str, events: str, out: str) -> None:
    """Resolve with DuckDB's as-of join, and a window over each operation."""
    duckdb.sql(f"""
        COPY (
            WITH ours AS (
                SELECT *, submitted_ms + timeout_ms AS deadline_ms, file_row_number AS row
                FROM read_parquet('{operations}', file_row_number = true)
            ), watches AS (
                SELECT row, submitted_ms, deadline_ms, unnest(list_distinct(keys)) AS key FROM ours
            ), moments AS (
                SELECT key, at_ms, min(file_row_number) AS seq
                FROM read_parquet('{events}', file_row_number = true) GROUP BY key, at_ms
            ), firsts AS (
                SELECT row, watches.key, at_ms,
                    row_number() OVER (PARTITION BY row ORDER BY at_ms, seq) AS place
                FROM watches ASOF JOIN moments
                    ON watches.key = moments.key AND watches.submitted_ms <= moments.at_ms
                WHERE at_ms <= deadline_ms
            )
            SELECT op_id, kind,
                CASE WHEN at_ms IS NULL THEN 'expired' ELSE 'completed' END AS outcome,
                coalesce(at_ms, deadline_ms) AS at_ms, key AS by_key, submitted_ms, deadline_ms,
                coalesce(at_ms, deadline_ms) - submitted_ms AS waited_ms, 0::BIGINT AS lateness_ms
            FROM ours LEFT JOIN firsts ON ours.row = firsts.row AND firsts.place = ours.need
        ) TO '{out}' (FORMAT parquet)
    """)


def one(name: str, directory: str, memory: str) -> dict[str, float]:
    """Run the job of a contestant twice in this process; return the seconds of each run."""
    if name != "spark":
        return twice({"pandas": with_pandas, "duckdb": with_duckdb}[name], name, directory)
    with open_session(memory=memory) as spark:
        return twice(lambda *paths: resolve_files(spark, *paths), name, directory)


def twice(job: Job, name: str, directory: str) -> dict[str, float]:
    """Run a job for the first time in this process, and again."""
    figures = {}
    for run in ("first", "again"):
        begin, used = time.perf_counter(), cpu_seconds()
        with tempfile.TemporaryDirectory(dir=directory) as spare:
            out = f"{directory if run == 'first' else spare}/{name}.parquet"
            job(f"{directory}/operations.parquet", f"{directory}/events.parquet", out)
        figures[run] = time.perf_counter() - begin
        figures[f"{run} CPU"] = cpu_seconds() - used
    return figures


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of all that it has started: Java, and workers."""
    parents, seconds = {}, {}
    for directory in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (directory / "stat").read_text(encoding="ascii", errors="replace")
            fields = text.rpartition(")")[2].split()
            parents[int(directory.name)] = int(fields[1])
            # Also those of children that have ended.
            seconds[int(directory.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    for process in sorted(parents):
        if parents[process] in ours:
            ours.add(process)
    return sum(seconds[process] for process in ours) / os.sysconf("SC_CLK_TCK")


def same_outcomes(ours: Path, *others: Path) -> None:
    """Fail unless all of these have the same outcomes."""
    order = [("op_id", "ascending")]
    wanted = pq.read_table(ours, columns=COMPARED).sort_by(order)
    for other in others:
        found = pq.read_table(other, columns=COMPARED).sort_by(order)
        if not found.cast(wanted.schema).equals(wanted):
            raise SystemExit(f"{ours} and {other} do not agree")


def figures_for(size: int, repeats: int, memory: str) -> dict[str, dict[str, float]]:
    """Return the median seconds of each contestant; they take turns."""
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="bench-spark-") as name:
            skewed, even = Path(name, "skewed"), Path(name, "even")
            for directory, hot in ((skewed, 0.1), (even, 0.0)):
                directory.mkdir()
                make_trace(directory, size, hot=hot)
            for contestant, results in runs.items():
                engine, _, trace = contestant.partition(", ")
                begin = time.perf_counter()
                (result,) = measure(__file__, [engine, even if trace else skewed, memory], 1)
                results.append(result | {"whole": time.perf_counter() - begin - result["again"]})
            same_outcomes(*(skewed / f"{name}.parquet" for name in ("spark", "pandas", "duckdb")))
    return {name: median(results) for name, results in runs.items()}


def show(size: int, figures: dict[str, dict[str, float]]) -> str:
    """Return a table of seconds, and of multiples of Spark's."""
    ours = figures["spark"]
    rows = [
        [
            name,
            *(f"{own[column]:.1f} ({own[column] / ours[column]:.2f})" for column in SHOWN),
        ]
        for name, own in figures.items()
    ]
    title = f"{size:,} operations, {2 * size:,} events: seconds (times Spark's)"
    return table(title, ["", *HEAD], rows)


HEAD = ("process", "job", "job again", "job, CPU", "again, CPU")
SHOWN = ("whole", "first", "again", "first CPU", "again CPU")


def main() -> None:
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(one(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="100000,1000000")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", default=MEMORY, help="of Spark's Java process")
    arguments = parser.parse_args()
    sizes = [int(size) for size in arguments.sizes.split(",")]
    print(machine())
    found = {}
    for size in sizes:
        found[size] = figures_for(size, arguments.repeats, arguments.memory)
        print(show(size, found[size]), flush=True)
    first, last = sizes[0], sizes[-1]
    if first != last:
        rows = [
            [name, *(f"{found[last][name][c] / found[first][name][c]:.1f}" for c in SHOWN)]
            for name in found[first]
        ]
        print(table(f"Growth from {first:,} to {last:,}", ["", *HEAD], rows))


if __name__ == "__main__":
    main()
