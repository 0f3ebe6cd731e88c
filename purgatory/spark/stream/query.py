"""The streaming query: operations and events in, each outcome out exactly once.

Structured Streaming splits the input into micro-batches and records which rows belong to which
(`foreachBatch`). Each micro-batch is one `transition` of event time over the pending operations,
which are a Parquet table in the checkpoint (`state`). The `checkpoint` makes state and output of a
micro-batch one commit. No Python runs on rows, and executors hold no state: a stream continues
with more or fewer of them, and with any number of shuffle partitions.

Event time is closed up to `closed_ms` (`watermark`). Operations with an outcome by then are written
out; events of later instants are retained until theirs is closed, so input that is out of order by
less than the watermark gives the outcomes of ordered input. A row of a closed instant is late: it
is counted and written to `late`.

`Stream` belongs to the thread that made it. Any thread may call `stop`, and so may a signal
handler; any thread may read `entry`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.errors import StreamingQueryException

from purgatory.spark.errors import SparkError, error_message, wrapping_spark_errors
from purgatory.spark.stream.checkpoint import CheckpointEntry, CheckpointLog
from purgatory.spark.stream.micro_batch import TABLES, MicroBatchRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from purgatory.spark.stream.sources import Source

DEFAULT_WATERMARK_MS: Final = 600_000

_POLL_S: Final = 0.1  # how often to check whether the query still runs


class Stream:
    """One run of a stream on its checkpoint.

    `out` and `checkpoint` are directories, created if they do not exist; `CheckpointMismatch` if
    they do not fit. `name`: the name of Spark's query; a session runs one query of a name at a
    time. `watermark_ms`: by how much input may be out of order. `strict`: a rejected row ends the
    run with `RejectedRows`, and its micro-batch is not committed. `on_commit` is called after each
    commit, in the thread that committed.
    """

    def __init__(
        self,
        spark: SparkSession,
        operations: Source,
        events: Source,
        *,
        out: str,
        checkpoint: str,
        name: str = "purgatory",
        watermark_ms: int = DEFAULT_WATERMARK_MS,
        strict: bool = False,
        on_commit: Callable[[CheckpointEntry], object] | None = None,
    ) -> None:
        if watermark_ms < 0:
            raise ValueError(f"watermark_ms is {watermark_ms!r}; expected 0 or more")
        self.name = name
        sources = {"operations": operations, "events": events}
        self._rows = _union_of_sources(spark, sources)
        names = {name: source.name for name, source in sources.items()}
        self._checkpoint_log = CheckpointLog(spark, checkpoint, out, names)
        self._runner = MicroBatchRunner(
            spark,
            self._checkpoint_log,
            sources,
            watermark_ms=watermark_ms,
            strict=strict,
            on_commit=on_commit,
        )
        self._stopping = threading.Event()
        self._failure: BaseException | None = None  # of a batch, as Spark keeps only its text

    @property
    def entry(self) -> CheckpointEntry:
        """Where the stream stands; see `CheckpointEntry`."""
        return self._checkpoint_log.entry

    def run(self, *, once: bool = False, trigger_seconds: float = 1.0) -> CheckpointEntry:
        """Run the stream until `stop`; return where it stands then.

        `once`: process the rows that exist, advance event time until every operation has its
        outcome, and return. Otherwise look for new rows every `trigger_seconds`. Raises the error
        of a failed micro-batch; earlier ones are committed, and the next run continues after them.
        """
        writer = (
            self._rows.writeStream.queryName(self.name)
            .foreachBatch(self._run_micro_batch)
            .option("checkpointLocation", self._checkpoint_log.spark_path)
        )
        interval = f"{round(trigger_seconds * 1000)} milliseconds"
        writer = (
            writer.trigger(availableNow=True) if once else writer.trigger(processingTime=interval)
        )
        self._wait(writer.start())
        if once and not self._stopping.is_set():
            self._runner.drain()
        return self.entry

    def stop(self) -> None:
        """Make `run` return soon; the next run repeats the current micro-batch."""
        self._stopping.set()

    def _wait(self, query: StreamingQuery) -> None:
        # Wait here and not in Java: Ctrl-C during a call to Java would leave its answer unread on
        # the connection.
        try:
            while query.isActive and not self._stopping.wait(_POLL_S):
                pass
        finally:
            if query.isActive:
                query.stop()
        try:
            # `isActive` turns false before the query has ended; its session must live until then.
            query.awaitTermination()
        except StreamingQueryException as error:
            if not self._stopping.is_set():
                raise self._failure or SparkError(
                    f"the stream ended: {error_message(error)}"
                ) from None

    def _run_micro_batch(self, batch: DataFrame, number: int) -> None:
        """Run one micro-batch. Spark calls this in a thread of its own."""
        try:
            with wrapping_spark_errors(f"micro-batch {number}"):
                self._runner.run_batch(batch, number)
        except BaseException as error:
            self._failure = error
            raise


def _union_of_sources(spark: SparkSession, sources: dict[str, Source]) -> DataFrame:
    """Combine both sources into one stream with common micro-batches.

    Two queries would have micro-batches that are independent of each other.
    """
    operations, events = (sources[table.name].rows(spark, table) for table in TABLES)
    return operations.unionByName(events)
