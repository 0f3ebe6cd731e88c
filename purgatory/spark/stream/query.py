"""The streaming query: operations, events and extensions in, each outcome out exactly once.

Rows are checked in Java, packed for the shards (`packing`), and applied to their states, kept in
RocksDB, by Python workers (`processor`, `shard`). `foreachBatch` writes the `output`.

Event time is closed up to the newest time that all sources have reached, less the watermark. Rows
of later instants wait, so input out of order by less than the watermark gives the outcomes of
ordered input. A row of a closed instant is late: counted, and written to `_late`.

`Stream` belongs to the creating thread. Any thread or signal handler may call `stop`; any thread
may read `entry`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark import StorageLevel
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from _purgatory_cpython.threads import InterruptibleEvent
from purgatory.spark.errors import RejectedRows, SparkError, error_message, wrapping_spark_errors
from purgatory.spark.session import temporary_settings
from purgatory.spark.stream import processor
from purgatory.spark.stream.checkpoint import Checkpoint
from purgatory.spark.stream.entry import CheckpointEntry
from purgatory.spark.stream.event_time import IdleClock
from purgatory.spark.stream.file_types import check_types, files_of_batch
from purgatory.spark.stream.output import LATE, OUTCOMES, REJECTED, TopicOutput
from purgatory.spark.stream.packing import CLOSE, PACKED, SHARD, Packer
from purgatory.spark.stream.processor import OUTPUT, ShardProcessor
from purgatory.spark.stream.sources import Source, control_rows
from purgatory.spark.tables import schema
from purgatory.spark.tables.line_parser import JSON
from purgatory.spark.tables.row_checks import EVENTS_TABLE, EXTENSIONS_TABLE, OPERATIONS_TABLE

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


DEFAULT_WATERMARK_MS: Final = 600_000

_TABLES: Final = (OPERATIONS_TABLE, EVENTS_TABLE, EXTENSIONS_TABLE)
_POLL_S: Final = 0.1  # how often to check whether the query still runs
_LABELS_PER_SHARD: Final = 64  # numbers to try for each shard
_STATE_STORE: Final = "spark.sql.streaming.stateStore"
_ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Stream:
    """A run of a stream on its checkpoint.

    `out` and `checkpoint`: directories, made if missing; `CheckpointMismatch` if they do not fit.
    `topic` gets the outcomes, too, at least once. `extensions`: an optional third source. `name`:
    of Spark's query, unique in a session. `watermark_ms`: by how much input may be out of order.
    `idle_seconds`: after so long without a row, a source's event time advances with the clock;
    None: never. `shards`: partitions of the state, by default one a core; fixed by the first run.
    `strict`: a rejected row ends the run with `RejectedRows`, and its micro-batch is not committed.
    `on_commit`: called after each commit, in the thread that committed. `stopping`: an event that
    also stops the stream. Bad arguments raise ValueError or TypeError before a checkpoint is made.
    """

    def __init__(
        self,
        spark: SparkSession,
        operations: Source,
        events: Source,
        *,
        extensions: Source | None = None,
        out: str,
        topic: TopicOutput | None = None,
        checkpoint: str,
        name: str = "purgatory",
        watermark_ms: int = DEFAULT_WATERMARK_MS,
        idle_seconds: float | None = None,
        shards: int | None = None,
        strict: bool = False,
        on_commit: Callable[[CheckpointEntry], object] | None = None,
        stopping: threading.Event | None = None,
    ) -> None:
        _check_integer("watermark_ms", watermark_ms, 0)
        if shards is not None:
            _check_integer("shards", shards, 1)
        _check_arguments(name, idle_seconds, on_commit)
        self.name = name
        self._spark = spark
        self._sources = {"operations": operations, "events": events}
        if extensions is not None:
            self._sources["extensions"] = extensions
        self._watermark_ms = watermark_ms
        self._strict = strict
        self._on_commit = on_commit
        self._topic = topic
        if topic is not None:
            topic.check(spark)
        _add_package_to_workers(spark)
        rows = _rows_of(spark, self._sources)
        names = {name: source.name for name, source in self._sources.items()}
        self._checkpoint = Checkpoint(spark, checkpoint, out, names)
        self._checkpoint.begin(self._choose_shards(shards))
        self._packed = self._pack(rows)
        self._idle = IdleClock(self._checkpoint.control, tuple(self._sources), idle_seconds)
        self._stopping = stopping or InterruptibleEvent()
        self._failure: BaseException | None = None  # of a batch, as Spark keeps only its text

    @property
    def entry(self) -> CheckpointEntry:
        """Where the stream stands; see `CheckpointEntry`."""
        return self._checkpoint.entry

    def run(
        self, *, once: bool = False, until_end: bool = False, trigger_seconds: float = 1.0
    ) -> CheckpointEntry:
        """Run the stream until `stop`; return where the stream stands then.

        `once`: process the rows that exist; operations of open instants stay pending. `until_end`:
        then also advance event time to the last deadline, so that every operation ends. Otherwise
        look for new rows every `trigger_seconds`. Raises the error of a failed micro-batch, which
        the next run repeats.
        """
        if not (once or until_end):
            interval = f"{round(trigger_seconds * 1000)} milliseconds"
            self._run_query({"processingTime": interval})
            return self.entry
        self._run_query({"availableNow": True})
        while until_end and self.entry.pending and not self._stopping.is_set():
            last_ms = self.entry.last_deadline_ms
            self._checkpoint.control.add([{"table": CLOSE, "time_ms": last_ms}])
            self._run_query({"availableNow": True})
        return self.entry

    def stop(self) -> None:
        """Make `run` return soon; the next run repeats the current micro-batch."""
        self._stopping.set()

    def _run_query(self, trigger: Mapping[str, Any]) -> None:
        processor = ShardProcessor(
            tuple(self._sources), self._watermark_ms, self._checkpoint.shards[0]
        )
        outputs = self._packed.groupBy(SHARD).transformWithStateInPandas(
            processor, OUTPUT, outputMode="append", timeMode="None"
        )
        writer = (
            outputs.writeStream.queryName(self.name)
            .outputMode("append")
            .foreachBatch(self._run_micro_batch)
            .option("checkpointLocation", self._checkpoint.spark_path)
            .trigger(**trigger)
        )
        with temporary_settings(self._spark, rocks_db_settings(len(self._checkpoint.shards))):
            query = writer.start()
        self._wait(query)

    def _choose_shards(self, wanted: int | None) -> tuple[int, ...]:
        found = self._checkpoint.shards
        if found:
            if wanted not in {None, len(found)}:
                raise SparkError(
                    f"{self._checkpoint.path}: has {len(found)} shards, not {wanted}; their number "
                    "is that of the first run. For another one, end it with --until-end, and begin "
                    "anew with another checkpoint and output"
                )
            return found
        count = wanted or self._spark.sparkContext.defaultParallelism
        return _numbers_by_partition(self._spark, count)

    def _pack(self, rows: DataFrame) -> DataFrame:
        numbers = F.array(*map(F.lit, self._checkpoint.shards))
        place = F.pmod(F.xxhash64("op_id"), F.lit(len(self._checkpoint.shards)))
        rows = rows.unionByName(control_rows(self._checkpoint.control, self._spark))
        numbered = [name for name, source in self._sources.items() if source.format == JSON]
        packer = Packer(self._checkpoint.shards, numbered)
        shard = F.element_at(numbers, (place + 1).cast("int")).cast("bigint")
        return rows.withColumn(SHARD, shard).mapInArrow(packer, PACKED)

    def _wait(self, query: StreamingQuery) -> None:
        # Here and not in Java: Ctrl-C would leave the answer of a call to Java unread.
        try:
            while query.isActive and not self._stopping.wait(_POLL_S):
                self._idle.tick(self.entry, time.monotonic())
        finally:
            if query.isActive:
                query.stop()
        try:
            # `isActive` turns false before the query has ended.
            query.awaitTermination()
        except StreamingQueryException as error:
            if not self._stopping.is_set():
                raise self._failure or SparkError(
                    f"the stream ended: {error_message(error)}"
                ) from None

    def _run_micro_batch(self, batch: DataFrame, number: int) -> None:
        try:
            with wrapping_spark_errors(f"micro-batch {number}"), _cached(batch) as rows:
                self._publish(rows, number)
        except BaseException as error:  # noqa: BLE001 - `run` raises it
            self._failure = error
            # Spark's search in a long trace overflows Java's stack.
            raise SparkError(f"micro-batch {number} has failed") from None

    def _publish(self, rows: DataFrame, number: int) -> None:
        """Write and commit a micro-batch. Computing `rows` advances the state."""
        self._check_files()
        facts = [json.loads(row[0]) for row in _of(rows, processor.FACTS).select("row").collect()]
        if number <= self.entry.batch:
            return  # published, but not noted by Spark
        self._checkpoint.check_run()
        written = _sums(facts)
        self._raise_if_rejected(rows, written)
        for output, count in written.items():
            chosen = _output_rows(rows, output)
            self._checkpoint.output.stage(chosen, count, _DIRECTORIES[output])
        if self._topic is not None and written.get(processor.OUTCOMES):
            self._topic.send(_output_rows(rows, processor.OUTCOMES))
        self._checkpoint.output.publish(number, [_DIRECTORIES[output] for output in written])
        entry = (
            CheckpointEntry.of_shards(number, facts) if facts else replace(self.entry, batch=number)
        )
        self._checkpoint.commit(entry)
        if self._on_commit is not None:
            self._on_commit(entry)

    def _check_files(self) -> None:
        (query,) = (one for one in self._spark.streams.active if one.name == self.name)
        for files, columns in files_of_batch(query):
            check_types(self._spark, files, columns)

    def _raise_if_rejected(self, rows: DataFrame, written: Mapping[str, int]) -> None:
        if self._strict and written.get("rejected"):
            bad = _of(rows, "rejected").select("row").first()
            assert bad is not None
            row = json.loads(bad[0])
            raise RejectedRows(f"{row['file'] or row['table']}, {row['reason']}")


# Where the outputs of `processor` go, and the columns of JSON outputs.
_DIRECTORIES: Final = {
    processor.OUTCOMES: OUTCOMES,
    "rejected": REJECTED,
    **{f"late_{table.name}": f"{LATE}/{table.name}" for table in _TABLES},
}
_JSON_ROWS: Final = {
    "rejected": schema.REJECTED,
    **{
        f"late_{table.name}": StructType([*table.schema, StructField("closed_ms", LongType())])
        for table in _TABLES
    },
}


def _check_integer(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}; expected an integer")
    if value < least:
        raise ValueError(f"{name} is {value!r}; expected {least} or more")


def _check_arguments(name: object, idle_seconds: object, on_commit: object) -> None:
    if not isinstance(name, str) or not name:
        raise TypeError(f"name is {name!r}; expected a text")
    if on_commit is not None and not callable(on_commit):
        raise TypeError(f"on_commit is {on_commit!r}; expected a function or None")
    if idle_seconds is None:
        return
    if not isinstance(idle_seconds, int | float) or isinstance(idle_seconds, bool):
        raise TypeError(f"idle_seconds is {idle_seconds!r}; expected a number or None")
    if not 0 <= idle_seconds < float("inf"):
        raise ValueError(f"idle_seconds is {idle_seconds!r}; expected a finite number, 0 or more")


def _add_package_to_workers(spark: SparkSession) -> None:
    """Let Spark's state worker on the driver import this package, perhaps from a zip.

    The driver's worker knows only PYTHONPATH.
    """
    package = str(Path(__file__).absolute().parents[3])
    environment = spark.sparkContext.environment
    paths = environment.get("PYTHONPATH", "").split(os.pathsep)
    if package not in paths:
        environment["PYTHONPATH"] = os.pathsep.join([*filter(None, paths), package])


def _rows_of(spark: SparkSession, sources: Mapping[str, Source]) -> DataFrame:
    tables = [table for table in _TABLES if table.name in sources]
    return reduce(
        DataFrame.unionByName, (sources[table.name].rows(spark, table) for table in tables)
    )


def _numbers_by_partition(spark: SparkSession, count: int) -> tuple[int, ...]:
    """Return a number for each partition, by Spark's hash."""
    tried = spark.range(_LABELS_PER_SHARD * count)
    partition = F.pmod(F.hash("id"), F.lit(count)).alias("partition")
    found = tried.groupBy(partition).agg(F.min("id").alias("number")).collect()
    numbers = {row.partition: row.number for row in found}
    return tuple(numbers[partition] for partition in range(count))


def rocks_db_settings(shards: int) -> dict[str, str]:
    """Return the settings that a stateful query reads at its start."""
    return {
        "spark.sql.shuffle.partitions": str(shards),
        f"{_STATE_STORE}.providerClass": _ROCKS_DB,
        f"{_STATE_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
        # Spark would measure the Arrow batch anew with each row, a quarter of the work.
        "spark.sql.execution.arrow.maxBytesPerBatch": "2147483647",
    }


@contextmanager
def _cached(rows: DataFrame) -> Iterator[DataFrame]:
    cached = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield cached
    finally:
        cached.unpersist()


def _of(rows: DataFrame, output: str) -> DataFrame:
    return rows.where(F.col("output") == output)


def _sums(facts: list[dict[str, Any]]) -> dict[str, int]:
    names = {name for one in facts for name in one["written"]}
    sums = {name: sum(one["written"].get(name, 0) for one in facts) for name in sorted(names)}
    return {name: count for name, count in sums.items() if count}


def _output_rows(rows: DataFrame, output: str) -> DataFrame:
    chosen = _of(rows, output)
    if output == processor.OUTCOMES:
        return chosen.select(*schema.OUTCOMES.names)
    return chosen.select(F.from_json("row", _JSON_ROWS[output]).alias("row")).select("row.*")
