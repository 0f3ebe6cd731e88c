"""The output of a stream: staged by micro-batches, published exactly once.

An output directory holds:

    part-*.parquet     outcomes
    _late/TABLE/       rows of instants that were closed before they came
    _rejected/         rows that break a rule, with the reason
    _staging/          files of micro-batches that are not committed, which no reader looks at
    _stream.json       the stream that the output belongs to

A micro-batch writes its files into a staging directory of its own. The entry of the checkpoint
that commits it lists the `moves` from there to the final names, which are never used twice. So
publishing is idempotent: a run that finds a committed entry publishes it again, and each file is
published exactly once, wherever an earlier run was killed.

One thread at a time, as for the checkpoint.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from purgatory.spark.errors import CheckpointMismatch
from purgatory.spark.stream.json_files import read_json_object

if TYPE_CHECKING:
    from collections.abc import Iterable

    from purgatory.spark.filesystem import FileSystem

OUTCOMES: Final = "outcomes"  # published into the output directory itself
LATE: Final = "_late"  # with a directory for each table
REJECTED: Final = "_rejected"

Moves = tuple[tuple[str, str], ...]  # from staged files to their final names

_STAGED: Final = (OUTCOMES, f"{LATE}/operations", f"{LATE}/events", REJECTED)
_STAGING: Final = "_staging"
_MARKER: Final = "_stream.json"


class StreamOutput:
    """The output directory of one stream, `path`."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self.path = path

    def claim(self, stream_id: str) -> None:
        """Note which stream the output belongs to, unless that is noted already."""
        self._file_system.create(f"{self.path}/{_MARKER}", json.dumps({"stream": stream_id}))

    def check_owner(self, stream_id: str | None, checkpoint: str, *, is_new: bool) -> None:
        """Raise `CheckpointMismatch` if the output is not that of the checkpoint's stream.

        `stream_id` is None for a checkpoint that is empty; `is_new` if it has no entry yet.
        """
        names = [name for name in self._file_system.names(self.path) if not name.startswith(".")]
        if _MARKER in names:
            if self._owner() != stream_id:
                raise CheckpointMismatch(
                    f"{self.path}: holds the output of another checkpoint than {checkpoint}; "
                    "appended to it, outcomes would be there twice"
                )
        elif names:
            raise CheckpointMismatch(f"{self.path}: not empty, and not the output of a stream")
        elif not is_new:
            raise CheckpointMismatch(f"{self.path}: gone or emptied, with the outcomes so far")

    def staging_path(self, batch_name: str) -> str:
        """Return the directory where a micro-batch writes its outputs."""
        return f"{self.path}/{_STAGING}/{batch_name}"

    def moves(self, batch_name: str, number: int) -> Moves:
        """List the staged files of a micro-batch with their final names."""
        moves = []
        for output in _STAGED:
            staged = f"{self.staging_path(batch_name)}/{output}"
            target = self.path if output == OUTCOMES else f"{self.path}/{output}"
            names = [n for n in self._file_system.names(staged) if n.startswith("part-")]
            moves += [
                (f"{staged}/{name}", f"{target}/part-{number:09}-{i:03}.parquet")
                for i, name in enumerate(names)
            ]
        return tuple(moves)

    def publish(self, moves: Iterable[tuple[str, str]], batch_name: str) -> None:
        """Move the staged files of a micro-batch to their final names. Idempotent."""
        for staged, target in moves:
            self._file_system.move(staged, target)
        self._file_system.delete(self.staging_path(batch_name))

    def discard_staged(self) -> None:
        """Delete what micro-batches staged that were never committed."""
        self._file_system.delete(f"{self.path}/{_STAGING}")

    def _owner(self) -> object:
        path = f"{self.path}/{_MARKER}"
        return read_json_object(self._file_system, path).get("stream")
