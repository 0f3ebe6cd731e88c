"""The distributed purgatory: operations and events as streams in, each outcome out once.

Structured Streaming cuts the input into micro-batches and remembers which rows belong to which
(`foreachBatch`). Each batch is one `transition` of event time over the operations that wait, which
are a Parquet table in the checkpoint; the `checkpoint` makes state and output of a batch one
commit. No Python runs on rows, and executors hold no state: a stream goes on with more or fewer of
them, and with any number of shuffle partitions.

Event time is over up to `closed_ms`: the smaller of the latest times of both sources, less the
watermark, less the instant itself. What has an outcome by then leaves; rows of later instants are
kept until theirs is over, so input that is out of order by less than the watermark gives the answer
of input in order. A row of an instant that is over is late: it is counted and written to `late`.

`Stream` belongs to the thread that made it; `stop` may be called from any, and from a signal
handler. `entry` may be read from any thread.
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

_POLL_S: Final = 0.1  # between two looks whether the query still runs


class Stream:
    """One run of a stream on its checkpoint.

    `out` and `checkpoint` are directories, made when they are not there; a checkpoint that does
    not fit is refused with `CheckpointMismatch`. `name`: of Spark's query, of which a session runs
    one at a time. `watermark_ms`: by how much input may be out of order. `strict`: a rejected row
    ends the run with `RejectedRows`, and its batch is not done.
    `on_commit` is told of each commit, in the thread that made it.
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
        self._failure: BaseException | None = None  # of a batch; Spark passes on its text only

    @property
    def entry(self) -> CheckpointEntry:
        """Where the stream stands."""
        return self._checkpoint_log.entry

    def run(self, *, once: bool = False, trigger_seconds: float = 1.0) -> CheckpointEntry:
        """Work at the streams until `stop`; return where they stand then.

        `once`: take what is there, let event time run on until every operation has its outcome,
        and return. Otherwise look for new rows every `trigger_seconds`. Raises what went wrong in
        a batch; earlier batches are done, and the next run goes on after them.
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
        """Make `run` return soon. A batch in work is given up; the next run does it again."""
        self._stopping.set()

    def _wait(self, query: StreamingQuery) -> None:
        # Not in Java: Ctrl-C there would leave the connection with an answer that nobody reads.
        try:
            while query.isActive and not self._stopping.wait(_POLL_S):
                pass
        finally:
            if query.isActive:
                query.stop()
        try:
            # It says that it has ended somewhat before it has, and must not lose its session then.
            query.awaitTermination()
        except StreamingQueryException as error:
            if not self._stopping.is_set():
                raise self._failure or SparkError(
                    f"the stream ended: {error_message(error)}"
                ) from None

    def _run_micro_batch(self, batch: DataFrame, number: int) -> None:
        """Do one micro-batch. Called by Spark, in a thread of its own."""
        try:
            with wrapping_spark_errors(f"micro-batch {number}"):
                self._runner.run_batch(batch, number)
        except BaseException as error:
            self._failure = error
            raise


def _union_of_sources(spark: SparkSession, sources: dict[str, Source]) -> DataFrame:
    """Both sources as one stream, so that a batch is of both.

    Two queries would have batches that nothing ties to each other.
    """
    operations, events = (sources[table.name].rows(spark, table) for table in TABLES)
    return operations.unionByName(events)
