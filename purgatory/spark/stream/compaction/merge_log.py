"""The merges of an archive in the order in which they were decided: `merges/` of the checkpoint.

A checkpoint is on a file system that creates a file or refuses to, so of two processes one gets a
number. Records stay: without them a process that slept for long could take a number again.

Any thread may call.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.stream.json_files import read_json_object

if TYPE_CHECKING:
    from purgatory.spark.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class Merge:
    """A file that is made of those of the micro-batches `first` to `last`.

    `output` is "" for outcomes, else the directory within the output. `files` were merged. The
    file is written to the directory `staged`, and becomes `target`.
    """

    output: str
    first: int
    last: int
    files: int
    staged: str
    target: str


class MergeLog:
    """The records in the directory `path`."""

    def __init__(self, file_system: FileSystem, path: str) -> None:
        self._file_system = file_system
        self._path = path

    def last(self) -> tuple[int, Merge | None]:
        """Return the last number and its merge; -1 and None if there is none."""
        names = [name for name in self._file_system.names(self._path) if name.isdigit()]
        if not names:
            return -1, None
        path = f"{self._path}/{names[-1]}"
        try:
            return int(names[-1]), Merge(**read_json_object(self._file_system, path))
        except TypeError as error:
            raise CheckpointMismatch(f"{path}: damaged: {error}") from None

    def add(self, number: int, merge: Merge) -> None:
        """Decide on a merge; `SparkError` if another process has taken the number."""
        text = json.dumps(asdict(merge))
        if not self._file_system.create(f"{self._path}/{number:09}", text):
            raise SparkError(f"{self._path}: another process merges this output, too")
