"""Spark's errors as errors of one line."""

import pytest
from pyspark.errors import AnalysisException

from purgatory.spark.errors import SparkError, error_message, wrapping_spark_errors


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
