"""Processes that merge the output of a stream, to be killed at any moment; see `test_compaction`.

    python -m tests.testing.killed_compaction CHECKPOINT ARCHIVE MEGABYTES

For each line of stdin a child begins, which prints its number; a line follows when the child has
ended. A child works in the Java process of the test, which survives it and may even end its job. A
fork takes no time to import Spark.
"""

import functools
import os
import sys
import traceback

from pyspark import SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from purgatory.spark.stream.compaction import Archive, merge_parquet


def joined_session():
    """Return the session of the Java process that the environment names."""
    gateway = launch_gateway()
    java = gateway.jvm.org.apache.spark
    context = java.api.java.JavaSparkContext(java.SparkContext.getOrCreate())
    return SparkSession(SparkContext(gateway=gateway, jsc=context))


def main(checkpoint, archive, max_bytes):
    """Merge what is committed, unless killed."""
    spark = joined_session()
    merge = functools.partial(merge_parquet, spark)
    say(str(os.getpid()))
    Archive(spark, checkpoint, archive, merge).take(max_bytes)


def say(line):
    """Write a line to the test."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_child(*arguments):
    """Merge in a child, and wait for its end."""
    child = os.fork()
    if child == 0:
        try:
            main(*arguments)
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.waitpid(child, 0)
    say("ended")


if __name__ == "__main__":
    for _ in sys.stdin:
        run_child(sys.argv[1], sys.argv[2], int(sys.argv[3]))
