"""The work of one micro-batch of a stream: rows in, outcomes, late and rejected rows out, state on.

Made by `stream.Stream`. One thread at a time: Spark's, which calls `take` batch by batch, then the
one that waited for its end, for `run_out`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from purgatory.spark import step
from purgatory.spark.errors import RejectedRows
from purgatory.spark.ledger import LATE, REJECTED, Entry, Ledger
from purgatory.spark.schema import TABLE_OF_EVENTS, TABLE_OF_OPERATIONS, Table, check
from purgatory.trace.rows import INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from purgatory.spark.sources import Source

TABLES: Final = (TABLE_OF_OPERATIONS, TABLE_OF_EVENTS)

_TIME_OF: Final = {"operations": "submitted_ms", "events": "at_ms"}
# Rows a file of output or state; more would be one task's work for long.
_ROWS_A_FILE: Final = 500_000
_ROW: Final = "_row"
# monotonically_increasing_id counts the rows of a partition in its lower bits.
_ROW_OF_PARTITION: Final = (1 << 33) - 1


class Input(NamedTuple):
    """The rows of one table in a micro-batch: good ones in time, good ones late, and rejected."""

    in_time: DataFrame
    late: DataFrame
    rejected: DataFrame


class Fact(NamedTuple):
    """How many rows of a sort a micro-batch has, and the latest time in them, if any."""

    rows: int
    newest_ms: int | None


class Batches:
    """Does micro-batches of rows of `sources`, each as one commit of the ledger."""

    def __init__(
        self,
        spark: SparkSession,
        ledger: Ledger,
        sources: Mapping[str, Source],
        *,
        watermark_ms: int,
        strict: bool,
        on_commit: Callable[[Entry], object] | None,
    ) -> None:
        self._spark = spark
        self._ledger = ledger
        self._sources = sources
        self._watermark_ms = watermark_ms
        self._strict = strict
        self._on_commit = on_commit

    def take(self, batch: DataFrame, number: int) -> None:
        """Do one micro-batch: a struct column for each table, of which a row has one.

        `RejectedRows` when there are any and `strict` wants none.
        """
        entry = self._ledger.entry
        if number <= entry.batch:
            return  # committed by us, but the process was ended before Spark had noted it
        row = F.monotonically_increasing_id().bitwiseAND(_ROW_OF_PARTITION)
        with _kept_at_hand(batch.withColumn(_ROW, row)) as rows:
            inputs = {table.name: self._input(rows, table) for table in TABLES}
            facts = _facts(inputs)
            self._refuse_rejected(inputs, facts)
            newest_ms = _newest(entry.newest_ms, facts)
            after = replace(
                entry,
                batch=number,
                newest_ms=newest_ms,
                closed_ms=max(entry.closed_ms, self._closed_ms(newest_ms)),
                counts=_added(entry.counts, {name: fact.rows for name, fact in facts.items()}),
            )
            self._put_aside(inputs, facts)
            operations = self._operations().unionByName(step.pending(inputs["operations"].in_time))
            self._advance(after, operations, self._events().unionByName(inputs["events"].in_time))

    def run_out(self) -> None:
        """Let event time run on until no operation waits."""
        entry = self._ledger.entry
        if entry.pending:
            last = self._operations().agg(F.max("deadline_ms")).first()
            assert last is not None
            self._advance(replace(entry, closed_ms=last[0]), self._operations(), self._events())

    def _input(self, rows: DataFrame, table: Table) -> Input:
        own = rows.where(F.col(table.name).isNotNull()).select(f"{table.name}.*", _ROW)
        found = self._sources[table.name].find(table, own, F.col(_ROW))
        good, rejected = check(table, found)
        late = F.col(_TIME_OF[table.name]) <= F.lit(self._ledger.entry.closed_ms)
        return Input(good.where(~late), good.where(late), rejected)

    def _refuse_rejected(self, inputs: Mapping[str, Input], facts: Mapping[str, Fact]) -> None:
        for name, rows in inputs.items():
            if self._strict and facts[f"rejected_{name}"].rows:
                bad = rows.rejected.first()
                assert bad is not None
                raise RejectedRows(f"{bad.file or name}: {bad.reason}: {bad.row}")

    def _closed_ms(self, newest_ms: Mapping[str, int]) -> int:
        """The last instant that is over, when the sources have come this far."""
        if len(newest_ms) < len(TABLES):  # one has shown nothing yet
            return INT64_MIN
        return max(INT64_MIN, min(newest_ms.values()) - self._watermark_ms - 1)

    def _put_aside(self, inputs: Mapping[str, Input], facts: Mapping[str, Fact]) -> None:
        """Write the rows that are not worked at, with why."""
        over = F.lit(self._ledger.entry.closed_ms).alias("closed_ms")
        for name, rows in inputs.items():
            late = rows.late.select("*", over)
            self._write_output(late, facts[f"late_{name}"].rows, f"{LATE}/{name}")
        rejected = reduce(DataFrame.unionAll, (rows.rejected for rows in inputs.values()))
        count = sum(facts[f"rejected_{name}"].rows for name in inputs)
        self._write_output(rejected, count, REJECTED)

    def _advance(self, after: Entry, operations: DataFrame, events: DataFrame) -> None:
        """Close the instants up to `after.closed_ms`; write what comes of it, and commit."""
        is_over = F.col("at_ms") <= F.lit(after.closed_ms)
        kept = events.where(~is_over)
        advanced = step.advance(operations, events.where(is_over), after.closed_ms)
        with _kept_at_hand(advanced) as rows:
            count = _count(rows, kept)
            ended = {name: count.get(name, 0) for name in ("completed", "expired")}
            self._write_output(step.outcomes(rows), sum(ended.values()), "outcomes")
            state = self._ledger.next_state()
            pending, kept_events = count.get("waiting", 0), count.get("kept", 0)
            _write(step.waiting(rows), pending, f"{state}/operations")
            _write(kept, kept_events, f"{state}/events")
        entry = replace(
            after,
            state=state if pending or kept_events else "",
            pending=pending,
            kept=kept_events,
            counts=_added(after.counts, ended),
        )
        self._ledger.commit(entry)
        if self._on_commit is not None:
            self._on_commit(self._ledger.entry)

    def _write_output(self, rows: DataFrame, count: int, output: str) -> None:
        _write(rows, count, f"{self._ledger.staging()}/{output}")

    def _operations(self) -> DataFrame:
        entry = self._ledger.entry
        return self._state(f"{entry.state}/operations", entry.pending, step.PENDING)

    def _events(self) -> DataFrame:
        entry = self._ledger.entry
        return self._state(f"{entry.state}/events", entry.kept, step.KEPT)

    def _state(self, path: str, count: int, schema: StructType) -> DataFrame:
        if not count:
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(path)


@contextmanager
def _kept_at_hand(rows: DataFrame) -> Iterator[DataFrame]:
    """Rows that are used more than once, computed once."""
    kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield kept
    finally:
        kept.unpersist()


def _facts(inputs: Mapping[str, Input]) -> dict[str, Fact]:
    """All numbers that are needed before work begins, in one job."""
    parts = [
        part
        for name, rows in inputs.items()
        for part in (
            _sort(rows.in_time, name, _TIME_OF[name]),
            _sort(rows.late, f"late_{name}", _TIME_OF[name]),
            _sort(rows.rejected, f"rejected_{name}", None),
        )
    ]
    found = reduce(DataFrame.unionAll, parts).groupBy("sort").agg(F.count("*"), F.max("time"))
    facts = {row[0]: Fact(row[1], row[2]) for row in found.collect()}
    names = (f"{kind}{name}" for name in inputs for kind in ("", "late_", "rejected_"))
    return {name: facts.get(name, Fact(0, None)) for name in names}


def _sort(rows: DataFrame, name: str, time: str | None) -> DataFrame:
    time_ms = F.lit(None).cast("bigint") if time is None else F.col(time)
    return rows.select(F.lit(name).alias("sort"), time_ms.alias("time"))


def _newest(before: Mapping[str, int], facts: Mapping[str, Fact]) -> dict[str, int]:
    """The latest time that each source has shown; late rows are never that."""
    newest = dict(before)
    for table in TABLES:
        time_ms = facts[table.name].newest_ms
        if time_ms is not None:
            newest[table.name] = max(time_ms, newest.get(table.name, INT64_MIN))
    return newest


def _added(counts: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
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
