"""spark-submit: the zip on a cluster of several worker processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from purgatory.spark.java import java_for_spark
from purgatory.spark.package import write_package
from purgatory.trace import read_outcomes, write_events, write_operations
from tests.testing.java import SHORT_LIVED_OPTIONS
from tests.testing.traces import expected, joined, random_traces

CLUSTER = {
    "spark.driver.extraJavaOptions": SHORT_LIVED_OPTIONS,
    "spark.executor.extraJavaOptions": SHORT_LIVED_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


def submit(tmp_path, *arguments):
    """Run the packaged program on a cluster of two worker processes."""
    archive, program = write_package(tmp_path / "package")
    settings = CLUSTER | {"spark.eventLog.dir": f"file:{tmp_path}/log"}
    (tmp_path / "log").mkdir()
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", "local-cluster[2,1,1024]"),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        *("--py-files", str(archive), str(program), *arguments),
    ]
    with java_for_spark() as home:
        environment = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        return subprocess.run(
            command, capture_output=True, text=True, timeout=280, cwd=tmp_path, env=environment
        )


def executors_of_tasks(log):
    """Return the executors that ran tasks, from Spark's event log."""
    (file,) = (path for path in log.iterdir() if path.is_file() and path.suffix != ".crc")
    events = map(json.loads, file.read_text().splitlines())
    return {e["Task Info"]["Executor ID"] for e in events if e["Event"] == "SparkListenerTaskEnd"}


@pytest.mark.timeout(300)  # five Java processes, on a machine that may be busy
def test_resolve_on_several_workers(tmp_path):
    """Both workers run tasks, and the outcomes are the oracle's."""
    operations, events = trace = joined(random_traces(50))
    with write_operations(tmp_path / "operations.parquet") as out:
        for row in operations:
            out.write(row)
    with write_events(tmp_path / "events.parquet") as out:
        for row in events:
            out.write(row)
    done = submit(tmp_path, "resolve", "operations.parquet", "events.parquet", "--out", "out")
    assert done.returncode == 0, done.stderr
    with read_outcomes(tmp_path / "out") as rows:
        assert expected(trace) == sorted(rows, key=repr)
    assert f"{len(operations):,} operations" in done.stdout
    assert {"0", "1"} == executors_of_tasks(tmp_path / "log")
