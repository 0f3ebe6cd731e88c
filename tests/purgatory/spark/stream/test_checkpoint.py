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
from purgatory.spark.stream.checkpoint import CheckpointLog

SOURCES = {"operations": "parquet:/in/operations", "events": "parquet:/in/events"}
BATCHES = 3


class Killed(BaseException):
    """The process was killed here."""


class FragileFileSystem(LocalFileSystem):
    """A disk: its process is killed before or after the n-th operation that changes something."""

    def __init__(self, steps, *, done):
        self.steps = steps
        self.done = done

    def _step(self, operation, *arguments):
        self.steps -= 1
        if self.steps == 0 and not self.done:
            raise Killed
        result = operation(*arguments)
        if self.steps == 0:
            raise Killed
        return result

    def create(self, path, text):
        return self._step(super().create, path, text)

    def move(self, source, target):
        self._step(super().move, source, target)

    def delete(self, path):
        self._step(super().delete, path)


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """A function that opens the log of one checkpoint, as a run does."""
    monkeypatch.setattr(
        checkpoint_module, "file_system_for", lambda _, path: (LocalFileSystem(), path)
    )

    def open_checkpoint_log(sources=SOURCES, out="out"):
        return CheckpointLog(None, str(tmp_path / "checkpoint"), str(tmp_path / out), sources)

    return open_checkpoint_log


def write(path, text=""):
    """Write a file; create its directory."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def do_batch(checkpoint_log, number):
    """Do what a micro-batch and Spark around it do."""
    spark = Path(checkpoint_log.spark_path)
    write(spark / "metadata", '{"id": "query"}')
    write(spark / "offsets" / f"{number}")
    if number > checkpoint_log.entry.batch:
        staging = checkpoint_log.staging_path()
        for part in range(2):
            write(f"{staging}/outcomes/part-{part}.parquet", f"{number} {part}")
        write(f"{staging}/outcomes/_SUCCESS")
        write(f"{staging}/_late/events/part-0.parquet", f"late {number}")
        state = checkpoint_log.next_state_path()
        write(f"{state}/operations/part-0.parquet", f"{number}")
        checkpoint_log.commit(replace(checkpoint_log.entry, batch=number, state=state, pending=1))
    write(spark / "commits" / f"{number}")


def run(opened):
    """Run from where the stream stands to its end; Spark repeats the batch it had not noted."""
    checkpoint_log = opened()
    spark = Path(checkpoint_log.spark_path)
    noted = len(list(spark.glob("commits/*")))
    for number in range(noted, BATCHES):
        do_batch(checkpoint_log, number)
    return checkpoint_log


def texts(path):
    """Return the contents of the Parquet files of a directory, sorted."""
    return sorted(file.read_text() for file in path.glob("*.parquet"))


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_each_output_is_there_once_wherever_a_run_ends(opened, tmp_path, monkeypatch, done):
    """A kill at any file operation, and another in the next run, lose and repeat nothing."""
    for steps in itertools.count(1):
        killed = []
        for again in (steps, steps % 7 + 1):
            files = FragileFileSystem(again, done=done)
            monkeypatch.setattr(
                checkpoint_module, "file_system_for", lambda _, path, f=files: (f, path)
            )
            try:
                run(opened)
            except Killed:
                killed.append(again)
        monkeypatch.setattr(
            checkpoint_module, "file_system_for", lambda _, path: (LocalFileSystem(), path)
        )
        checkpoint_log = run(opened)
        assert texts(tmp_path / "out") == [f"{n} {p}" for n in range(BATCHES) for p in range(2)]
        assert texts(tmp_path / "out" / "_late" / "events") == [f"late {n}" for n in range(BATCHES)]
        assert Path(checkpoint_log.entry.state, "operations/part-0.parquet").read_text() == "2"
        assert len(list((tmp_path / "checkpoint" / "state").iterdir())) == 1
        assert not list((tmp_path / "out").glob("_staging/*"))
        shutil.rmtree(tmp_path / "out")
        shutil.rmtree(tmp_path / "checkpoint")
        if steps not in killed[:1]:  # this run was not killed
            assert steps > 20
            return


def test_a_run_that_was_taken_for_dead_cannot_commit(opened, tmp_path):
    """An older run cannot commit, even after the newer one has deleted entries."""
    older = opened()
    do_batch(older, 0)
    newer = opened()
    do_batch(newer, 1)
    do_batch(newer, 2)
    assert newer.entry.batch == 2
    with pytest.raises(SparkError, match="another run has taken over this checkpoint"):
        do_batch(older, 1)
    assert opened().entry.batch == 2
    assert len(texts(tmp_path / "out")) == 6


def test_an_entry_comes_back_as_it_was(opened):
    """All fields of an entry but those of the run are read back."""
    checkpoint_log = opened()
    do_batch(checkpoint_log, 0)
    entry = replace(
        checkpoint_log.entry, closed_ms=5, newest_ms={"events": 7}, kept=3, counts={"operations": 9}
    )
    checkpoint_log.commit(entry)
    again = opened().entry
    assert replace(again, number=0, run="", moves=()) == replace(entry, number=0, run="", moves=())


def _foreign(checkpoint, out):
    shutil.rmtree(checkpoint)
    write(checkpoint / "mine.txt")


def _other_format(checkpoint, out):
    settings = json.loads((checkpoint / "stream.json").read_text())
    write(checkpoint / "stream.json", json.dumps(settings | {"format": 99}))


def _damaged(checkpoint, out):
    write(max((checkpoint / "log").iterdir()), '{"number": 3, "ru')


def _foreign_entry(checkpoint, out):
    write(max((checkpoint / "log").iterdir()), '{"number": 3, "colour": "red"}')


def _without_state(checkpoint, out):
    shutil.rmtree(checkpoint / "state")


def _without_log(checkpoint, out):
    shutil.rmtree(checkpoint / "log")


def _without_spark(checkpoint, out):
    shutil.rmtree(checkpoint / "spark")


def _of_another_query(checkpoint, out):
    write(checkpoint / "spark" / "metadata", '{"id": "another"}')


def _without_output(checkpoint, out):
    shutil.rmtree(out)


def _foreign_output(checkpoint, out):
    (out / "_stream.json").unlink()


def _output_of_another(checkpoint, out):
    shutil.rmtree(checkpoint)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_foreign, "checkpoint: not empty, and not a checkpoint"),
        (_other_format, r"written in format 99; this release reads format 1"),
        (_damaged, "damaged"),
        (_foreign_entry, "damaged: .*colour"),
        (_without_state, r"incomplete, .*state.* is missing"),
        (_without_log, "incomplete, the log ends at batch -1, Spark's at 1"),
        (_without_spark, "Spark's part is missing or of another stream"),
        (_of_another_query, "Spark's part is missing or of another stream"),
        (_without_output, "out: gone or emptied"),
        (_foreign_output, "out: not empty, and not the output of a stream"),
        (_output_of_another, "out: holds the output of another checkpoint"),
    ],
)
def test_what_does_not_fit_is_refused_and_left_as_it_is(opened, tmp_path, change, words):
    """The message names the directory and what is wrong; no file is changed."""
    checkpoint_log = opened()
    do_batch(checkpoint_log, 0)
    do_batch(checkpoint_log, 1)
    change(tmp_path / "checkpoint", tmp_path / "out")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointMismatch, match=words):
        opened()
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["operations", "events"])
def test_other_sources_are_refused(opened, name):
    """The message names the source of the checkpoint and the wanted one."""
    opened()
    with pytest.raises(CheckpointMismatch, match=f"whose {name} is .*, not json:/in/other;"):
        opened(SOURCES | {name: "json:/in/other"})
