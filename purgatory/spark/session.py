"""A Spark session: the one that there is, or a local one that starts quickly and quietly.

`open_session` decides; `local_session` makes. Spark keeps one context a process, so call these
from one thread at a time; the session itself may be used from any.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from purgatory.spark.errors import SPARK_ERRORS, SessionFailed
from purgatory.spark.java import java_for_spark

_MIB: Final = 2**20
_MIN_MEMORY_MIB: Final = 1024  # with less, Spark's own reserve leaves little to work with

# Said each time a context starts with a log level of its own, by no logger.
_LOG_LEVEL_NOTICE: Final = "Setting Spark log level to "
_STDERR_JOIN_S: Final = 5.0  # seconds to wait for what a child said that has ended

_FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

# Set by spark-submit for the program that it runs: the Java process is there already.
_GATEWAY_PORT_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"


@contextmanager
def open_session(
    spark: SparkSession | None = None,
    *,
    cores: int | None = None,
    memory: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Give a session for the length of a `with` block.

    A session handed in, or else the active one, is used as it is and left running. Under
    spark-submit a session is made from the settings given there. Otherwise a local one is made
    with `cores`, `memory` and `conf` (see `local_session`) and stopped at the end.
    """
    given = spark or SparkSession.getActiveSession()
    if given is not None:
        yield given
        return
    if _GATEWAY_PORT_VARIABLE in os.environ:
        own = SparkSession.builder.appName("purgatory").getOrCreate()
    else:
        own = local_session(cores=cores, memory=memory, conf=conf)
    try:
        yield own
    finally:
        own.stop()


def local_session(
    *,
    cores: int | None = None,
    memory: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start a session in a Java process on this machine; the caller stops it.

    `cores`: threads that work, default those that this process may use. `memory`: as Java writes
    it ("4g"), default a quarter of the machine's. `conf` adds to the settings, or overrides them.
    Raises `JavaNotFound` or `SessionFailed`. A Java process that this Python process has started
    earlier is used again, with the memory that it has.
    """
    settings = _settings(cores or _usable_cores(), memory or _quarter_of_memory())
    spark_conf = SparkConf(loadDefaults=False).setAll([*(settings | dict(conf or {})).items()])
    with _spark_environment():
        if SparkContext._gateway is not None:  # no public way to ask
            return SparkSession.builder.config(conf=spark_conf).getOrCreate()
        return _start(spark_conf)


def _settings(cores: int, memory: str) -> dict[str, str]:
    return {
        "spark.app.name": "purgatory",
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        # Nobody else needs to reach it; and a machine's own name often resolves to nothing.
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Whatever fails is raised here too, and told once.
        "spark.log.level": "FATAL",
        # The default of 200 is for clusters; here each one costs a task and nothing else.
        "spark.sql.shuffle.partitions": str(cores),
        # One micro-batch has as many generated classes as are kept by default, so that each would
        # have to be compiled again for the next.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Planned anew after each of its stages, a small job takes a tenth longer; and what that is
        # for, parts that turn out too many or too large, one process has not.
        "spark.sql.adaptive.enabled": "false",
        # What each of these writes down, about every column and every plan, nobody here reads.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.ui.explainMode": "simple",
        # Rows are kept for seconds and used a few times: packing them takes longer than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # The default asks a new process about each file before it renames it.
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
    }


def _start(conf: SparkConf) -> SparkSession:
    """Start Java; what it says while it starts is shown only if it does not."""
    stderr = _StderrRelay()
    try:
        gateway = launch_gateway(conf, {"stderr": stderr.write_end()})  # type: ignore[no-untyped-call]
        SparkContext(conf=conf, gateway=gateway)
        return SparkSession.builder.getOrCreate()
    except SPARK_ERRORS as error:
        raise SessionFailed(f"Spark did not start: {stderr.collected() or error}") from error
    finally:
        stderr.stop_collecting()


class _StderrRelay:
    """Relays stderr of the Java process, except what was written before `stop_collecting`.

    No setting keeps Java from writing some of that. `_collected` is guarded by `_lock`; None after
    `stop_collecting`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collected: list[str] | None = []
        reader, self._writer = os.pipe()
        # A daemon: the child lives as long as this process, and its stderr ends after that.
        self._thread = threading.Thread(
            target=self._pass_on, args=(reader,), name="spark-stderr", daemon=True
        )
        self._thread.start()

    def write_end(self) -> int:
        """The file descriptor for the child to write to."""
        return self._writer

    def collected(self) -> str:
        """What a child that has ended said, in one line without Java's stack of calls."""
        self._close_writer()
        self._thread.join(_STDERR_JOIN_S)
        with self._lock:
            lines = [line.strip() for line in self._collected or ()]
        return "; ".join(line for line in lines if line and not line.startswith("at "))

    def stop_collecting(self) -> None:
        """Pass on what comes from now on, until the child ends."""
        self._close_writer()
        with self._lock:
            self._collected = None

    def _close_writer(self) -> None:
        """The child has an end of its own; with ours open, the reader would never see the last."""
        writer, self._writer = self._writer, -1
        if writer >= 0:
            os.close(writer)

    def _pass_on(self, reader: int) -> None:
        with open(reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with self._lock:
                    if self._collected is not None:
                        self._collected.append(line)
                        continue
                if sys.stderr is not None and not line.startswith(_LOG_LEVEL_NOTICE):
                    sys.stderr.write(line)


@contextmanager
def _spark_environment() -> Iterator[None]:
    """Let Spark see the Java found and this Python; the variables are as before afterwards."""
    with java_for_spark() as home:
        wanted = {"JAVA_HOME": str(home)}
        if "PYSPARK_PYTHON" not in os.environ:
            wanted["PYSPARK_PYTHON"] = sys.executable  # else the first python3 on the PATH
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quarter_of_memory() -> str:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{max(_MIN_MEMORY_MIB, pages * size // 4 // _MIB)}m"
