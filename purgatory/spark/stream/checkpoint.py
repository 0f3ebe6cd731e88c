"""The checkpoint of a stream: Spark's own, and a page of ours around it.

    stream.json       what the checkpoint belongs to: sources, output, shards, format
    runs/NUMBER       a file for each run; the last run may write
    progress/NUMBER   where the stream stood after a micro-batch, once its output was published
    control/          rows that advance event time without input; see `control`
    spark/            Spark's checkpoint: state, and which rows belong to which micro-batch

Spark repeats a micro-batch that it had not noted as done, with the same rows and the same state, so
its output is the same, too, and is written again under the same names (`output`). A run that was
taken for dead raises before it publishes anything once a newer one has begun.

One thread at a time: Spark's thread, which runs the micro-batches, then the thread in `Stream.run`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import file_system_for
from purgatory.spark.stream.json_files import read_json_object
from purgatory.spark.stream.output import StreamOutput
from purgatory.trace.rows import INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = 2

_SETTINGS: Final = "stream.json"
_COUNTED: Final = (
    *("operations", "extensions", "events", "completed", "failed", "expired"),
    *("late_operations", "late_extensions", "late_events"),
    *("rejected_operations", "rejected_extensions", "rejected_events"),
)
# Their `create` is no atomic step, so two runs could both believe to be the last one.
_OBJECT_STORES: Final = ("s3", "s3a", "s3n", "gs", "wasb", "wasbs", "oss", "obs", "cosn", "swift")


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """Where a stream stands.

    `batch`: the last of Spark's micro-batches whose output is published. `closed_ms`: the last
    closed instant; a row of that time or before is late. `newest_ms`: the newest time of each
    source. `pending` operations wait, none beyond `last_deadline_ms`; `kept` rows are of instants
    that are not closed. `counts`: rows since the stream began.
    """

    batch: int = -1
    closed_ms: int = INT64_MIN
    newest_ms: Mapping[str, int] = field(default_factory=dict)
    pending: int = 0
    kept: int = 0
    last_deadline_ms: int = INT64_MIN
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))

    def at(self, batch: int) -> CheckpointEntry:
        """Return the entry of a micro-batch without rows."""
        return replace(self, batch=batch)

    @classmethod
    def of_shards(cls, batch: int, facts: Sequence[Mapping[str, Any]]) -> CheckpointEntry:
        """Return the entry of a micro-batch from the facts of all shards."""
        counts = {name: sum(one["counts"].get(name, 0) for one in facts) for name in _COUNTED}
        return cls(
            batch,
            min(one["closed_ms"] for one in facts),
            facts[0]["newest_ms"],
            sum(one["pending"] for one in facts),
            max(one["kept"] for one in facts),
            max(one["last_deadline_ms"] for one in facts),
            counts,
        )


class Checkpoint:
    """One checkpoint, opened by one run.

    `entry` is where the stream stands, `shards` the numbers of its shards. `sources` names what
    feeds the stream; a checkpoint is tied to it and to `out`. Raises `CheckpointMismatch` for all
    that does not fit, before anything is changed.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str, out: str, sources: Mapping[str, str]
    ) -> None:
        _raise_if_object_store(checkpoint)
        self._file_system, self.path = file_system_for(spark, checkpoint)
        _raise_if_object_store(self.path)  # which may be the default file system
        self.output = StreamOutput(*file_system_for(spark, out))
        self._settings = {**sources, "out": self.output.path}
        self._run = ""
        found = self._read_settings()
        self.id = str(found["id"]) if found else secrets.token_hex(8)
        self.shards: tuple[int, ...] = tuple(found["shards"]) if found else ()
        self.entry: CheckpointEntry = self._last_entry()
        is_new = self._last_spark_batch("commits") < 0
        self.output.check_owner(self.id if found else None, self.path, is_new=is_new)
        self._check_spark()

    @property
    def spark_path(self) -> str:
        """The directory of Spark's checkpoint."""
        return f"{self.path}/spark"

    @property
    def control_path(self) -> str:
        """The directory of rows that advance event time without input."""
        return f"{self.path}/control"

    def begin(self, shards: Sequence[int]) -> None:
        """Take over: from now on, no older run can publish. `shards` are those of a new stream."""
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

    def check_run(self) -> None:
        """Raise `SparkError` if another run has begun since."""
        if self._names("runs")[-1:] != [self._run]:
            raise SparkError(f"{self.path}: another run has taken over this checkpoint")

    def commit(self, entry: CheckpointEntry) -> None:
        """Note that the output of a micro-batch is published."""
        path = f"{self.path}/progress/{entry.batch:09}"
        self._file_system.create(path, json.dumps(asdict(entry)))
        self.entry = entry
        for name in self._names("progress")[:-2]:
            self._file_system.delete(f"{self.path}/progress/{name}")

    def add_control(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add rows to the source of rows that advance event time."""
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        self._file_system.create(f"{self.control_path}/{secrets.token_hex(8)}.jsonl", text)

    def _names(self, directory: str) -> list[str]:
        names = self._file_system.names(f"{self.path}/{directory}")
        return [name for name in names if name.isdigit()]

    def _last_entry(self) -> CheckpointEntry:
        names = self._names("progress")
        if not names:
            return CheckpointEntry()
        path = f"{self.path}/progress/{names[-1]}"
        try:
            return CheckpointEntry(**read_json_object(self._file_system, path))
        except TypeError as error:
            raise CheckpointMismatch(f"{path}: damaged: {error}") from None

    # What may be wrong with a checkpoint.

    def _read_settings(self) -> dict[str, Any] | None:
        """Return the settings of the stream, None for a new checkpoint."""
        names = [name for name in self._file_system.names(self.path) if not name.startswith(".")]
        if not names:
            return None
        if _SETTINGS not in names:
            raise CheckpointMismatch(f"{self.path}: not empty, and not a checkpoint of ours")
        found = read_json_object(self._file_system, f"{self.path}/{_SETTINGS}")
        if found.get("format") != FORMAT:
            raise CheckpointMismatch(
                f"{self.path}: written in format {found.get('format')!r}; this release reads "
                f"format {FORMAT}. Finish with the release that began (its --once gives every "
                "operation its outcome), or begin anew with another checkpoint and output"
            )
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
        """Check that Spark's part is there, and is not ahead of what was published."""
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


def _raise_if_object_store(checkpoint: str) -> None:
    scheme = urlsplit(checkpoint).scheme
    if scheme in _OBJECT_STORES:
        raise SparkError(
            f"{checkpoint}: {scheme} cannot keep two runs from writing at once, so outcomes might "
            "be there twice; put the checkpoint on HDFS, ABFS or a disk. The output may stay"
        )
