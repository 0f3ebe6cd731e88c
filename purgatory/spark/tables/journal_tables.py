"""Finds, reads and checks the tables of a journal, for a report.

Uses `purgatory.spark.tables.reader`, with the same promises: an unreadable file is reported before
work starts, and each row is either good or rejected with a reason. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from purgatory.spark.errors import RejectedRows, TableError
from purgatory.spark.filesystem import file_system_for
from purgatory.spark.tables.reader import read_table
from purgatory.spark.tables.row_checks import (
    OPERATIONS_TABLE,
    ParsedColumn,
    Rule,
    TableSpec,
    integer_rules,
    kind_rules,
    text_rules,
)
from purgatory.spark.tables.schema import OUTCOMES
from purgatory.trace import tables
from purgatory.trace.validation import COMPLETED
from purgatory.trace.validation import OUTCOMES as OUTCOME_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# 73 million years from 1970: sums and differences of such times stay within 64 bits.
FARTHEST_MS: Final = 2**61
_MAX_SHOWN_ROWS: Final = 5


class JournalTables(NamedTuple):
    """The good and the rejected rows of a journal.

    `operations`: None without such a table. `source`: the path that the journal was read from.
    """

    source: str
    outcomes: DataFrame
    operations: DataFrame | None
    rejected: DataFrame


def read_journal(spark: SparkSession, path: str) -> JournalTables:
    """Read a directory with tables `outcomes` and `operations`, or one table of outcomes.

    Each is a file or a directory, with or without a suffix, of a format that a trace may have;
    Parquet may be partitioned by further columns. Raises `TableError`.
    """
    outcomes_path = _table_path(spark, path, "outcomes")
    operations_path = _table_path(spark, path, "operations")
    if outcomes_path is None and operations_path is not None:
        raise TableError(f"{path}: has a table of operations but none of outcomes")
    outcomes = read_table(spark, outcomes_path or path, OUTCOMES_TABLE)
    if operations_path is None:
        return JournalTables(path, outcomes.good, None, outcomes.rejected)
    operations = read_table(spark, operations_path, OPERATIONS_TABLE)
    rejected = outcomes.rejected.union(operations.rejected)
    return JournalTables(path, outcomes.good, operations.good, rejected)


class Rejections(NamedTuple):
    """The number of rejected rows, and the reasons for the first of them."""

    rows: int
    reasons: tuple[str, ...]


def count_rejected(rejected: DataFrame, *, strict: bool = False) -> Rejections:
    """Count rejected rows, and describe up to five of them.

    Reads both tables completely. Raises `RejectedRows` if `strict` and there are any.
    """
    number = rejected.count()
    if not number:
        return Rejections(0, ())
    rows = rejected.limit(_MAX_SHOWN_ROWS).collect()
    reasons = tuple(f"{row['file'] or row['table']}: {row['reason']}" for row in rows)
    if strict:
        raise RejectedRows(f"{number} rows rejected; {'; '.join(reasons)}")
    return Rejections(number, reasons)


def _table_path(spark: SparkSession, path: str, table: str) -> str | None:
    """Return the path of a table in a directory; None if it has none."""
    file_system, directory = file_system_for(spark, path)
    if not file_system.exists(directory) or file_system.size(directory) is not None:
        return None
    names = file_system.names(directory)
    found = [name for name in names if name == table or name.startswith(f"{table}.")]
    if len(found) > 1:
        raise TableError(f"{path}: has several tables of {table}: {', '.join(found)}")
    return f"{directory}/{found[0]}" if found else None


def _outcome_rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    outcome, by_key = columns["outcome"].value, columns["by_key"]
    (is_key,) = text_rules("by_key", columns)
    completed_by = (outcome == COMPLETED) & is_key.holds
    times = ("at_ms", "submitted_ms", "deadline_ms", "waited_ms", "lateness_ms")
    waited, deadline = columns["waited_ms"].value, columns["deadline_ms"].value
    return [
        *text_rules("op_id", columns),
        *kind_rules("kind", columns),
        Rule("outcome", outcome.isin(*OUTCOME_NAMES), "completed, failed, expired or cancelled"),
        Rule("by_key", by_key.shown.isNull() | completed_by, "a key only if it is completed"),
        *(rule for name in times for rule in integer_rules(name, columns)),
        *(_near_1970(name, columns) for name in ("at_ms", "submitted_ms")),
        Rule("waited_ms", waited.between(0, 2 * FARTHEST_MS), "a wait"),
        Rule(
            "deadline_ms",
            deadline >= columns["submitted_ms"].value,
            "a time not before submitted_ms",
        ),
    ]


def _near_1970(name: str, columns: Mapping[str, ParsedColumn]) -> Rule:
    near = columns[name].value.between(-FARTHEST_MS, FARTHEST_MS)
    return Rule(name, near, "a time within 2**61 ms of 1970")


OUTCOMES_TABLE: Final = TableSpec(tables.OUTCOMES, OUTCOMES, _outcome_rules)
