"""Another default file system for a Spark session, as on a cluster."""

from contextlib import contextmanager


@contextmanager
def viewfs_as_default(spark, name, path):
    """Make viewfs://NAME/ the default, with `path` as its /data.

    Hadoop keeps a file system by its name, with what it was made of: each test has its own.
    """
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    before = configuration.get("fs.defaultFS")
    configuration.set(f"fs.viewfs.mounttable.{name}.link./data", path.as_uri())
    configuration.set("fs.defaultFS", f"viewfs://{name}/")
    try:
        yield
    finally:
        configuration.set("fs.defaultFS", before)
