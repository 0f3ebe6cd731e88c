"""The log of a stream's checkpoint: what is done, and the one step that makes it so.

A checkpoint directory holds:

    stream.json    what the checkpoint belongs to: sources, output, format of the state
    log/NUMBER     entries; the last one says where the stream stands
    state/         Parquet: operations that wait, and events kept for operations still to come
    spark/         Spark's own: which rows belong to which micro-batch

A micro-batch first writes its outputs to a staging directory and its state beside the old one, all
under names that nobody reads. Then an entry naming both is made: that is the commit. Last the
staged files are moved to where readers look; a run that finds an entry whose files were not all
moved moves them first. So whatever is killed when, each row leaves exactly once.

A run begins with an entry of its own. As an entry is never overwritten, a run that was taken for
dead cannot commit afterwards; so the first entry of each run is kept for good, the others until
the next one is there.

One thread at a time: the one that runs micro-batches, or the one that waits for its end.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import file_system_for
from purgatory.trace.rows import INT64_MIN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT: Final = 1
# Below the output, whose own files are the outcomes: what was not worked at.
LATE: Final = "late"  # with a directory for each table
REJECTED: Final = "rejected"

_MARKER: Final = "_stream.json"  # in the output: which checkpoint it belongs to
_SETTINGS: Final = "stream.json"
_STAGING: Final = "_staging"
_STAGED: Final = ("outcomes", f"{LATE}/operations", f"{LATE}/events", REJECTED)
_COUNTED: Final = (
    *("operations", "events", "completed", "expired"),
    *("late_operations", "late_events", "rejected_operations", "rejected_events"),
)


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """Where a stream stands.

    `batch`: the last of Spark's micro-batches that is done. `closed_ms`: the last instant that is
    over; a row of that time or before is late. `newest_ms`: the latest time that each source has
    shown. `state`: the directory of the state; in it, `pending` operations that wait and `kept`
    events (a table of none is not there). `counts`: rows since the stream began. `moves`: from
    staging to where readers look.
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
    moves: tuple[tuple[str, str], ...] = ()


class CheckpointLog:
    """The log of one checkpoint, opened by one run. `entry` is where the stream stands.

    `sources` names what feeds the stream; a checkpoint is tied to it and to `out`. All that does
    not fit is a `CheckpointMismatch`, raised before anything is changed.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str, out: str, sources: Mapping[str, str]
    ) -> None:
        self._file_system, self.path = file_system_for(spark, checkpoint)
        self._out_file_system, self.out = file_system_for(spark, out)
        self._run = secrets.token_hex(8)
        self._query = ""
        settings = {**sources, "out": self.out}
        stream_id = self._check_settings(settings)
        self.entry = self._last_entry()
        self._check_output(stream_id)
        self._check_spark()
        self._recover(settings, stream_id or self._run)

    @property
    def spark_path(self) -> str:
        """Where Spark keeps its part of the checkpoint."""
        return f"{self.path}/spark"

    def staging_path(self) -> str:
        """A directory for the outputs of the next commit."""
        return f"{self.out}/{_STAGING}/{self._next_name()}"

    def next_state_path(self) -> str:
        """A directory for the state of the next commit."""
        return f"{self.path}/state/{self._next_name()}"

    def commit(self, entry: CheckpointEntry) -> None:
        """Make this the last entry, and publish what is in `staging_path`.

        SparkError, and nothing is done, if another run has begun.
        """
        before, number = self.entry, self.entry.number + 1
        self._query = self._query or self._query_id() or ""
        moves = self._moves(number)
        after = replace(entry, number=number, run=self._run, query=self._query, moves=moves)
        self._append(after)
        self._publish(self.entry)
        if before.run == self._run and before.number != self._first_number:
            self._file_system.delete(self._entry_path(before.number))
        if before.state and before.state != after.state:
            self._file_system.delete(before.state)

    def _moves(self, number: int) -> tuple[tuple[str, str], ...]:
        """From each staged file to its name in the directory where readers look."""
        moves = []
        for output in _STAGED:
            staged = f"{self.staging_path()}/{output}"
            target = self.out if output == "outcomes" else f"{self.out}/{output}"
            names = [n for n in self._out_file_system.names(staged) if n.startswith("part-")]
            moves += [
                (f"{staged}/{name}", f"{target}/part-{number:09}-{i:03}.parquet")
                for i, name in enumerate(names)
            ]
        return tuple(moves)

    def _recover(self, settings: Mapping[str, str], stream_id: str) -> None:
        """Write what a new checkpoint lacks, finish what the last run left, and take over."""
        text = json.dumps({"format": FORMAT, "id": stream_id, **settings}, indent=1)
        self._file_system.create(f"{self.path}/{_SETTINGS}", text)
        self._out_file_system.create(f"{self.out}/{_MARKER}", json.dumps({"stream": stream_id}))
        self._first_number = self.entry.number + 1
        self._append(replace(self.entry, number=self._first_number, run=self._run))
        # From here on no other run can commit: what no entry names is nobody's.
        self._publish(self.entry)
        self._out_file_system.delete(f"{self.out}/{_STAGING}")
        for name in self._file_system.names(f"{self.path}/state"):
            if (path := f"{self.path}/state/{name}") != self.entry.state:
                self._file_system.delete(path)

    def _append(self, entry: CheckpointEntry) -> None:
        if not self._file_system.create(self._entry_path(entry.number), json.dumps(asdict(entry))):
            raise SparkError(f"{self.path}: another run has taken over this checkpoint")
        self.entry = entry

    def _publish(self, entry: CheckpointEntry) -> None:
        for staged, target in entry.moves:
            self._out_file_system.move(staged, target)
        self._out_file_system.delete(f"{self.out}/{_STAGING}/{_entry_name(entry)}")

    def _next_name(self) -> str:
        return _entry_name(replace(self.entry, number=self.entry.number + 1, run=self._run))

    def _entry_path(self, number: int) -> str:
        return f"{self.path}/log/{number:09}"

    # What may be wrong with a checkpoint.

    def _check_settings(self, wanted: Mapping[str, str]) -> str | None:
        """The id of the stream, None for a new one."""
        names = [name for name in self._file_system.names(self.path) if not name.startswith(".")]
        if not names:
            return None
        if _SETTINGS not in names:
            raise CheckpointMismatch(f"{self.path}: not empty, and not a checkpoint of ours")
        found = self._read(f"{self.path}/{_SETTINGS}")
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

    def _check_output(self, stream_id: str | None) -> None:
        names = [name for name in self._out_file_system.names(self.out) if not name.startswith(".")]
        if _MARKER in names:
            owner = self._read(f"{self.out}/{_MARKER}", self.out).get("stream")
            if owner != stream_id:
                raise CheckpointMismatch(
                    f"{self.out}: holds the output of another checkpoint than {self.path}; "
                    "appended to it, outcomes would be there twice"
                )
        elif names:
            raise CheckpointMismatch(f"{self.out}: not empty, and not the output of a stream")
        elif self.entry.number:
            raise CheckpointMismatch(f"{self.out}: gone or emptied, with the outcomes so far")

    def _last_entry(self) -> CheckpointEntry:
        numbers = [name for name in self._file_system.names(f"{self.path}/log") if name.isdigit()]
        if not numbers:
            return CheckpointEntry()
        found = self._read(f"{self.path}/log/{numbers[-1]}")
        found["moves"] = tuple(tuple(move) for move in found.get("moves", ()))
        try:
            return CheckpointEntry(**found)
        except TypeError as error:
            raise CheckpointMismatch(f"{self.path}/log/{numbers[-1]}: damaged: {error}") from None

    def _check_spark(self) -> None:
        """Spark's part must be the one that our entries were made with, and know their batches."""
        entry = self.entry
        if entry.state and not self._file_system.exists(entry.state):
            raise CheckpointMismatch(f"{self.path}: incomplete, {entry.state} is missing")
        done, planned = (self._last_spark_batch("commits"), self._last_spark_batch("offsets"))
        if done > entry.batch:
            raise CheckpointMismatch(
                f"{self.path}: incomplete, the log ends at batch {entry.batch}, Spark's at {done}"
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
        return str(self._read(path).get("id")) if self._file_system.exists(path) else None

    def _read(self, path: str, inside: str | None = None) -> dict[str, Any]:
        try:
            found = json.loads((self._out_file_system if inside else self._file_system).read(path))
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise CheckpointMismatch(f"{path}: damaged: not the JSON object that was written")
        return found


def _entry_name(entry: CheckpointEntry) -> str:
    return f"{entry.number:09}-{entry.run}"
