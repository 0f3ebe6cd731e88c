"""Merges the small files of a stream's output into an archive, beside the running stream.

The output has a file a micro-batch. An archive has the same directories, with files
`part-FIRST-LAST.parquet`, named by their committed micro-batches.

Each file appears in the archive by one rename, so readers that list the archive see no outcome
twice. A merge has four steps, and a process may end between any two:

1. write the merged file into the staging directory;
2. add the merge to the log, `merges/` of the checkpoint;
3. rename the merged file to its name in the archive, unless that exists;
4. if present, delete the merged files.

The next process begins with steps 3 and 4 of the last merge in the log, and then clears the staging
directory. A merge whose file is neither staged nor in the archive does not count: its rows are
still in the output. The same holds for an overtaken process; it raises at step 4.

A checkpoint's file system creates a file or refuses to, so one process gets a number in the log.
Records stay: a process that slept for long must not take a number again.

Any thread may call, one at a time; any number of processes.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from purgatory.spark.errors import SparkError, wrapping_spark_errors
from purgatory.spark.filesystem import LITERAL_PATHS, file_system_for
from purgatory.spark.session import temporary_settings
from purgatory.spark.stream.checkpoint import read_last, read_last_entry, read_settings
from purgatory.spark.stream.output import STAGING, StreamOutput, batch_of
from purgatory.trace.path_conflicts import PathConflict, check_outputs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Writes one Parquet file from several paths, into a directory.
MergeFiles: TypeAlias = Callable[[Sequence[str], str], object]

DEFAULT_BYTES: Final = 128 * 2**20

_LISTING_TASKS: Final = "spark.sql.sources.parallelPartitionDiscovery.parallelism"


class Archive:
    """The directory `archive`, for the output of the stream whose checkpoint is `checkpoint`.

    Raises `CheckpointMismatch` for a directory of another stream.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str, archive: str, merge_files: MergeFiles
    ) -> None:
        self._spark = spark
        self._merge_files = merge_files
        files, path = file_system_for(spark, checkpoint)
        settings = read_settings(files, path)
        if settings is None:
            raise SparkError(f"{path}: no checkpoint")
        self._last_batch = read_last_entry(files, path).batch
        self._log_files, self._log = files, f"{path}/merges"
        self._output = StreamOutput(*file_system_for(spark, settings["out"]))
        self._archive_files, self.path = file_system_for(spark, archive)
        self._claim(settings["id"], path)

    def take(self, max_bytes: int = DEFAULT_BYTES) -> list[Merge]:
        """Move committed files into the archive, merged up to `max_bytes` each.

        Returns the merges. A larger micro-batch stays one file. Raises `SparkError` if another
        process merges the same output.
        """
        number = -1
        if (last := read_last(self._log_files, self._log, Merge)) is not None:
            number, merge = last
            self._finish(merge)
        self._archive_files.delete(f"{self.path}/{STAGING}")
        done = []
        for output in self._output.outputs():
            sizes = self._output.parts(output)
            # No run will replace these.
            committed = {n: size for n, size in sizes.items() if batch_of(n) <= self._last_batch}
            for names in _groups(committed, max_bytes):
                merge = self._stage(output, names)
                number += 1
                record = f"{self._log}/{number:09}"
                if not self._log_files.create(record, json.dumps(asdict(merge))):
                    raise self._overtaken()
                if not self._finish(merge):
                    raise self._overtaken()
                done.append(merge)
        return done

    def _claim(self, stream_id: str, checkpoint: str) -> None:
        out = self._output.path
        try:
            check_outputs({"": self.path}, [out])
        except PathConflict as error:
            message = f"{self.path}: an archive lies outside of the output {out}"
            raise SparkError(message) from error
        self._output.check_owner(stream_id, checkpoint, is_new=False)
        archive = StreamOutput(self._archive_files, self.path)
        archive.check_owner(stream_id, checkpoint, is_new=True)
        archive.claim(stream_id)

    def _stage(self, output: str, names: Sequence[str]) -> Merge:
        first, last = batch_of(names[0]), batch_of(names[-1])
        source, target = (f"{at}/{output}".rstrip("/") for at in (self._output.path, self.path))
        staged = f"{self.path}/{STAGING}/{secrets.token_hex(8)}"
        self._merge_files([f"{source}/{name}" for name in names], staged)
        written = [n for n in self._archive_files.names(staged) if n.startswith("part-")]
        if len(written) != 1:
            raise self._overtaken()
        final = f"{target}/part-{first:09}-{last:09}.parquet"
        return Merge(output, first, last, len(names), f"{staged}/{written[0]}", final)

    def _overtaken(self) -> SparkError:
        return SparkError(f"{self.path}: another process merges this output, too")

    def _finish(self, merge: Merge) -> bool:
        """Finish a merge of the log; tell whether the merge counts. Idempotent."""
        # The merge's archive may be a former one.
        files, target = file_system_for(self._spark, merge.target)
        files.move_new(merge.staged, target)
        if not files.exists(target):
            return False
        self._output.delete_parts(merge.output, merge.first, merge.last)
        return True


def merge_parquet(spark: SparkSession, paths: Sequence[str], directory: str) -> None:
    """Write several Parquet files as one, into a directory.

    An unreadable file is always an error: its rows would be lost.
    """
    strictly = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false", **LITERAL_PATHS}
    # Else Spark would list the files by a task for each file.
    tasks = {_LISTING_TASKS: str(spark.sparkContext.defaultParallelism)}
    with wrapping_spark_errors(directory), temporary_settings(spark, tasks):
        rows = spark.read.options(**strictly).parquet(*paths)
        rows.coalesce(1).write.mode("overwrite").parquet(directory)


def _groups(sizes: Mapping[str, int], max_bytes: int) -> Iterator[list[str]]:
    group: list[str] = []
    held = 0
    for name in sorted(sizes):
        if group and held + sizes[name] > max_bytes and batch_of(name) != batch_of(group[-1]):
            yield group
            group, held = [], 0
        group.append(name)
        held += sizes[name]
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class Merge:
    """A file made of the `files` of the micro-batches `first` to `last`.

    `output` is "" for outcomes, else the directory within the output. The file is written to the
    directory `staged`, and becomes `target`.
    """

    output: str
    first: int
    last: int
    files: int
    staged: str
    target: str
