"""A data source for notebooks: `spark.read.format("purgatory")` over a journal.

`register` makes it known to a session.
"""

from purgatory.spark.read.source import register

__all__ = ["register"]
