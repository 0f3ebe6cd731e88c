"""Spark's errors as errors of one line."""

import os

import pytest
from pyspark.errors import AnalysisException

from purgatory.spark.errors import SparkError, error_message, wrapping_spark_errors
from purgatory.trace import TraceError


def test_an_error_of_spark_is_wrapped_in_one_line(spark):
    """It says what was done; the code of SQL is left out."""
    with pytest.raises(SparkError) as caught, wrapping_spark_errors("counting"):
        spark.range(1).select("nowhere").count()
    text = str(caught.value)
    assert text.startswith("counting: [UNRESOLVED_COLUMN")
    assert "nowhere" in text
    assert "\n" not in text
    assert "SQLSTATE" not in text
    assert isinstance(caught.value.__cause__, AnalysisException)


def test_an_error_of_java_names_its_root(spark):
    """The causes in between only say where in Spark it happened."""
    java = spark.sparkContext._jvm.java.lang
    root = java.IllegalStateException("the root\nand its trace")
    error = java.RuntimeException("it failed", java.RuntimeException("somewhere", root))
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of Java
        spark.sparkContext._jvm.scala.util.Failure(error).get()
    assert error_message(caught.value) == "it failed the root"


def test_an_error_without_text_has_its_name():
    """Some errors of Python say nothing."""
    assert error_message(ValueError()) == "ValueError"


class TwoLinesError(Exception):
    """An error whose text has several lines."""


def raise_plainly(batches):
    """Raise an error with a text."""
    raise ValueError("the reason")


def raise_own(batches):
    """Raise an error of this package."""
    raise TraceError("e.csv: damaged")


def raise_in_another(batches):
    """Raise an error while another one is handled."""
    try:
        raise KeyError("first")
    except KeyError:
        raise TwoLinesError("the reason\n  and more\nand more") from None


def end_the_worker(batches):
    """End the process."""
    os._exit(1)


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (raise_plainly, "counting: ValueError: the reason"),
        (raise_own, "counting: e.csv: damaged"),
        (raise_in_another, "TwoLinesError: the reason"),
        (end_the_worker, "Python worker exited unexpectedly"),
    ],
)
def test_an_error_of_a_python_worker_says_what_was_raised(spark, work, said):
    """Not only that a worker failed, in a batch as in a stream."""
    with pytest.raises(SparkError) as caught, wrapping_spark_errors("counting"):
        spark.range(1).mapInArrow(work, "id long").collect()
    assert said in str(caught.value)
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = rows.select("value").mapInArrow(work, "id long").writeStream.format("noop")
    with pytest.raises(SparkError) as caught, wrapping_spark_errors("counting"):
        writer.start().awaitTermination()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
