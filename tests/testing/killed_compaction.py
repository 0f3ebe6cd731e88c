"""A process that merges the output of a stream, to be killed at any moment; see `test_compaction`.

    python -m tests.testing.killed_compaction CHECKPOINT ARCHIVE MEGABYTES

It works in the Java process of the test, which survives it and may even end its job. It prints a
line when it begins.
"""

import functools
import sys

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
    sys.stdout.write("begun\n")
    sys.stdout.flush()
    Archive(spark, checkpoint, archive, merge).take(max_bytes)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
