"""What can go wrong on Spark, save bad arguments; and Spark's own errors, put in one line.

Errors are immutable and may pass between threads.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

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


@contextmanager
def in_one_line(doing: str) -> Iterator[None]:
    """Turn what Spark raises within the block into a `SparkError`: `doing`, and the first line."""
    try:
        yield
    except PySparkException as error:
        raise SparkError(f"{doing}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of what an error of Spark says, without the class names before it."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__
