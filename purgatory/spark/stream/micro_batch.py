"""The work of one micro-batch of a stream: rows in, outcomes, late and rejected rows out, state on.

Made by `stream.Stream`. One thread at a time: Spark's, which calls `run_batch` batch by batch, then
the one that waited for its end, for `drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from purgatory.spark.errors import RejectedRows
from purgatory.spark.stream import transition
from purgatory.spark.stream.checkpoint import LATE, REJECTED, CheckpointEntry, CheckpointLog
from purgatory.spark.stream.sources import JSON
from purgatory.spark.tables.local_table import local_table
from purgatory.spark.tables.schema import EVENTS_TABLE, OPERATIONS_TABLE
from purgatory.spark.tables.schema import REJECTED as REJECTED_SCHEMA
from purgatory.trace.rows import INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from purgatory.spark.stream.sources import Source

TABLES: Final = (OPERATIONS_TABLE, EVENTS_TABLE)

# Rows a file of output or state; more would be one task's work for long.
_ROWS_A_FILE: Final = 500_000
# monotonically_increasing_id counts the rows of a partition in its lower bits.
_ROW_OF_PARTITION: Final = (1 << 33) - 1


class RowStats(NamedTuple):
    """How many rows of a sort a micro-batch has, and the latest time in them, if any."""

    rows: int
    newest_ms: int | None


class MicroBatchRunner:
    """Does micro-batches of rows of `sources`, each as one commit of the checkpoint."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint_log: CheckpointLog,
        sources: Mapping[str, Source],
        *,
        watermark_ms: int,
        strict: bool,
        on_commit: Callable[[CheckpointEntry], object] | None,
    ) -> None:
        self._spark = spark
        self._checkpoint_log = checkpoint_log
        self._sources = sources
        self._watermark_ms = watermark_ms
        self._strict = strict
        self._on_commit = on_commit

    def run_batch(self, batch: DataFrame, number: int) -> None:
        """Do one micro-batch: its rows, as `sources.ROWS`.

        `RejectedRows` when there are any and `strict` wants none.
        """
        entry = self._checkpoint_log.entry
        if number <= entry.batch:
            return  # committed by us, but the process was ended before Spark had noted it
        with _cached(
            transition.with_closed_ms(self._with_row_numbers(batch), entry.closed_ms)
        ) as rows:
            stats = _row_stats(rows)
            self._raise_if_rejected(rows, stats)
            newest_ms = _newest(entry.newest_ms, stats)
            after = replace(
                entry,
                batch=number,
                newest_ms=newest_ms,
                closed_ms=max(entry.closed_ms, self._closed_ms(newest_ms)),
                counts=_add_counts(entry.counts, {name: row.rows for name, row in stats.items()}),
            )
            self._write_late_and_rejected(rows, stats)
            operations = transition.pending_operations(_good(rows, "operations").where(_in_time()))
            events = _good(rows, "events").where(_in_time())
            self._advance(
                after,
                self._operations().unionByName(operations),
                self._events().unionByName(events.select(*transition.RETAINED_EVENTS.names)),
            )

    def drain(self) -> None:
        """Let event time run on until no operation waits."""
        entry = self._checkpoint_log.entry
        if entry.pending:
            last = self._operations().agg(F.max("deadline_ms")).first()
            assert last is not None
            self._advance(replace(entry, closed_ms=last[0]), self._operations(), self._events())

    def _with_row_numbers(self, batch: DataFrame) -> DataFrame:
        """Put the number of the row into the place of rows of text files."""
        text = [name for name, source in self._sources.items() if source.format == JSON]
        row = F.monotonically_increasing_id().bitwiseAND(_ROW_OF_PARTITION)
        place = F.when(F.col("table").isin(text), F.col("place") + row)
        return batch.withColumn("place", F.coalesce(place, "place"))

    def _raise_if_rejected(self, rows: DataFrame, stats: Mapping[str, RowStats]) -> None:
        if self._strict and any(stats[f"rejected_{table.name}"].rows for table in TABLES):
            bad = rows.where(F.col("reason").isNotNull()).first()
            assert bad is not None
            raise RejectedRows(f"{bad.file or bad.table}, {bad.reason}")

    def _closed_ms(self, newest_ms: Mapping[str, int]) -> int:
        """The last instant that is over, when the sources have come this far."""
        if len(newest_ms) < len(TABLES):  # one has shown nothing yet
            return INT64_MIN
        return max(INT64_MIN, min(newest_ms.values()) - self._watermark_ms - 1)

    def _write_late_and_rejected(self, rows: DataFrame, stats: Mapping[str, RowStats]) -> None:
        """Write the rows that are not worked at, with why."""
        for table in TABLES:
            late = _good(rows, table.name).where(~_in_time())
            count = stats[f"late_{table.name}"].rows
            late = late.select(*table.schema.names, "closed_ms")
            self._write_output(late, count, f"{LATE}/{table.name}")
        rejected = rows.where(F.col("reason").isNotNull()).select(*REJECTED_SCHEMA.names)
        count = sum(stats[f"rejected_{table.name}"].rows for table in TABLES)
        self._write_output(rejected, count, REJECTED)

    def _advance(self, after: CheckpointEntry, operations: DataFrame, events: DataFrame) -> None:
        """Close the instants up to `after.closed_ms`; write what comes of it, and commit."""
        operations = transition.with_closed_ms(operations, after.closed_ms)
        events = transition.with_closed_ms(events, after.closed_ms)
        kept = transition.retained_events(events)
        advanced = transition.advance(operations, transition.closed_events(events))
        with _cached(advanced) as rows:
            count = _count(rows, kept)
            ended = {name: count.get(name, 0) for name in ("completed", "expired")}
            self._write_output(transition.outcomes(rows), sum(ended.values()), "outcomes")
            state = self._checkpoint_log.next_state_path()
            pending, kept_events = count.get("waiting", 0), count.get("kept", 0)
            _write(transition.still_pending(rows), pending, f"{state}/operations")
            _write(kept, kept_events, f"{state}/events")
        entry = replace(
            after,
            state=state if pending or kept_events else "",
            pending=pending,
            kept=kept_events,
            counts=_add_counts(after.counts, ended),
        )
        self._checkpoint_log.commit(entry)
        if self._on_commit is not None:
            self._on_commit(self._checkpoint_log.entry)

    def _write_output(self, rows: DataFrame, count: int, output: str) -> None:
        _write(rows, count, f"{self._checkpoint_log.staging_path()}/{output}")

    def _operations(self) -> DataFrame:
        entry = self._checkpoint_log.entry
        return self._state(
            f"{entry.state}/operations", entry.pending, transition.PENDING_OPERATIONS
        )

    def _events(self) -> DataFrame:
        entry = self._checkpoint_log.entry
        return self._state(f"{entry.state}/events", entry.kept, transition.RETAINED_EVENTS)

    def _state(self, path: str, count: int, schema: StructType) -> DataFrame:
        if not count:
            return local_table(self._spark, schema)
        return self._spark.read.schema(schema).parquet(path)


@contextmanager
def _cached(rows: DataFrame) -> Iterator[DataFrame]:
    """Rows that are used more than once, computed once."""
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _good(rows: DataFrame, table: str) -> DataFrame:
    return rows.where((F.col("table") == table) & F.col("reason").isNull())


def _in_time() -> Column:
    return F.col("time_ms") > F.col("closed_ms")


def _row_stats(rows: DataFrame) -> dict[str, RowStats]:
    """All numbers that are needed before work begins, in one job."""
    fate = F.when(F.col("reason").isNotNull(), "rejected_").otherwise(
        F.when(_in_time(), "").otherwise("late_")
    )
    found = rows.groupBy(F.concat(fate, "table")).agg(F.count("*"), F.max("time_ms")).collect()
    stats = {row[0]: RowStats(row[1], row[2]) for row in found}
    names = (f"{kind}{table.name}" for table in TABLES for kind in ("", "late_", "rejected_"))
    return {name: stats.get(name, RowStats(0, None)) for name in names}


def _newest(before: Mapping[str, int], stats: Mapping[str, RowStats]) -> dict[str, int]:
    """The latest time that each source has shown; late rows are never that."""
    newest = dict(before)
    for table in TABLES:
        time_ms = stats[table.name].newest_ms
        if time_ms is not None:
            newest[table.name] = max(time_ms, newest.get(table.name, INT64_MIN))
    return newest


def _add_counts(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: count + more.get(name, 0) for name, count in counts.items()}


def _count(advanced: DataFrame, kept: DataFrame) -> dict[str, int]:
    """Rows by outcome, those that go on waiting, and events kept; in one job."""
    sorts = advanced.select(F.coalesce("outcome", F.lit("waiting")).alias("sort")).unionAll(
        kept.select(F.lit("kept").alias("sort"))
    )
    return {row[0]: row[1] for row in sorts.groupBy("sort").count().collect()}


def _write(rows: DataFrame, count: int, path: str) -> None:
    if count:
        rows.coalesce(-(-count // _ROWS_A_FILE)).write.mode("overwrite").parquet(path)
