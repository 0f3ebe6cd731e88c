"""Runs the micro-batches of a stream: rows in, outcomes and a new state out.

Late and rejected rows are written apart. Made by `query.Stream`. One thread at a time: Spark's
thread calls `run_batch` for each micro-batch, then the thread in `Stream.run` calls `drain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from purgatory.spark.errors import RejectedRows, UnsupportedRows
from purgatory.spark.stream import state, transition
from purgatory.spark.stream.output import LATE, OUTCOMES, REJECTED
from purgatory.spark.stream.parquet_writer import write_parquet
from purgatory.spark.stream.sources import JSON
from purgatory.spark.stream.watermark import (
    compute_closed_ms,
    is_late,
    newest_times,
    with_closed_ms,
)
from purgatory.spark.tables.row_checks import EVENTS_TABLE, OPERATIONS_TABLE
from purgatory.spark.tables.schema import REJECTED as REJECTED_SCHEMA

if TYPE_CHECKING:
    from purgatory.spark.stream.checkpoint import CheckpointEntry, CheckpointLog
    from purgatory.spark.stream.sources import Source

TABLES: Final = (OPERATIONS_TABLE, EVENTS_TABLE)

# Columns of events that only a batch takes into account; a stream refuses values in them.
_UNSUPPORTED: Final = ("hold_ms", "failed")

# monotonically_increasing_id counts the rows of a partition in its lower bits.
_ROW_OF_PARTITION: Final = (1 << 33) - 1


class RowStats(NamedTuple):
    """The number and the newest time of rows of one table and fate."""

    rows: int
    newest_ms: int | None


class MicroBatchRunner:
    """Runs micro-batches of rows of `sources`, each as one commit of the checkpoint."""

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
        """Run one micro-batch of rows, as `sources.ROWS`, and commit it.

        Raises `RejectedRows` if `strict` and a row breaks a rule, and `UnsupportedRows`.
        """
        entry = self._checkpoint_log.entry
        if number <= entry.batch:
            return  # committed, but the process ended before Spark had noted it
        with _cached(with_closed_ms(self._with_row_numbers(batch), entry.closed_ms)) as rows:
            stats = _row_stats(rows)
            self._raise_if_rejected(rows, stats)
            _raise_if_unsupported(rows, stats)
            self._write_late_and_rejected(rows, stats)
            operations = transition.pending_operations(_rows_in_time(rows, "operations"))
            events = _rows_in_time(rows, "events").select(*state.RETAINED_EVENTS.names)
            self._advance(
                self._next_entry(number, stats),
                state.read_pending_operations(self._spark, entry).unionByName(operations),
                state.read_retained_events(self._spark, entry).unionByName(events),
            )

    def drain(self) -> None:
        """Close all instants up to the last deadline, without new rows."""
        entry = self._checkpoint_log.entry
        if entry.pending:
            operations = state.read_pending_operations(self._spark, entry)
            events = state.read_retained_events(self._spark, entry)
            last = operations.agg(F.max("deadline_ms")).first()
            assert last is not None
            self._advance(replace(entry, closed_ms=last[0]), operations, events)

    def _next_entry(self, number: int, stats: Mapping[str, RowStats]) -> CheckpointEntry:
        """Return the last entry, advanced by the rows of a micro-batch."""
        entry = self._checkpoint_log.entry
        seen = {table.name: stats[table.name].newest_ms for table in TABLES}
        newest_ms = newest_times(entry.newest_ms, seen)
        reached_ms = compute_closed_ms(newest_ms, seen, self._watermark_ms)
        return replace(
            entry,
            batch=number,
            newest_ms=newest_ms,
            closed_ms=max(entry.closed_ms, reached_ms),
            counts=_add_counts(entry.counts, {fate: stat.rows for fate, stat in stats.items()}),
        )

    def _with_row_numbers(self, batch: DataFrame) -> DataFrame:
        """Add the row's number to the place of rows of text files."""
        text = [name for name, source in self._sources.items() if source.format == JSON]
        row = F.monotonically_increasing_id().bitwiseAND(_ROW_OF_PARTITION)
        place = F.when(F.col("table").isin(text), F.col("place") + row)
        return batch.withColumn("place", F.coalesce(place, "place"))

    def _raise_if_rejected(self, rows: DataFrame, stats: Mapping[str, RowStats]) -> None:
        if self._strict and any(stats[f"rejected_{table.name}"].rows for table in TABLES):
            bad = rows.where(F.col("reason").isNotNull()).first()
            assert bad is not None
            raise RejectedRows(f"{bad.file or bad.table}, {bad.reason}")

    def _write_late_and_rejected(self, rows: DataFrame, stats: Mapping[str, RowStats]) -> None:
        for table in TABLES:
            late = _good_rows(rows, table.name).where(is_late())
            count = stats[f"late_{table.name}"].rows
            names = [name for name in table.schema.names if name not in _UNSUPPORTED]
            late = late.select(*names, "closed_ms")
            self._write_output(late, count, f"{LATE}/{table.name}")
        rejected = rows.where(F.col("reason").isNotNull()).select(*REJECTED_SCHEMA.names)
        count = sum(stats[f"rejected_{table.name}"].rows for table in TABLES)
        self._write_output(rejected, count, REJECTED)

    def _advance(self, after: CheckpointEntry, operations: DataFrame, events: DataFrame) -> None:
        """Close the instants up to `after.closed_ms`, write outcomes and state, and commit."""
        operations = with_closed_ms(operations, after.closed_ms)
        events = with_closed_ms(events, after.closed_ms)
        retained = transition.retained_events(events)
        advanced = transition.advance(operations, transition.closed_events(events))
        with _cached(advanced) as rows:
            counts = _count_by_fate(rows, retained)
            ended = {name: counts.get(name, 0) for name in ("completed", "expired")}
            self._write_output(transition.outcomes(rows), sum(ended.values()), OUTCOMES)
            path = self._checkpoint_log.next_state_path()
            pending, kept = counts.get("pending", 0), counts.get("retained", 0)
            state.write_pending_operations(transition.still_pending(rows), pending, path)
            state.write_retained_events(retained, kept, path)
        self._commit(
            replace(
                after,
                state=path if pending or kept else "",
                pending=pending,
                kept=kept,
                counts=_add_counts(after.counts, ended),
            )
        )

    def _commit(self, entry: CheckpointEntry) -> None:
        self._checkpoint_log.commit(entry)
        if self._on_commit is not None:
            self._on_commit(self._checkpoint_log.entry)

    def _write_output(self, rows: DataFrame, count: int, output: str) -> None:
        write_parquet(rows, count, f"{self._checkpoint_log.staging_path()}/{output}")


@contextmanager
def _cached(rows: DataFrame) -> Iterator[DataFrame]:
    """Compute rows once that are used several times within the block."""
    cached = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield cached
    finally:
        cached.unpersist()


def _good_rows(rows: DataFrame, table: str) -> DataFrame:
    return rows.where((F.col("table") == table) & F.col("reason").isNull())


def _rows_in_time(rows: DataFrame, table: str) -> DataFrame:
    return _good_rows(rows, table).where(~is_late())


def _is_unsupported() -> Column:
    return F.col("reason").isNull() & ((F.col("hold_ms") > 0) | F.col("failed"))


def _raise_if_unsupported(rows: DataFrame, stats: Mapping[str, RowStats]) -> None:
    if stats["unsupported_events"].rows:
        row = rows.where(_is_unsupported()).first()
        assert row is not None
        raise UnsupportedRows(
            f"{row.file or row.table}, key {row.key!r} at {row.at_ms}: the event "
            f"{'has failed' if row.failed else 'is held'}, which a stream cannot resolve yet; "
            "`purgatory spark resolve` can"
        )


def _row_stats(rows: DataFrame) -> dict[str, RowStats]:
    """Count all rows by fate and table, in one job."""
    fate = (
        F.when(F.col("reason").isNotNull(), "rejected_")
        .when(_is_unsupported(), "unsupported_")
        .when(is_late(), "late_")
        .otherwise("")
    )
    found = rows.groupBy(F.concat(fate, "table")).agg(F.count("*"), F.max("time_ms")).collect()
    stats = {row[0]: RowStats(row[1], row[2]) for row in found}
    fates = ("", "late_", "rejected_", "unsupported_")
    names = (f"{fate}{table.name}" for table in TABLES for fate in fates)
    return {name: stats.get(name, RowStats(0, None)) for name in names}


def _add_counts(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    return {name: count + more.get(name, 0) for name, count in counts.items()}


def _count_by_fate(advanced: DataFrame, retained: DataFrame) -> dict[str, int]:
    """Count advanced operations by outcome, and retained events, in one job."""
    fates = advanced.select(F.coalesce("outcome", F.lit("pending")).alias("fate")).unionAll(
        retained.select(F.lit("retained").alias("fate"))
    )
    return {row[0]: row[1] for row in fates.groupBy("fate").count().collect()}
