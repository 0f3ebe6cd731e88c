"""An archive: rows of small files, each once in larger ones, wherever a process ends.

Without Spark: small texts stand for Parquet files, a row a line.
"""

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from purgatory.cli.entry_point import main
from purgatory.spark.batch.job import resolve_files
from purgatory.spark.errors import CheckpointMismatch, SparkError
from purgatory.spark.filesystem import LocalFileSystem
from purgatory.spark.stream import compaction as archive_module
from purgatory.spark.stream.compaction import Archive, merge_parquet
from purgatory.spark.stream.entry import CheckpointEntry
from purgatory.trace import KeyEvent, Operation, read_outcomes
from tests.testing.archives import outcome_files
from tests.testing.fragile_disk import FragileFileSystem, FragileObjectStore, Killed
from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, joined, random_traces

BATCHES = 5  # the last one is published, but not committed


@pytest.fixture
def stream(tmp_path):
    """The output of a stream with two files of outcomes a micro-batch, and some others."""
    checkpoint = tmp_path / "checkpoint"
    settings = {"format": 2, "id": "mine", "out": str(tmp_path / "out"), "shards": [0]}
    write(checkpoint / "stream.json", json.dumps(settings))
    entry = CheckpointEntry(batch=BATCHES - 2)
    write(checkpoint / "progress" / f"{entry.batch:09}", json.dumps(asdict(entry)))
    write(tmp_path / "out" / "_stream.json", json.dumps({"stream": "mine"}))
    for batch in range(BATCHES):
        for number in range(2):
            write(tmp_path / "out" / part(batch, number), f"{batch} {number}\n")
    for batch in (0, 2):
        write(tmp_path / "out" / "_late" / "events" / part(batch, 0), f"late {batch}\n")
    write(tmp_path / "out" / "_rejected" / part(1, 0), "rejected\n")
    return tmp_path


@pytest.fixture
def take(stream, monkeypatch):
    """A function that merges on a disk, files of up to so many bytes each."""

    def take(disk=None, archive="archive", max_bytes=10**6, merge=merge_texts):
        def file_system_for(_, path):
            return disk or LocalFileSystem(), path

        monkeypatch.setattr(archive_module, "file_system_for", file_system_for)
        directory = str(stream / archive)
        return Archive(None, str(stream / "checkpoint"), directory, merge).take(max_bytes)

    return take


def write(path, text):
    """Write a file; create its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def part(batch, number):
    """Return the name of a file of a micro-batch."""
    return f"part-{batch:09}-{number:03}.parquet"


def merge_texts(paths, directory):
    """Do what Spark does when it writes the rows of files as one file."""
    text = "".join(Path(path).read_text() for path in paths)
    write(Path(directory) / "_SUCCESS", "")
    write(Path(directory) / "part-00000.parquet", text)


def rows(*files):
    """Return the rows of files, sorted."""
    return sorted(row for file in files for row in file.read_text().splitlines())


def names(directory):
    """Return the names that a reader of a directory sees."""
    return sorted(file.name for file in directory.glob("[!_.]*"))


ALL = sorted(f"{batch} {number}" for batch in range(BATCHES) for number in range(2))


def test_what_is_committed_goes_into_the_archive(take, stream):
    """Each output has a file of its own; the micro-batch that may be repeated stays."""
    outcomes, rejected, late = take()
    assert (outcomes.first, outcomes.last, outcomes.files) == (0, 3, 8)
    assert names(stream / "archive") == ["part-000000000-000000003.parquet"]
    assert names(stream / "out") == [part(4, 0), part(4, 1)]
    assert rows(Path(outcomes.target)) == ALL[:8]
    assert rows(Path(rejected.target)) == ["rejected"]
    assert rows(Path(late.target)) == ["late 0", "late 2"]
    assert take() == []


def test_drafts_of_a_process_that_has_ended_are_deleted(take, stream):
    """They would fill the archive's disk: no reader looks at them, and no merge."""
    take()
    drafts = stream / "archive" / "_staging"
    write(drafts / "0" / "part-00000.parquet", "of a killed process")
    take()
    assert not drafts.exists()
    assert rows(*(stream / "archive").glob("*.parquet")) == ALL[:8]


def test_a_file_has_a_size(take, stream):
    """Files of one micro-batch stay together, also if they are larger."""
    done = take(max_bytes=9)
    assert [(m.output, m.first, m.last) for m in done][:4] == [("", n, n) for n in range(4)]
    assert rows(*(stream / "archive").glob("*.parquet")) == ALL[:8]


def test_an_archive_may_be_followed_by_another(take, stream):
    """Each row is in one of them."""
    take(archive="january")
    entry = CheckpointEntry(batch=BATCHES - 1)
    write(stream / "checkpoint" / "progress" / f"{entry.batch:09}", json.dumps(asdict(entry)))
    take(archive="february")
    assert names(stream / "february") == ["part-000000004-000000004.parquet"]
    assert rows(*stream.glob("*ary/*.parquet")) == ALL


@pytest.mark.parametrize("kind", [FragileFileSystem, FragileObjectStore])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_each_row_is_there_once_wherever_a_process_ends(take, stream, done, kind):
    """A kill at any file operation, and one in the next process, lose and double nothing."""
    shutil.copytree(stream, stream / "kept")
    for steps in itertools.count(1):
        killed = []
        for again in (steps, steps % 5 + 1):
            try:
                take(kind(again, done=done), max_bytes=20)
            except Killed:
                killed.append(again)
            archived = rows(*(stream / "archive").glob("*.parquet"))
            assert archived == ALL[: len(archived)]
            assert rows(*outcome_files(stream / "out", stream / "archive")) == ALL
        take(max_bytes=20)
        assert rows(*(stream / "archive").glob("*.parquet")) == ALL[:8]
        assert rows(*(stream / "archive").glob("_late/*/*.parquet")) == ["late 0", "late 2"]
        assert names(stream / "out") == [part(4, 0), part(4, 1)]
        for name in ("out", "checkpoint", "archive"):
            shutil.rmtree(stream / name)
            if name != "archive":
                shutil.copytree(stream / "kept" / name, stream / name)
        if steps not in killed[:1]:  # this process was not killed
            assert steps > 15
            return


@pytest.mark.parametrize("moment", ["before", "after"])
def test_of_two_processes_at_a_time_one_is_refused(take, stream, moment):
    """Whether the other one ran before or after the file was written."""

    def overtaken(paths, directory):
        if moment == "after":
            merge_texts(paths, directory)
        take()
        if moment == "before":
            merge_texts(paths, directory)

    refused = {"before": FileNotFoundError, "after": SparkError}
    with pytest.raises(refused[moment]):
        take(merge=overtaken)
    assert rows(*(stream / "archive").glob("*.parquet")) == ALL[:8]
    assert rows(*outcome_files(stream / "out", stream / "archive")) == ALL


class _Slow(LocalFileSystem):
    """A disk on which another process clears the staging directory after a merge was decided."""

    def __init__(self, other):
        self.other = other

    def move_new(self, source, target):
        shutil.rmtree(Path(source).parents[1])
        self.other()
        return super().move_new(source, target)


def test_a_merge_without_its_file_counts_for_nothing(take, stream):
    """Nothing is deleted for it, and the next process merges its rows."""

    def look():
        assert rows(*outcome_files(stream / "out", stream / "archive")) == ALL

    with pytest.raises(SparkError, match="another process merges"):
        take(_Slow(look))
    look()
    assert len(take()) == 3
    assert rows(*(stream / "archive").glob("*.parquet")) == ALL[:8]


def _foreign_archive(stream):
    write(stream / "archive" / "mine.txt", "")


def _archive_of_another(stream):
    write(stream / "archive" / "_stream.json", json.dumps({"stream": "other"}))


def _damaged(stream):
    write(stream / "checkpoint" / "merges" / "000000000", '{"output": ""}')


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_foreign_archive, "archive: not empty, and not the output of a stream"),
        (_archive_of_another, "archive: holds the output of another checkpoint"),
        (_damaged, "merges/000000000: damaged"),
    ],
)
def test_what_does_not_fit_is_refused(take, stream, change, words):
    """The message names the directory; no outcome is touched."""
    change(stream)
    with pytest.raises(CheckpointMismatch, match=words):
        take()
    assert rows(*(stream / "out").glob("*.parquet")) == ALL


@pytest.mark.parametrize("archive", ["out", "out/archive"])
def test_an_archive_within_the_output_is_refused(take, archive):
    """A reader of the output would find rows twice."""
    with pytest.raises(SparkError, match="an archive lies outside of the output"):
        take(archive=archive)


def test_a_checkpoint_that_is_not_there_is_named(take, stream):
    """Not: no rows to merge."""
    shutil.rmtree(stream / "checkpoint")
    with pytest.raises(SparkError, match="checkpoint: no checkpoint"):
        take()


ROOT = Path(__file__).parents[4]
FILES = 2 + int(os.environ.get("PURGATORY_KILLS", "0"))  # a micro-batch each
# A merge takes about so long on an idle machine.
LONGEST_SECONDS = 1.0


class KilledAgainAndAgain(threading.Thread):
    """Lets a process merge, and kills it at a random moment, again and again until stopped."""

    def __init__(self, spark, *arguments):
        super().__init__()
        gateway = spark.sparkContext._gateway.gateway_parameters
        self.environment = os.environ | {
            "PYSPARK_GATEWAY_PORT": str(gateway.port),
            "PYSPARK_GATEWAY_SECRET": gateway.auth_token,
        }
        self.command = [sys.executable, "-m", "tests.testing.killed_compaction", *arguments]
        self.stopping = threading.Event()
        self.kills = 0
        self.errors = []

    def run(self):
        """Kill until stopped."""
        with subprocess.Popen(
            self.command,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as parent:
            while not self.stopping.is_set():
                self.kill_one(parent)
            _, said = parent.communicate()
        self.errors += [said] if "Error" in said else []

    def kill_one(self, parent):
        """Let the parent start a child, and kill that some time later."""
        parent.stdin.write("\n")
        parent.stdin.flush()
        line = parent.stdout.readline()
        if line.strip().isdigit():
            self.stopping.wait(random.uniform(0, LONGEST_SECONDS))  # no event tells the moment
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(line), signal.SIGKILL)
            self.kills += 1
            parent.stdout.readline()


@contextlib.contextmanager
def killed_again_and_again(spark, *arguments):
    """Merge in processes that are killed, within a `with` block."""
    thread = KilledAgainAndAgain(spark, *arguments)
    thread.start()
    try:
        yield thread
    finally:
        thread.stopping.set()
        thread.join()


def outcomes(files):
    """Return the outcomes in files, sorted."""
    found = []
    for file in files:
        with read_outcomes(file) as rows:
            found += rows
    return sorted(found, key=repr)


@pytest.mark.timeout(400)  # several micro-batches, on a machine that may be busy
def test_kills_at_random_beside_a_stream(spark, tmp_path, capsys):
    """A reader of the archive finds each outcome at most once, one of both directories all."""
    trace = joined(random_traces(40))
    wanted = expected(trace)
    feed = StreamInput(tmp_path)
    feed.put_trace(trace, FILES)
    archive = tmp_path / "archive"
    arguments = ["--checkpoint", str(feed.checkpoint), "--archive", str(archive)]
    stream = feed.stream(spark, watermark_ms=0)
    with killed_again_and_again(spark, str(feed.checkpoint), str(archive), "1") as killer:
        stream.run(until_end=True)
    assert killer.kills
    assert killer.errors == []
    assert outcomes(outcome_files(feed.out, archive)) == wanted
    archived = outcomes(archive.glob("*.parquet"))
    assert len(archived) == len(set(archived))
    assert main(["spark", "compact", *arguments]) == 0
    assert capsys.readouterr().out.endswith(f"-> {archive}\n")
    assert outcomes(archive.glob("*.parquet")) == wanted
    assert feed.outcomes() == []


def test_a_file_that_cannot_be_read_is_not_merged(spark, tmp_path):
    """Whatever the session says of damaged files: its rows would be deleted with it."""
    spark.range(3).coalesce(1).write.parquet(f"{tmp_path}/good")
    (good,) = (tmp_path / "good").glob("*.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing PAR1")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(SparkError, match=r"bad\.parquet"):
            merge_parquet(spark, [str(good), f"{tmp_path}/bad.parquet"], f"{tmp_path}/merged")
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", ["run[1]{a,b}?*", "a:b"])
def test_names_that_look_like_patterns(spark, tmp_path, name):
    """Outputs, checkpoints and archives are written there, and read from there."""
    feed = StreamInput(tmp_path / name)
    for number in range(2):
        feed.put("operations", [Operation(f"o{number}", "kind", number, 10, ("k",), 1)])
        feed.put("events", [KeyEvent("k", 5 + number)])
    tables = [str(feed.path / table) for table in ("operations", "events")]
    resolve_files(spark, *tables, str(feed.path / "batch"))
    with read_outcomes(feed.path / "batch") as rows:
        wanted = sorted(rows, key=repr)
    assert len(wanted) == 2
    for until_end in (False, True):
        feed.stream(spark, watermark_ms=10).run(once=not until_end, until_end=until_end)
    assert feed.outcomes() == wanted
    archive = str(feed.path / "archive")
    Archive(spark, str(feed.checkpoint), archive, partial(merge_parquet, spark)).take()
    with read_outcomes(archive) as rows:
        assert sorted([*feed.outcomes(), *rows], key=repr) == wanted
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("wrong", ["0", "some"])
def test_a_wrong_size_is_refused(capsys, wrong):
    """Before Spark is started."""
    given = ["--checkpoint", "c", "--archive", "a", "--megabytes", wrong]
    assert main(["spark", "compact", *given]) == 2
    assert "--megabytes" in capsys.readouterr().err
