"""An executor that is killed at random: each outcome is there once, and none is missing.

Runs only with `PURGATORY_KILLS` in the environment, so many times: each takes five Java processes.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyspark
import pytest

from purgatory.spark.java import java_for_spark
from purgatory.spark.package import write_package
from tests.testing.java import SHORT_LIVED_OPTIONS
from tests.testing.stream_input import StreamInput
from tests.testing.traces import expected, joined, random_traces

KILLS = int(os.environ.get("PURGATORY_KILLS", "0"))
FILES = 5
EXECUTOR = b"CoarseGrainedExecutorBackend"


def start(tmp_path):
    """Start the packaged stream on a cluster of two worker processes."""
    archive, program = write_package(tmp_path / "package")
    options = SHORT_LIVED_OPTIONS
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local-cluster[2,1,1024]", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.executor.extraJavaOptions={options}"),
        *("--py-files", str(archive), str(program), "run", "--until-end"),
        *("--max-files", "1", "--watermark", "0"),
    ]
    for name in ("operations", "events", "out", "checkpoint"):
        command += [f"--{name}", str(tmp_path / name)]
    with java_for_spark() as home:
        environment = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )


def executors(session):
    """Return the executors among the processes of a session."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            command = (directory / "cmdline").read_bytes()
            if EXECUTOR in command and os.getsid(int(directory.name)) == session:
                found.append(int(directory.name))
        except OSError:
            continue
    return found


@pytest.mark.skipif(not KILLS, reason="PURGATORY_KILLS is not set")
@pytest.mark.timeout(900)  # five Java processes, on a machine that may be busy
@pytest.mark.parametrize("_", range(KILLS))
def test_an_executor_that_is_killed(tmp_path, _):
    """Spark repeats its tasks elsewhere, from the state of the last micro-batch."""
    trace = joined(random_traces(40))
    feed = StreamInput(tmp_path)
    feed.put_trace(trace, FILES)
    rng = random.Random()
    batch = f"batch {rng.randrange(FILES - 1)},"
    said = []
    with start(tmp_path) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if line.startswith(batch):
                time.sleep(rng.uniform(0, 1.5))  # a kill at random, which no event tells
                os.kill(rng.choice(executors(process.pid)), signal.SIGKILL)
    assert process.returncode == 0, "".join(said)
    assert expected(trace) == feed.outcomes()
