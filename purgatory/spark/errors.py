"""The errors of the package; turns Spark's errors into them.

Immutable; errors may pass between threads.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from purgatory.errors import PurgatoryError


class SparkError(PurgatoryError):
    """Base of the errors of the package, with messages of one line."""


class JavaNotFound(SparkError):
    """No Java for Spark was found."""


class SessionFailed(SparkError):
    """Spark's Java process did not start, or has ended."""


class TableError(SparkError):
    """A table cannot be read; the message names file or column."""


class RejectedRows(SparkError):
    """Rows break the rules of their table, and `strict` was set."""


class OutputExists(SparkError):
    """The directory for the output is not empty, or is a file."""


class CheckpointMismatch(SparkError):
    """A checkpoint does not fit the stream."""


# Raised by calls once Spark's Java process has ended.
JAVA_GONE: Final = (Py4JNetworkError, ConnectionError)

# Spark's errors in Python, and errors of Java without a class in Python.
SPARK_ERRORS: Final = (PySparkException, Py4JError)

# Begins the error of a Python worker; frames follow, then the error.
_TRACEBACK: Final = "Traceback (most recent call last):"
_OWN_ERROR: Final = re.compile(r"^purgatory\.[\w.]+: ")


@contextmanager
def wrapping_spark_errors(doing: str) -> Iterator[None]:
    """Turn Spark's errors into a `SparkError` that begins with `doing`."""
    try:
        yield
    except SPARK_ERRORS as error:
        raise SparkError(f"{doing}: {error_message(error)}") from error


def error_message(error: BaseException) -> str:
    """Return the first lines of a Spark error and its root cause; of Python's error, the last."""
    if not isinstance(error, Py4JJavaError):
        return _reason(str(error)) or type(error).__name__
    lines = []
    java = error.java_exception
    while java is not None:
        lines.append(_reason(java.getMessage() or java.getClass().getSimpleName()))
        java = java.getCause()
    # The causes in between only name places in Spark.
    return lines[0] if lines[-1] in lines[0] else f"{lines[0]} {lines[-1]}"


def _reason(text: str) -> str:
    """Return the first line of a text, or the error at the end of a traceback in it."""
    _, found, traceback = text.rpartition(_TRACEBACK)
    if found:
        raised = (line for line in traceback.splitlines()[1:] if line and not line[0].isspace())
        return _OWN_ERROR.sub("", next(raised, "a Python worker failed"))
    first = text.strip().partition("\n")[0]
    return first.partition(" SQLSTATE: ")[0].strip()
