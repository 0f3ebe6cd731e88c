"""The checkpoint of a stream: a log of its commits.

The last commit says where the stream stands. A checkpoint directory holds:

    stream.json    what the checkpoint belongs to: sources, output, format of the state
    log/NUMBER     entries, each a commit
    state/         the stream's state; see `state`
    spark/         Spark's own part: which rows belong to which micro-batch

A micro-batch first writes its outputs to a staging directory and its state beside the old one,
under names that no reader looks at. Then an entry naming both is created: that is the commit. Last
the staged files are published (`output`); a run that finds an entry with files still staged
publishes them first. So each row is written out exactly once, wherever a run is killed.

A run begins with an entry of its own. As an entry is never overwritten, a run that was taken for
dead cannot commit afterwards. So the first entry of each run is kept for good, the others until
the next entry exists.

One thread at a time: Spark's thread, which runs the micro-batches, then the thread in `Stream.run`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import file_system_for
from purgatory.spark.stream.json_files import read_json_object
from purgatory.spark.stream.output import Moves, StreamOutput
from purgatory.trace.rows import INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = 1

_SETTINGS: Final = "stream.json"
_COUNTED: Final = (
    *("operations", "events", "completed", "expired"),
    *("late_operations", "late_events", "rejected_operations", "rejected_events"),
)


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """Where a stream stands. The fields are those of an entry's file.

    `batch`: the last of Spark's micro-batches that is committed. `closed_ms`: the last closed
    instant; a row of that time or before is late. `newest_ms`: the newest time of each source.
    `state`: the directory of the state, with `pending` operations and `kept` retained events.
    `counts`: rows since the stream began. `moves`: staged files of the micro-batch and their final
    names.
    """

    number: int = 0
    run: str = ""
    query: str = ""
    batch: int = -1
    closed_ms: int = INT64_MIN
    newest_ms: Mapping[str, int] = field(default_factory=dict)
    state: str = ""
    pending: int = 0
    kept: int = 0
    counts: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(_COUNTED, 0))
    moves: Moves = ()

    @property
    def name(self) -> str:
        """The name of the directories of its state and of its staged output."""
        return f"{self.number:09}-{self.run}"


class CheckpointLog:
    """The log of one checkpoint, opened by one run.

    `entry` is where the stream stands. `sources` names what feeds the stream; a checkpoint is tied
    to it and to `out`. Raises `CheckpointMismatch` for all that does not fit, before anything is
    changed.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str, out: str, sources: Mapping[str, str]
    ) -> None:
        self._file_system, self.path = file_system_for(spark, checkpoint)
        self._output = StreamOutput(*file_system_for(spark, out))
        self._run = secrets.token_hex(8)
        self._query = ""
        settings = {**sources, "out": self._output.path}
        stream_id = self._check_settings(settings)
        self.entry: CheckpointEntry = self._last_entry()
        self._output.check_owner(stream_id, self.path, is_new=not self.entry.number)
        self._check_spark()
        self._recover(settings, stream_id or self._run)

    @property
    def spark_path(self) -> str:
        """The directory where Spark keeps its part of the checkpoint."""
        return f"{self.path}/spark"

    def staging_path(self) -> str:
        """Return the directory for the outputs of the next commit."""
        return self._output.staging_path(self._next_name())

    def next_state_path(self) -> str:
        """Return the directory for the state of the next commit."""
        return f"{self.path}/state/{self._next_name()}"

    def commit(self, entry: CheckpointEntry) -> None:
        """Append an entry, and publish the files in `staging_path`.

        Raises `SparkError`, and changes nothing, if another run has begun.
        """
        before, number = self.entry, self.entry.number + 1
        self._query = self._query or self._query_id() or ""
        moves = self._output.moves(self._next_name(), number)
        after = replace(entry, number=number, run=self._run, query=self._query, moves=moves)
        self._append(after)
        self._output.publish(after.moves, after.name)
        if before.run == self._run and before.number != self._first_number:
            self._file_system.delete(self._entry_path(before.number))
        if before.state and before.state != after.state:
            self._file_system.delete(before.state)

    def _recover(self, settings: Mapping[str, str], stream_id: str) -> None:
        """Take over: complete a new checkpoint, or the last run's commit."""
        text = json.dumps({"format": FORMAT, "id": stream_id, **settings}, indent=1)
        self._file_system.create(f"{self.path}/{_SETTINGS}", text)
        self._output.claim(stream_id)
        self._first_number = self.entry.number + 1
        self._append(replace(self.entry, number=self._first_number, run=self._run))
        # From here on no other run can commit, so what no entry names can be deleted.
        self._output.publish(self.entry.moves, self.entry.name)
        self._output.discard_staged()
        for name in self._file_system.names(f"{self.path}/state"):
            if (path := f"{self.path}/state/{name}") != self.entry.state:
                self._file_system.delete(path)

    def _append(self, entry: CheckpointEntry) -> None:
        if not self._file_system.create(self._entry_path(entry.number), json.dumps(asdict(entry))):
            raise SparkError(f"{self.path}: another run has taken over this checkpoint")
        self.entry = entry

    def _next_name(self) -> str:
        return replace(self.entry, number=self.entry.number + 1, run=self._run).name

    def _entry_path(self, number: int) -> str:
        return f"{self.path}/log/{number:09}"

    def _last_entry(self) -> CheckpointEntry:
        numbers = [name for name in self._file_system.names(f"{self.path}/log") if name.isdigit()]
        if not numbers:
            return CheckpointEntry()
        path = f"{self.path}/log/{numbers[-1]}"
        found = read_json_object(self._file_system, path)
        found["moves"] = tuple(tuple(move) for move in found.get("moves", ()))
        try:
            return CheckpointEntry(**found)
        except TypeError as error:
            raise CheckpointMismatch(f"{path}: damaged: {error}") from None

    # What may be wrong with a checkpoint.

    def _check_settings(self, wanted: Mapping[str, str]) -> str | None:
        """Return the id of the stream, None for a new checkpoint."""
        names = [name for name in self._file_system.names(self.path) if not name.startswith(".")]
        if not names:
            return None
        if _SETTINGS not in names:
            raise CheckpointMismatch(f"{self.path}: not empty, and not a checkpoint of ours")
        found = read_json_object(self._file_system, f"{self.path}/{_SETTINGS}")
        if found.get("format") != FORMAT:
            raise CheckpointMismatch(
                f"{self.path}: written in format {found.get('format')!r}; this release reads "
                f"format {FORMAT}. Finish with the release that began, or begin anew"
            )
        for name, value in wanted.items():
            if found.get(name) != value:
                raise CheckpointMismatch(
                    f"{self.path}: belongs to a stream whose {name} is {found.get(name)}, "
                    f"not {value}; use another checkpoint for another stream"
                )
        return str(found["id"])

    def _check_spark(self) -> None:
        """Check that Spark's part belongs to these entries and knows their micro-batches."""
        entry = self.entry
        if entry.state and not self._file_system.exists(entry.state):
            raise CheckpointMismatch(f"{self.path}: incomplete, {entry.state} is missing")
        committed, planned = self._last_spark_batch("commits"), self._last_spark_batch("offsets")
        if committed > entry.batch:
            raise CheckpointMismatch(
                f"{self.path}: incomplete, the log ends at batch {entry.batch}, "
                f"Spark's at {committed}"
            )
        if planned < entry.batch or (entry.batch >= 0 and self._query_id() != entry.query):
            raise CheckpointMismatch(
                f"{self.path}: Spark's part is missing or of another stream; rows would be read "
                "twice"
            )

    def _last_spark_batch(self, kind: str) -> int:
        names = self._file_system.names(f"{self.spark_path}/{kind}")
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def _query_id(self) -> str | None:
        path = f"{self.spark_path}/metadata"
        if not self._file_system.exists(path):
            return None
        return str(read_json_object(self._file_system, path).get("id"))
