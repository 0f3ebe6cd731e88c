"""Archives the classes that Spark loads: a Java process with the archive starts in half the time.

    python -m tests.testing.java_classes ARCHIVE

The Makefile calls this once for an environment, as an archive is of one Java and one set of jars. A
Java process that cannot use the archive starts without it.
"""

import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext

from purgatory.spark.batch.job import resolve_files
from purgatory.spark.session import local_session
from purgatory.trace import KeyEvent, Operation
from tests.testing.java import SHORT_LIVED_OPTIONS
from tests.testing.stream_input import StreamInput


def archive_classes(archive):
    """Write the archive, which the Java process does at its end."""
    draft = archive.with_suffix(".tmp")
    options = f"{SHORT_LIVED_OPTIONS} -Xlog:disable -XX:ArchiveClassesAtExit={draft}"
    conf = {"spark.driver.extraJavaOptions": options}
    spark = local_session(cores=2, memory="1g", conf=conf)
    with tempfile.TemporaryDirectory() as directory:
        resolve_trace(spark, Path(directory))
    spark.stop()
    java = SparkContext._gateway.proc
    SparkContext._gateway.shutdown()
    java.stdin.close()
    java.wait()
    draft.touch()  # some Javas cannot write one
    draft.replace(archive)


def resolve_trace(spark, path):
    """Load the classes of a small batch: those of streams and reports would not pay."""
    feed = StreamInput(path)
    feed.put("operations", [Operation("o", "", 0, 9, ("k",))])
    feed.put("events", [KeyEvent("k", 5)])
    resolve_files(spark, f"{path}/operations", f"{path}/events", f"{path}/out")


if __name__ == "__main__":
    archive_classes(Path(sys.argv[1]))
