"""The output of a stream: staged files are published once, under names that say their commit."""

import pytest

from purgatory.spark.errors import CheckpointMismatch
from purgatory.spark.filesystem import LocalFileSystem
from purgatory.spark.stream.output import StreamOutput


@pytest.fixture
def output(tmp_path):
    """An output directory that belongs to the stream `mine`."""
    output = StreamOutput(LocalFileSystem(), str(tmp_path / "out"))
    output.claim("mine")
    return output


def stage(output, batch_name, *names):
    """Write files into the staging directory of a micro-batch."""
    for name in names:
        LocalFileSystem().create(f"{output.staging_path(batch_name)}/{name}", name)


def visible(path):
    """Return the names of all files that a reader of the output sees, by path."""
    files = (file.relative_to(path) for file in path.rglob("part-*"))
    return sorted(str(file) for file in files if file.parts[0] != "_staging")


def test_publishing_is_idempotent(output, tmp_path):
    """A run that was killed while publishing is repeated by the next one, with the same files."""
    stage(output, "7-run", "outcomes/part-a", "outcomes/_SUCCESS", "_late/events/part-b")
    moves = output.moves("7-run", 7)
    assert visible(tmp_path / "out") == []
    output.publish(moves[:1], "other")
    for _ in range(2):
        output.publish(moves, "7-run")
        assert visible(tmp_path / "out") == [
            "_late/events/part-000000007-000.parquet",
            "part-000000007-000.parquet",
        ]


def test_what_was_never_committed_is_discarded(output, tmp_path):
    """No reader has seen it, and the next run writes it again."""
    stage(output, "1-run", "outcomes/part-a")
    output.discard_staged()
    assert output.moves("1-run", 1) == ()


def test_the_first_claim_counts(output):
    """Another stream is told that the output is not its own."""
    output.claim("another")
    output.check_owner("mine", "checkpoint", is_new=False)
    with pytest.raises(CheckpointMismatch, match="holds the output of another checkpoint"):
        output.check_owner("another", "checkpoint", is_new=False)
