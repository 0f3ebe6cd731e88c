"""spark-submit: each command from the zip, with no package but what the docs name."""

import importlib
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pyspark
import pytest

from purgatory.spark.java import java_for_spark
from purgatory.spark.package import write_package
from purgatory.trace import read_outcomes, write_events, write_operations, write_outcomes
from tests.testing.java import SHORT_LIVED_OPTIONS
from tests.testing.traces import expected, joined, random_traces

CLUSTER = {
    "spark.driver.extraJavaOptions": SHORT_LIVED_OPTIONS,
    "spark.executor.extraJavaOptions": SHORT_LIVED_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


# What docs/spark.md says that the driver needs, and what these import.
INSTALLED = ("pyspark", "py4j", "pyarrow")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """A Python that has PySpark and pyarrow, and nothing else."""
    home = tmp_path_factory.mktemp("bare")
    venv.create(home, with_pip=False, symlinks=True)
    (packages,) = home.glob("lib/python*/site-packages")
    for name in INSTALLED:
        (packages / name).symlink_to(Path(importlib.import_module(name).__file__).parent)
    python = home / "bin" / "python"
    for name in ("rich", "pandas", "numpy", "matplotlib", "purgatory"):
        missing = subprocess.run([python, "-Ic", f"import {name}"], capture_output=True, text=True)
        assert "ModuleNotFoundError" in missing.stderr
    return python


def submit(python, tmp_path, *arguments, master="local[1]", partitions=1):
    """Run the packaged program under spark-submit, with this Python."""
    archive, program = write_package(tmp_path / "package")
    settings = CLUSTER | {
        "spark.eventLog.dir": f"file:{tmp_path}/log",
        "spark.sql.shuffle.partitions": str(partitions),
    }
    (tmp_path / "log").mkdir()
    command = [
        str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
        *("--master", master),
        *(word for name, value in settings.items() for word in ("--conf", f"{name}={value}")),
        *("--py-files", str(archive), str(program), *arguments),
    ]
    with java_for_spark() as home:
        environment = {
            "PATH": os.environ["PATH"],
            "JAVA_HOME": str(home),
            "PYSPARK_PYTHON": str(python),
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


@pytest.fixture(scope="module")
def trace():
    """Operations and events of twenty traces."""
    return joined(random_traces(20))


def write_trace(trace, directory):
    """Write the tables of a trace, each in a directory."""
    for table, write, rows in zip(
        ("operations", "events"), (write_operations, write_events), trace, strict=True
    ):
        (directory / table).mkdir()
        with write(directory / table / "1.parquet") as out:
            for row in rows:
                out.write(row)


@pytest.mark.timeout(300)  # five Java processes, on a machine that may be busy
def test_resolve_on_several_workers(bare_python, trace, tmp_path):
    """Both workers run tasks, and the outcomes are the oracle's."""
    write_trace(trace, tmp_path)
    done = submit(
        bare_python, tmp_path, "resolve", "operations", "events", "--out", "out",
        master="local-cluster[2,1,1024]", partitions=4,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with read_outcomes(tmp_path / "out") as rows:
        assert expected(trace) == sorted(rows, key=repr)
    assert f"{len(trace[0]):,} operations" in done.stdout
    assert {"0", "1"} == executors_of_tasks(tmp_path / "log")


@pytest.mark.timeout(300)
def test_run(trace, tmp_path):
    """The stream needs pandas and protobuf, too."""
    write_trace(trace, tmp_path)
    done = submit(
        sys.executable, tmp_path, "run", "--operations", "operations", "--events", "events",
        "--out", "out", "--checkpoint", "checkpoint", "--until-end",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with read_outcomes(tmp_path / "out") as rows:
        assert expected(trace) == sorted(rows, key=repr)


@pytest.mark.timeout(300)
def test_report(bare_python, trace, tmp_path):
    """Nor does the report, with its tables, page and data."""
    with write_outcomes(tmp_path / "outcomes.parquet") as out:
        for row in expected(trace):
            out.write(row)
    done = submit(
        bare_python,
        tmp_path,
        "report",
        "outcomes.parquet",
        "--html",
        "page.html",
        "--export",
        "data",
    )
    assert done.returncode == 0, done.stderr
    assert "Timeouts suggested" in done.stdout
    assert "What stands out" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (tmp_path / "data" / "kinds.csv").exists()
