"""The errors of this package, and Spark's own errors turned into them.

Bad arguments raise ValueError instead. Errors are immutable and may pass between threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from purgatory.errors import PurgatoryError


class SparkError(PurgatoryError):
    """Base of the errors of this package; the message is one line that names the cause."""


class JavaNotFound(SparkError):
    """No Java that Spark can run on was found; the message says what to install."""


class SessionFailed(SparkError):
    """Spark's Java process did not start; the message ends with its own error output."""


class TableError(SparkError):
    """A table cannot be read; the message names the file, the missing column or the wrong type."""


class RejectedRows(SparkError):
    """Rows break the rules of their table, and the caller asked to fail then (`strict`)."""


class OutputExists(SparkError):
    """The directory for the output already holds files."""


class CheckpointMismatch(SparkError):
    """A checkpoint does not fit the stream that opens it; the message names the difference."""


# What Spark raises: its own errors in Python, and errors of Java without a class in Python.
SPARK_ERRORS: Final = (PySparkException, Py4JError)


@contextmanager
def wrapping_spark_errors(doing: str) -> Iterator[None]:
    """Turn an error of Spark within the block into a `SparkError` that begins with `doing`."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise SparkError(f"{doing}: {error_message(error)}") from error


def error_message(error: BaseException) -> str:
    """Return one line about an error of Spark: its first line, and that of its root cause."""
    if not isinstance(error, Py4JJavaError):
        return _first_line(str(error)) or type(error).__name__
    lines = []
    java = error.java_exception
    while java is not None:
        lines.append(_first_line(java.getMessage() or java.getClass().getSimpleName()))
        java = java.getCause()
    # The causes in between only say where in Spark it happened.
    return lines[0] if lines[-1] in lines[0] else f"{lines[0]} {lines[-1]}"


def _first_line(text: str) -> str:
    first = text.strip().partition("\n")[0]
    return first.partition(" SQLSTATE: ")[0].strip()
