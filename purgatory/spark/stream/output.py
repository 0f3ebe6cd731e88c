"""The output of a stream, written by micro-batches under names with their numbers.

    part-*.parquet     outcomes
    _late/TABLE/       rows of closed instants
    _rejected/         rows that break a rule, with the reason
    _staging/          files that are being written, which no reader looks at
    _stream.json       the stream that the output belongs to

A micro-batch writes its files into the staging directory, then moves them to final names. A
repeated micro-batch replaces its files. With Spark's file sink, readers would see the files of a
killed micro-batch.

One thread at a time, as for the checkpoint.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import FileSystem
from purgatory.spark.stream.sources import KAFKA, missing_connector
from purgatory.spark.tables import schema

OUTCOMES: Final = ""  # in the output directory itself
LATE: Final = "_late"  # with a directory for each table
REJECTED: Final = "_rejected"

STAGING: Final = "_staging"
_MARKER: Final = "_stream.json"
_PART: Final = "part-"
# A single task writes a file.
_MAX_ROWS_PER_FILE: Final = 500_000


class StreamOutput:
    """The output directory of one stream, `path`."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self.path = path

    def claim(self, stream_id: str) -> None:
        """Note which stream the output belongs to, unless noted already."""
        self._file_system.create(f"{self.path}/{_MARKER}", json.dumps({"stream": stream_id}))

    def check_owner(self, stream_id: str | None, checkpoint: str, *, is_new: bool) -> None:
        """Raise `CheckpointMismatch` if the output is another stream's.

        `stream_id` is None for an empty checkpoint; `is_new` if it has no output yet.
        """
        names = [name for name in self._file_system.names(self.path) if not name.startswith(".")]
        if _MARKER in names:
            marker = read_json_object(self._file_system, f"{self.path}/{_MARKER}")
            if marker.get("stream") != stream_id:
                raise CheckpointMismatch(
                    f"{self.path}: holds the output of another checkpoint than {checkpoint}; "
                    "the output would have outcomes twice"
                )
        elif names:
            raise CheckpointMismatch(f"{self.path}: not empty, and not the output of a stream")
        elif not is_new:
            raise CheckpointMismatch(
                f"{self.path}: missing or empty; expected the outcomes written so far"
            )

    def stage(self, rows: DataFrame, count: int, output: str) -> None:
        """Write `count` rows of a micro-batch into the staging directory.

        Raises `SparkError` if no file arrives.
        """
        if not count:
            return
        path = f"{self.path}/{STAGING}/{output or 'outcomes'}"
        files = -(-count // _MAX_ROWS_PER_FILE)
        rows.coalesce(files).write.mode("overwrite").parquet(path)
        if not self._staged(path):
            raise SparkError(f"{path}: {count} rows were written, but no file of them exists")

    def publish(self, batch: int, outputs: list[str]) -> None:
        """Move the staged files to their final names. Idempotent."""
        for output in outputs:
            staged = f"{self.path}/{STAGING}/{output or 'outcomes'}"
            for number, name in enumerate(self._staged(staged)):
                final = f"{self._directory(output)}/part-{batch:09}-{number:03}.parquet"
                self._file_system.move(f"{staged}/{name}", final)
        self._file_system.delete(f"{self.path}/{STAGING}")

    def outputs(self) -> list[str]:
        """Return the directories of the output."""
        late = [f"{LATE}/{name}" for name in self._file_system.names(f"{self.path}/{LATE}")]
        return [OUTCOMES, REJECTED, *late]

    def parts(self, output: str) -> dict[str, int]:
        """Return the published files of an output, in bytes."""
        sizes = self._file_system.sizes(self._directory(output))
        return {name: size for name, size in sizes.items() if name.startswith(_PART)}

    def delete_parts(self, output: str, first: int, last: int) -> None:
        """Delete the files of the micro-batches `first` to `last`."""
        for name in self.parts(output):
            if first <= batch_of(name) <= last:
                self._file_system.delete(f"{self._directory(output)}/{name}")

    def _directory(self, output: str) -> str:
        return f"{self.path}/{output}" if output else self.path

    def _staged(self, path: str) -> list[str]:
        return [name for name in self._file_system.names(path) if name.startswith(_PART)]


def batch_of(name: str) -> int:
    """Return the micro-batch of a published file."""
    return int(name.split("-")[1])


def read_json_object(file_system: FileSystem, path: str) -> dict[str, Any]:
    """Read a JSON object; `CheckpointMismatch` if damaged."""
    try:
        found = json.loads(file_system.read(path))
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CheckpointMismatch(f"{path}: damaged: not the JSON object that was written")
    return found


_SERVERS: Final = "kafka.bootstrap.servers"


@dataclass(frozen=True, slots=True)
class TopicOutput:
    """A Kafka topic for outcomes, beside the output directory.

    Spark's sink has no transactions: a repeated micro-batch sends its outcomes again, byte by byte.
    The key is the operation's id, the value a JSON object with the columns of an outcome.

    `servers`: host:port, separated by commas. `options` are those of Spark's sink. The session
    needs Spark's Kafka connector.
    """

    topic: str
    servers: str
    options: Mapping[str, str] = field(default_factory=dict)

    def check(self, spark: SparkSession) -> None:
        """Raise `SparkError` without a Kafka connector. Contacts no broker."""
        try:
            given = {_SERVERS: self.servers, "subscribe": self.topic}
            spark.read.format(KAFKA).options(**given).load()
        except AnalysisException as error:
            raise missing_connector(spark, f"kafka:{self.topic}") from error

    def send(self, outcomes: DataFrame) -> None:
        """Send outcomes; wait until the brokers acknowledge them."""
        messages = outcomes.select(
            F.col("op_id").alias("key"),
            F.to_json(F.struct(*schema.OUTCOMES.names), {"ignoreNullFields": "false"}).alias(
                "value"
            ),
        )
        given = {_SERVERS: self.servers, **self.options, "topic": self.topic}
        messages.write.format(KAFKA).mode("append").options(**given).save()
