"""Compaction beside a running stream, killed again and again: each outcome is there once."""

import contextlib
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from purgatory.cli.entry_point import main
from purgatory.spark.errors import SparkError
from purgatory.spark.stream.compaction.archive import merge_parquet
from purgatory.trace import read_outcomes
from tests.testing.archives import outcome_files
from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, joined, random_traces

ROOT = Path(__file__).parents[5]
FILES = 2 + int(os.environ.get("PURGATORY_KILLS", "0"))  # a micro-batch each
# A merge takes about so long on an idle machine.
LONGEST_SECONDS = 1.0


class KilledAgainAndAgain(threading.Thread):
    """Starts a process that merges, and kills it at a random moment, until stopped."""

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
        while not self.stopping.is_set():
            process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            if process.stdout.readline():
                self.stopping.wait(random.uniform(0, LONGEST_SECONDS))  # no event tells the moment
            process.kill()
            self.kills += 1
            _, said = process.communicate()
            self.errors += [said] if "Error" in said else []


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


@pytest.mark.parametrize("wrong", ["0", "some"])
def test_a_wrong_size_is_refused(capsys, wrong):
    """Before Spark is started."""
    given = ["--checkpoint", "c", "--archive", "a", "--megabytes", wrong]
    assert main(["spark", "compact", *given]) == 2
    assert "--megabytes" in capsys.readouterr().err
