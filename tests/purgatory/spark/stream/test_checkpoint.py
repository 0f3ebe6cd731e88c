"""A checkpoint: each output is published once, wherever a run ended; a misfit is refused.

Without Spark: small files stand for what a micro-batch writes.
"""

import itertools
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import LocalFileSystem
from purgatory.spark.stream import checkpoint as checkpoint_module
from purgatory.spark.stream.checkpoint import Checkpoint
from tests.testing.fragile_disk import FragileFileSystem, FragileObjectStore, Killed

SOURCES = {"operations": "parquet:/in/operations", "events": "parquet:/in/events"}
BATCHES = 3


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A function that opens the log of one checkpoint, as a run does."""
    monkeypatch.setattr(
        checkpoint_module, "file_system_for", lambda _, path: (LocalFileSystem(), path)
    )

    def open_checkpoint(sources=SOURCES, out="out"):
        return Checkpoint(None, str(tmp_path / "checkpoint"), str(tmp_path / out), sources)

    return open_checkpoint


@pytest.fixture
def begun(opened):
    """A function that opens a checkpoint and takes over."""

    def begin():
        checkpoint = opened()
        checkpoint.begin((0, 3))
        return checkpoint

    return begin


def write(path, text=""):
    """Write a file; create its directory."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def do_batch(checkpoint, number):
    """Do what a micro-batch and Spark around it do."""
    spark = Path(checkpoint.spark_path)
    write(spark / "offsets" / f"{number}")
    if number > checkpoint.entry.batch:
        checkpoint.check_run()
        staging = Path(checkpoint.output.path) / "_staging"
        shutil.rmtree(staging, ignore_errors=True)
        for part in range(2):
            write(staging / "outcomes" / f"part-{part}.parquet", f"{number} {part}")
        write(staging / "outcomes" / "_SUCCESS")
        write(staging / "_late" / "events" / "part-0.parquet", f"late {number}")
        checkpoint.output.publish(number, ["", "_late/events"])
        checkpoint.commit(replace(checkpoint.entry, batch=number, pending=1))
    write(spark / "commits" / f"{number}")


def run(begun):
    """Run from where the stream stands to its end; Spark repeats the batch it had not noted."""
    checkpoint = begun()
    spark = Path(checkpoint.spark_path)
    noted = len(list(spark.glob("commits/*")))
    for number in range(noted, BATCHES):
        do_batch(checkpoint, number)
    return checkpoint


def texts(path):
    """Return the contents of the Parquet files of a directory, sorted."""
    return sorted(file.read_text() for file in path.glob("*.parquet"))


@pytest.mark.parametrize("kind", [FragileFileSystem, FragileObjectStore])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_each_output_is_there_once_wherever_a_run_ends(begun, tmp_path, monkeypatch, done, kind):
    """A kill at any file operation, and another in the next run, lose and repeat nothing."""
    for steps in itertools.count(1):
        killed = []
        for again in (steps, steps % 7 + 1):
            files = kind(again, done=done)
            monkeypatch.setattr(
                checkpoint_module, "file_system_for", lambda _, path, f=files: (f, path)
            )
            try:
                run(begun)
            except Killed:
                killed.append(again)
        monkeypatch.setattr(
            checkpoint_module, "file_system_for", lambda _, path: (LocalFileSystem(), path)
        )
        assert run(begun).entry.batch == BATCHES - 1
        assert texts(tmp_path / "out") == [f"{n} {p}" for n in range(BATCHES) for p in range(2)]
        assert texts(tmp_path / "out" / "_late" / "events") == [f"late {n}" for n in range(BATCHES)]
        assert not list((tmp_path / "out").glob("_staging/*"))
        shutil.rmtree(tmp_path / "out")
        shutil.rmtree(tmp_path / "checkpoint")
        if steps not in killed[:1]:  # this run was not killed
            assert steps > 15
            return


def test_a_run_that_was_taken_for_dead_cannot_publish(begun, tmp_path):
    """An older run raises once a newer one has begun."""
    older = begun()
    do_batch(older, 0)
    newer = begun()
    do_batch(newer, 1)
    with pytest.raises(SparkError, match="another run has taken over this checkpoint"):
        do_batch(older, 1)
    assert begun().entry.batch == 1
    assert len(texts(tmp_path / "out")) == 4


def test_an_entry_comes_back_as_it_was(begun, opened):
    """All fields of an entry, and the shards, are read back; two entries are kept."""
    checkpoint = begun()
    for number in range(3):
        do_batch(checkpoint, number)
    counts = {"operations": 9}
    entry = replace(
        checkpoint.entry, batch=3, closed_ms=5, newest_ms={"events": 7}, kept=3, counts=counts
    )
    write(Path(checkpoint.spark_path) / "offsets" / "3")
    checkpoint.commit(entry)
    assert (opened().entry, opened().shards) == (entry, (0, 3))
    assert len(list((Path(checkpoint.path) / "progress").iterdir())) == 2


@pytest.mark.parametrize(("spark_committed", "left"), [(True, ["later"]), (False, None)])
def test_a_run_begins_without_the_rows_that_are_in_the_state(begun, spark_committed, left):
    """Of a micro-batch that Spark may repeat, all rows stay."""
    checkpoint = begun()
    times = {"applied": 5, "closed": 9, "later": 11}
    for name, time_ms in times.items():
        row = {"table": "close" if name == "closed" else "reached_events", "time_ms": time_ms}
        write(f"{checkpoint.path}/control/{name}.jsonl", f"{json.dumps(row)}\n")
    checkpoint.commit(replace(checkpoint.entry, batch=0, closed_ms=9, newest_ms={"events": 7}))
    write(f"{checkpoint.spark_path}/offsets/0")
    if spark_committed:
        write(f"{checkpoint.spark_path}/commits/0")
    begun()
    names = sorted(file.stem for file in Path(checkpoint.path, "control").iterdir())
    assert names == (left or sorted(times))


def test_an_object_store_is_refused_by_name(tmp_path):
    """Two runs could both write there; the message says what to do."""
    with pytest.raises(SparkError, match=r"s3a cannot keep two runs .* checkpoint on HDFS, ABFS"):
        Checkpoint(None, "s3a://bucket/checkpoint", str(tmp_path), SOURCES)


def _foreign(checkpoint, out):
    shutil.rmtree(checkpoint)
    write(checkpoint / "mine.txt")


def _other_format(checkpoint, out):
    settings = json.loads((checkpoint / "stream.json").read_text())
    write(checkpoint / "stream.json", json.dumps(settings | {"format": 99}))


def _damaged(checkpoint, out):
    write(max((checkpoint / "progress").iterdir()), '{"batch": 3, "ru')


def _foreign_entry(checkpoint, out):
    write(max((checkpoint / "progress").iterdir()), '{"batch": 3, "colour": "red"}')


def _without_progress(checkpoint, out):
    shutil.rmtree(checkpoint / "progress")


def _without_spark(checkpoint, out):
    shutil.rmtree(checkpoint / "spark")


def _earlier_format(checkpoint, out):
    settings = json.loads((checkpoint / "stream.json").read_text())
    write(checkpoint / "stream.json", json.dumps(settings | {"format": 1}))


def _without_output(checkpoint, out):
    shutil.rmtree(out)


def _foreign_output(checkpoint, out):
    (out / "_stream.json").unlink()


def _output_of_another(checkpoint, out):
    shutil.rmtree(checkpoint)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_foreign, "checkpoint: not empty, and not a stream's checkpoint"),
        (_other_format, r"written in format 99; this release reads format 2"),
        (_earlier_format, "format 1; .* Finish with the release that began .* or begin anew"),
        (_damaged, "damaged"),
        (_foreign_entry, "damaged: .*colour"),
        (_without_progress, "incomplete, the progress ends at batch -1, Spark's at 1"),
        (_without_spark, "Spark's part is missing or of another stream"),
        (_without_output, "out: missing or empty"),
        (_foreign_output, "out: not empty, and not the output of a stream"),
        (_output_of_another, "out: holds the output of another checkpoint"),
    ],
)
def test_what_does_not_fit_is_refused_and_left_as_it_is(begun, opened, tmp_path, change, words):
    """The message names the directory and what is wrong; no file is changed."""
    checkpoint = begun()
    do_batch(checkpoint, 0)
    do_batch(checkpoint, 1)
    change(tmp_path / "checkpoint", tmp_path / "out")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointMismatch, match=words):
        opened()
    assert sorted(tmp_path.rglob("*")) == before


def test_an_output_of_one_batch_is_missed(begun, opened, tmp_path):
    """Before the first batch none is expected, after it is."""
    checkpoint = begun()
    shutil.rmtree(tmp_path / "out")
    opened()
    do_batch(checkpoint, 0)
    shutil.rmtree(tmp_path / "out")
    with pytest.raises(CheckpointMismatch, match="out: missing or empty"):
        opened()


@pytest.mark.parametrize("name", ["operations", "events"])
def test_other_sources_are_refused(begun, opened, name):
    """The message names the source of the checkpoint and the wanted one."""
    begun()
    with pytest.raises(CheckpointMismatch, match=f"whose {name} is .*, not json:/in/other;"):
        opened(SOURCES | {name: "json:/in/other"})


def test_a_source_that_is_left_out_is_refused(opened):
    """The message names it; with it the stream goes on."""
    sources = SOURCES | {"extensions": "json:/in/extensions"}
    opened(sources).begin((0, 3))
    assert opened(sources).shards == (0, 3)
    with pytest.raises(CheckpointMismatch, match="a stream that has extensions; give them, too"):
        opened()
