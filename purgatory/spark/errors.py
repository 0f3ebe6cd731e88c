"""What can go wrong on Spark, save bad arguments; and Spark's own errors, put in one line.

Errors are immutable and may pass between threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from purgatory.errors import PurgatoryError


class SparkError(PurgatoryError):
    """Base of the errors of this package; the message is one line that names the culprit."""


class JavaNotFound(SparkError):
    """There is no Java that Spark can run on; the message says what to install."""


class SessionFailed(SparkError):
    """Spark's Java process did not start; the message ends with what it said."""


class TableError(SparkError):
    """A table cannot be read: a file, a missing column or a wrong type is named."""


class RejectedRows(SparkError):
    """Rows break the rules of their table, and the caller wanted none of them."""


class OutputExists(SparkError):
    """There is something where the output should go."""


class CheckpointMismatch(SparkError):
    """A checkpoint belongs to a stream with other settings; the message names the difference."""


# What Spark raises: its own errors in Python, and those of Java that it has no class for.
SPARK_ERRORS: Final = (PySparkException, Py4JError)


@contextmanager
def wrapping_spark_errors(doing: str) -> Iterator[None]:
    """Turn what Spark raises within the block into a `SparkError`: `doing`, and what went wrong."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise SparkError(f"{doing}: {error_message(error)}") from error


def error_message(error: BaseException) -> str:
    """What an error of Spark says, in one line: the first line of it, and that of its cause."""
    if not isinstance(error, Py4JJavaError):
        return _first_line(str(error)) or type(error).__name__
    lines = []
    java = error.java_exception
    while java is not None:
        lines.append(_first_line(java.getMessage() or java.getClass().getSimpleName()))
        java = java.getCause()
    # Those between say where in Spark it happened.
    return lines[0] if lines[-1] in lines[0] else f"{lines[0]} {lines[-1]}"


def _first_line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first.partition(" SQLSTATE: ")[0].strip()
