"""The checkpoint of a stream: Spark's own, and a page of ours around it.

    stream.json       what the checkpoint belongs to: sources, output, shards, format
    runs/NUMBER       a file for each run; the last run may write
    progress/NUMBER   where the stream stood after a published micro-batch
    control/          rows that advance event time without input; see `event_time`
    spark/            Spark's checkpoint

Spark repeats a micro-batch that it had not noted as done, with the same rows, state and output.
Once a newer run has begun, a run taken for dead raises before it publishes.

One thread at a time: Spark's, which runs the micro-batches, then the thread in `Stream.run`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import FileSystem, file_system_for
from purgatory.spark.stream.entry import CheckpointEntry
from purgatory.spark.stream.event_time import ControlSource
from purgatory.spark.stream.output import StreamOutput, read_json_object

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FORMAT: Final = 2

_RecordT = TypeVar("_RecordT")

_SETTINGS: Final = "stream.json"
# Their `create` is no atomic step, so two runs could both believe to be the last.
_OBJECT_STORES: Final = ("s3", "s3a", "s3n", "gs", "wasb", "wasbs", "oss", "obs", "cosn", "swift")


class Checkpoint:
    """A checkpoint, opened by a run.

    `entry` is where the stream stands, `shards` the numbers of its shards. A checkpoint is tied to
    `sources` and `out`. Raises `CheckpointMismatch` before a change.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str, out: str, sources: Mapping[str, str]
    ) -> None:
        _raise_if_object_store(checkpoint)
        self.path: str
        self._file_system, self.path = file_system_for(spark, checkpoint)
        _raise_if_object_store(self.path)  # which may be the default file system
        self.output: StreamOutput = StreamOutput(*file_system_for(spark, out))
        self.control: ControlSource = ControlSource(self._file_system, f"{self.path}/control")
        self._settings = {**sources, "out": self.output.path}
        self._run = ""
        found = self._read_settings()
        self.id: str = str(found["id"]) if found else secrets.token_hex(8)
        self.shards: tuple[int, ...] = tuple(found["shards"]) if found else ()
        self.entry: CheckpointEntry = read_last_entry(self._file_system, self.path)
        is_new = self._last_spark_batch("commits") < 0
        self.output.check_owner(self.id if found else None, self.path, is_new=is_new)
        self._check_spark()

    @property
    def spark_path(self) -> str:
        """The directory of Spark's part."""
        return f"{self.path}/spark"

    def begin(self, shards: Sequence[int]) -> None:
        """Take over from older runs. `shards`: of a new stream."""
        self.shards = self.shards or tuple(shards)
        settings = {"format": FORMAT, "id": self.id, "shards": self.shards, **self._settings}
        self._file_system.create(f"{self.path}/{_SETTINGS}", json.dumps(settings, indent=1))
        self.output.claim(self.id)
        while not self._run:
            runs = self._names("runs")
            name = f"{int(runs[-1]) + 1 if runs else 1:09}"
            if self._file_system.create(f"{self.path}/runs/{name}", ""):
                self._run = name
        for name in runs:
            self._file_system.delete(f"{self.path}/runs/{name}")
        if self._last_spark_batch("commits") == self.entry.batch:
            self.control.discard_applied(self.entry)

    def check_run(self) -> None:
        """Raise `SparkError` if another run has begun."""
        if self._names("runs")[-1:] != [self._run]:
            raise SparkError(f"{self.path}: another run has taken over this checkpoint")

    def commit(self, entry: CheckpointEntry) -> None:
        """Note that the output of a micro-batch is published."""
        path = f"{self.path}/progress/{entry.batch:09}"
        self._file_system.create(path, json.dumps(asdict(entry)))
        self.entry = entry
        for name in self._names("progress")[:-2]:
            self._file_system.delete(f"{self.path}/progress/{name}")

    def _names(self, directory: str) -> list[str]:
        return _numbers(self._file_system, f"{self.path}/{directory}")

    def _read_settings(self) -> dict[str, Any] | None:
        found = read_settings(self._file_system, self.path)
        if found is None:
            return None
        for name, value in self._settings.items():
            if found.get(name) != value:
                raise CheckpointMismatch(
                    f"{self.path}: belongs to a stream whose {name} is {found.get(name)}, "
                    f"not {value}; use another checkpoint for another stream"
                )
        extra = {"operations", "events", "extensions"} & {*found} - {*self._settings}
        if extra:
            raise CheckpointMismatch(
                f"{self.path}: belongs to a stream that has {extra.pop()}; give them, too"
            )
        return found

    def _check_spark(self) -> None:
        committed = self._last_spark_batch("commits")
        planned = self._last_spark_batch("offsets")
        if committed > self.entry.batch:
            raise CheckpointMismatch(
                f"{self.path}: incomplete, the progress ends at batch {self.entry.batch}, "
                f"Spark's at {committed}"
            )
        if planned < self.entry.batch:
            raise CheckpointMismatch(
                f"{self.path}: Spark's part is missing or of another stream; rows would be read "
                "twice"
            )

    def _last_spark_batch(self, kind: str) -> int:
        return max((int(name) for name in self._names(f"spark/{kind}")), default=-1)


def read_settings(file_system: FileSystem, path: str) -> dict[str, Any] | None:
    """Return a checkpoint's settings, or None; may raise `CheckpointMismatch`."""
    names = [name for name in file_system.names(path) if not name.startswith(".")]
    if not names:
        return None
    if _SETTINGS not in names:
        raise CheckpointMismatch(f"{path}: not empty, and not a stream's checkpoint")
    found = read_json_object(file_system, f"{path}/{_SETTINGS}")
    if found.get("format") != FORMAT:
        raise CheckpointMismatch(
            f"{path}: written in format {found.get('format')!r}; this release reads "
            f"format {FORMAT}. Finish with the release that began (its --once gives every "
            "operation its outcome), or begin anew with another checkpoint and output"
        )
    return found


def read_last_entry(file_system: FileSystem, path: str) -> CheckpointEntry:
    """Return where a checkpoint's stream stands."""
    last = read_last(file_system, f"{path}/progress", CheckpointEntry)
    return CheckpointEntry() if last is None else last[1]


def read_last(
    file_system: FileSystem, directory: str, record: Callable[..., _RecordT]
) -> tuple[int, _RecordT] | None:
    """Return the number and the content of a directory's last record, or None."""
    names = _numbers(file_system, directory)
    if not names:
        return None
    last = f"{directory}/{names[-1]}"
    try:
        return int(names[-1]), record(**read_json_object(file_system, last))
    except TypeError as error:
        raise CheckpointMismatch(f"{last}: damaged: {error}") from None


def _numbers(file_system: FileSystem, directory: str) -> list[str]:
    return [name for name in file_system.names(directory) if name.isdigit()]


def _raise_if_object_store(checkpoint: str) -> None:
    scheme = urlsplit(checkpoint).scheme
    if scheme in _OBJECT_STORES:
        raise SparkError(
            f"{checkpoint}: {scheme} cannot keep two runs from writing at once, so outcomes might "
            "be there twice; put the checkpoint on HDFS, ABFS or a disk. The output may stay"
        )
