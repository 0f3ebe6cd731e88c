"""The output of a stream: staged files are published under names that say their micro-batch."""

import pytest

from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import LocalFileSystem
from purgatory.spark.stream.output import StreamOutput


@pytest.fixture
def output(tmp_path):
    """An output directory that belongs to the stream `mine`."""
    output = StreamOutput(LocalFileSystem(), str(tmp_path / "out"))
    output.claim("mine")
    return output


def stage(output, *names):
    """Write files into the staging directory."""
    for name in names:
        LocalFileSystem().create(f"{output.path}/_staging/{name}", name)


def visible(path):
    """Return the names of all files of the output, by path."""
    files = (file.relative_to(path) for file in path.rglob("part-*"))
    return sorted(str(file) for file in files if file.parts[0] != "_staging")


def test_a_micro_batch_that_is_repeated_replaces_its_files(output, tmp_path):
    """A run that was killed while publishing is repeated by the next one, with the same rows."""
    for _ in range(2):
        stage(output, "outcomes/part-a", "outcomes/_SUCCESS", "_late/events/part-b")
        output.publish(7, ["", "_late/events"])
        assert visible(tmp_path / "out") == [
            "_late/events/part-000000007-000.parquet",
            "part-000000007-000.parquet",
        ]


def test_rows_without_a_file_are_an_error(output, spark):
    """To go on would lose them in silence."""
    elsewhere = StreamOutput(_Elsewhere(), output.path)
    with pytest.raises(SparkError, match="3 rows were written, but there is no file of them"):
        elsewhere.stage(spark.range(3).coalesce(1), 3, "")


class _Elsewhere(LocalFileSystem):
    def names(self, path):
        return []


def test_the_first_claim_counts(output):
    """Another stream is told that the output is not its own."""
    output.claim("another")
    output.check_owner("mine", "checkpoint", is_new=False)
    with pytest.raises(CheckpointMismatch, match="holds the output of another checkpoint"):
        output.check_owner("another", "checkpoint", is_new=False)
