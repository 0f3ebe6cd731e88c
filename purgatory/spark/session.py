"""Spark sessions: an existing one, or a quick and quiet local session.

Spark keeps one context per process: open sessions from a single thread at a time. Any thread may
use the session.
"""

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from _purgatory_cpython.threads import InterruptibleThread
from purgatory.spark.errors import JAVA_GONE, SPARK_ERRORS, SessionFailed
from purgatory.spark.java import java_for_spark

_MIB: Final = 2**20
_MIN_MEMORY_MIB: Final = 1024  # Spark reserves a good part of it

# No logger can silence these lines.
_NOTICES: Final = (
    "Setting Spark log level to ",
    "Starting Streaming TransformWithStateInPandas",
    "Streaming TransformWithStateInPandas Python worker",
    "\n",
)
_STDERR_JOIN_S: Final = 5.0  # for the last output of a process that has ended

_FILE_MANAGER: Final = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
# Options of Java may come from these, too.
_JAVA_VARIABLES: Final = (
    "SPARK_SUBMIT_OPTS",
    "JDK_JAVA_OPTIONS",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
)
_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC\b")

# For work of seconds: Java's second compiler would take half of the time and save none. Without it
# Java's default for compiled code would be too small. One thread collects garbage.
SHORT_WORK: Final[Mapping[str, str]] = {
    _JAVA_OPTIONS: ("-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")
}

# spark-submit sets the variable: the Java process runs already.
_GATEWAY_PORT_VARIABLE: Final = "PYSPARK_GATEWAY_PORT"


@contextmanager
def open_session(
    spark: SparkSession | None = None,
    *,
    cores: int | None = None,
    memory: str | None = None,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Provide a session within a `with` block.

    Uses the given or active session. Else starts one, and stops it at the end: under spark-submit
    with the settings given there, otherwise as `local_session`.
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
    except JAVA_GONE as error:
        if isinstance(error, BrokenPipeError) and _is_alive(own):  # of the command's output
            raise
        raise SessionFailed("Spark's Java process has ended") from error
    finally:
        with suppress(*JAVA_GONE):
            own.stop()


def _is_alive(spark: SparkSession) -> bool:
    try:
        return bool(spark._jsparkSession.version())
    except JAVA_GONE:
        return False


def local_session(
    *, cores: int | None = None, memory: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """Start a session in a local Java process; the caller stops the session.

    `cores`: number of worker threads, by default the cores that this process may use. `memory`: as
    Java writes it ("4g"), by default a quarter of the machine's. `conf` adds to the settings, or
    overrides them. Raises `JavaNotFound` or `SessionFailed`. A Java process of an earlier session
    is used again, with its memory.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    settings = _settings(cores or usable or 1, memory or _quarter_of_memory())
    spark_conf = SparkConf(loadDefaults=False).setAll([*(settings | dict(conf or {})).items()])
    with _spark_environment():
        if SparkContext._gateway is not None:  # no public way to ask
            return SparkSession.builder.config(conf=spark_conf).getOrCreate()
        return _start(spark_conf)


@contextmanager
def temporary_settings(spark: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Set options of a session within a `with` block."""
    before = {name: spark.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _settings(cores: int, memory: str) -> dict[str, str]:
    return {
        "spark.app.name": "purgatory",
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": memory,
        _JAVA_OPTIONS: _collector_option(),
        # Machines' names often do not resolve.
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Failures are raised in Python; logging would report them twice.
        "spark.log.level": "FATAL",
        # The default of 200 is for clusters; here each partition costs a task.
        "spark.sql.shuffle.partitions": str(cores),
        # One micro-batch has as many generated classes as the default keeps.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Replanning after each stage makes a small job slower.
        "spark.sql.adaptive.enabled": "false",
        # These record details that are not used.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.ui.explainMode": "simple",
        # Rows are cached for seconds: compressing costs more than it saves.
        "spark.sql.inMemoryColumnarStorage.compressed": "false",
        # The default starts a process for each renamed file.
        "spark.sql.streaming.checkpointFileManagerClass": _FILE_MANAGER,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
    }


def _collector_option() -> str:
    """Choose the garbage collector, unless the environment does: Java refuses two.

    The default collector keeps pauses short by more work.
    """
    given = (os.environ.get(name, "") for name in _JAVA_VARIABLES)
    return "" if any(map(_COLLECTOR.search, given)) else "-XX:+UseParallelGC"


def _start(conf: SparkConf) -> SparkSession:
    """Start Java; show its output only on failure."""
    stderr = _StderrRelay()
    try:
        # In a session of its own: a signal to the group would end Java before this process can stop
        # its query. Java ends with its stdin.
        options = {"stderr": stderr.writer, "start_new_session": True}
        gateway = launch_gateway(conf, options)  # type: ignore[no-untyped-call]
        context = SparkContext(conf=conf, gateway=gateway)
        # Otherwise it writes a trace when Java is killed.
        context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
        return SparkSession.builder.getOrCreate()
    except SPARK_ERRORS as error:
        raise SessionFailed(f"Spark did not start: {stderr.collected() or error}") from error
    finally:
        stderr.stop_collecting()


class _StderrRelay:
    """Relays stderr of the Java process, except what it wrote before `stop_collecting`.

    No setting silences the start of Java. `_lock` guards `_collected`, None after
    `stop_collecting`. A daemon thread, `spark-stderr`, reads until the Java process ends.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._collected: list[str] | None = []
        reader, self.writer = os.pipe()  # the Java process writes to it
        self._thread = InterruptibleThread(
            target=self._pass_on, args=(reader,), name="spark-stderr", daemon=True
        )
        self._thread.start()

    def collected(self) -> str:
        """Return the output of an ended Java process, in one line."""
        self._close_writer()
        self._thread.join(_STDERR_JOIN_S)
        with self._lock:
            lines = [line.strip() for line in self._collected or ()]
        return "; ".join(line for line in lines if line and not line.startswith("at "))

    def stop_collecting(self) -> None:
        self._close_writer()
        with self._lock:
            self._collected = None

    def _close_writer(self) -> None:
        # Else the reader sees no end of file.
        writer, self.writer = self.writer, -1
        if writer >= 0:
            os.close(writer)

    def _pass_on(self, reader: int) -> None:
        with open(reader, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with self._lock:
                    if self._collected is not None:
                        self._collected.append(line)
                        continue
                if sys.stderr is not None and not line.startswith(_NOTICES):
                    sys.stderr.write(line)


@contextmanager
def _spark_environment() -> Iterator[None]:
    with java_for_spark() as home:
        wanted = {"JAVA_HOME": str(home)}
        if "PYSPARK_PYTHON" not in os.environ:
            wanted["PYSPARK_PYTHON"] = sys.executable  # the default: first python3 on the PATH
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


def _quarter_of_memory() -> str:
    pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return f"{max(_MIN_MEMORY_MIB, pages * size // 4 // _MIB)}m"
