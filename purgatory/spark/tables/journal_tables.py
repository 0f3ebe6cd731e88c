"""Finds, reads and checks the tables of a journal, for a report."""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial, reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from purgatory.printable import counted
from purgatory.spark.errors import RejectedRows, TableError
from purgatory.spark.filesystem import file_system_for
from purgatory.spark.tables.reader import local_table, read_table
from purgatory.spark.tables.row_checks import (
    OPERATIONS_TABLE,
    ParsedColumn,
    Rule,
    TableSpec,
    integer_rules,
    kind_rules,
    text_rules,
)
from purgatory.spark.tables.schema import JOBS, OUTCOMES
from purgatory.trace import tables
from purgatory.trace.validation import COMPLETED, ENDS_OF_JOBS
from purgatory.trace.validation import OUTCOMES as OUTCOME_NAMES

# 73 million years from 1970: sums and differences of such times have 64 bits.
FARTHEST_MS: Final = 2**61
_MAX_SHOWN_ROWS: Final = 5


class JournalTables(NamedTuple):
    """The rows of a journal.

    `operations`, `jobs`: None without such a table. `is_server`: a server has written the journal.
    """

    outcomes: DataFrame
    operations: DataFrame | None
    rejected: DataFrame
    jobs: DataFrame | None = None
    is_server: bool = False


# A server's journal has all of these from the beginning, as directories.
_OF_SERVER: Final = ("operations", "outcomes", "events", "extensions")


def read_journal(spark: SparkSession, path: str) -> JournalTables:
    """Read a directory with tables `outcomes`, `operations` and `jobs`, or one table of outcomes.

    Each is a file or a directory, with or without a suffix, of a format that a trace may have;
    Parquet may be partitioned by further columns. `operations` and `jobs` may be absent; beside
    jobs the others may be empty. Or `path` is the directory of several servers over one database,
    with journals in `path`/*/journal. Raises `TableError`.
    """
    below = _journals_below(spark, path)
    if not below:
        return _read_one(spark, path)
    journals = [_read_one(spark, one) for one in below]
    return JournalTables(
        _union([journal.outcomes for journal in journals]),
        _union_of(journal.operations for journal in journals),
        reduce(DataFrame.union, (journal.rejected for journal in journals)),
        _union_of(journal.jobs for journal in journals),
        is_server=True,
    )


def _journals_below(spark: SparkSession, path: str) -> list[str]:
    """Return the journals in `path`/*/journal with rows; one, if none has."""
    directory, names = _listing(spark, path)
    found = [f"{directory}/{name}/journal" for name in _visible(names)]
    journals = [one for one in found if _is_of_server(spark, one)]
    with_rows = [
        one
        for one in journals
        if not all(_is_empty(spark, _table_path(spark, one, name)) for name in TABLES)
    ]
    return with_rows or journals[:1]


def _union_of(tables: Iterable[DataFrame | None]) -> DataFrame | None:
    found = [table for table in tables if table is not None]
    return _union(found) if found else None


def _union(tables: list[DataFrame]) -> DataFrame:
    """Return all rows once: several servers may have the same."""
    by_name = partial(DataFrame.unionByName, allowMissingColumns=True)
    return reduce(by_name, tables).dropDuplicates()


def _read_one(spark: SparkSession, path: str) -> JournalTables:
    found = {name: _table_path(spark, path, name) for name in ("outcomes", "operations", "jobs")}
    is_server = found["jobs"] is not None or _is_of_server(spark, path)
    paths = {
        name: where
        for name, where in found.items()
        if where is not None and (name == "outcomes" or not _is_empty(spark, where))
    }
    if len(paths) == 1 and "operations" in paths:
        raise TableError(f"{path}: has a table of operations but none of outcomes")
    checked = {name: read_table(spark, where, TABLES[name]) for name, where in paths.items()}
    if not checked or not {"outcomes", "jobs"} & checked.keys():
        checked["outcomes"] = read_table(spark, path, OUTCOMES_TABLE)
    outcomes, operations, jobs = (checked.get(name) for name in ("outcomes", "operations", "jobs"))
    return JournalTables(
        local_table(spark, OUTCOMES) if outcomes is None else outcomes.good,
        None if operations is None else operations.good,
        reduce(DataFrame.union, (table.rejected for table in checked.values())),
        None if jobs is None else jobs.good,
        is_server,
    )


def _is_empty(spark: SparkSession, path: str | None) -> bool:
    if path is None:
        return True
    file_system, found = file_system_for(spark, path)
    is_directory = file_system.size(found) is None
    return is_directory and not any(_visible(file_system.names(found)))


def _visible(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if not name.startswith((".", "_")))


def _is_of_server(spark: SparkSession, path: str) -> bool:
    return set(_OF_SERVER) <= set(_listing(spark, path)[1])


def _listing(spark: SparkSession, path: str) -> tuple[str, list[str]]:
    """Return a directory in Spark's form, and its names, if any."""
    file_system, directory = file_system_for(spark, path)
    if not file_system.exists(directory) or file_system.size(directory) is not None:
        return directory, []
    return directory, file_system.names(directory)


class Rejections(NamedTuple):
    """The number of rejected rows, and the reasons for the first."""

    rows: int
    reasons: tuple[str, ...]


def count_rejected(rejected: DataFrame, *, strict: bool = False) -> Rejections:
    """Count rejected rows, and describe up to five of them.

    Reads the tables completely. With `strict`, raises `RejectedRows`.
    """
    number = rejected.count()
    if not number:
        return Rejections(0, ())
    rows = rejected.limit(_MAX_SHOWN_ROWS).collect()
    reasons = tuple(f"{row['file'] or row['table']}: {row['reason']}" for row in rows)
    if strict:
        raise RejectedRows(f"{counted(number, 'row')} rejected; {'; '.join(reasons)}")
    return Rejections(number, reasons)


def _table_path(spark: SparkSession, path: str, table: str) -> str | None:
    directory, names = _listing(spark, path)
    found = [name for name in names if name == table or name.startswith(f"{table}.")]
    if len(found) > 1:
        raise TableError(f"{path}: has several tables of {table}: {', '.join(found)}")
    return f"{directory}/{found[0]}" if found else None


def _outcome_rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    outcome, by_key = columns["outcome"].value, columns["by_key"]
    (is_key,) = text_rules("by_key", columns)
    completed_by = (outcome == COMPLETED) & is_key.holds
    times = ("at_ms", "submitted_ms", "deadline_ms", "waited_ms", "lateness_ms")
    late = columns["lateness_ms"].value
    timeout = F.try_subtract(columns["deadline_ms"].value, columns["submitted_ms"].value)
    waited, deadline = columns["waited_ms"].value, columns["deadline_ms"].value
    return [
        *text_rules("op_id", columns),
        *kind_rules("kind", columns),
        Rule("outcome", outcome.isin(*OUTCOME_NAMES), "completed, failed, expired or cancelled"),
        Rule("by_key", by_key.shown.isNull() | completed_by, "a key only if it is completed"),
        *(rule for name in times for rule in integer_rules(name, columns)),
        *(_near_1970(name, columns) for name in ("at_ms", "submitted_ms")),
        Rule("waited_ms", waited.between(0, 2 * FARTHEST_MS), "a wait"),
        Rule("lateness_ms", late.between(0, 2 * FARTHEST_MS), "a duration"),
        Rule(
            "deadline_ms",
            deadline >= columns["submitted_ms"].value,
            "a time not before submitted_ms",
        ),
        Rule("deadline_ms", timeout.isNotNull(), "a timeout within 64 bits"),
    ]


def _near_1970(name: str, columns: Mapping[str, ParsedColumn]) -> Rule:
    return Rule(name, _is_near(columns[name].value), "a time within 2**61 ms of 1970")


def _is_near(value: Column) -> Column:
    return value.between(-FARTHEST_MS, FARTHEST_MS)


OUTCOMES_TABLE: Final = TableSpec(tables.OUTCOMES, OUTCOMES, _outcome_rules)


_JOB_TEXTS: Final = ("kind", "client", "worker", "error")


def _job_rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    state = columns["state"].value
    times = ("submitted_ms", "due_ms", "ended_ms")
    spans = ("began_ms", "queue_ms", "run_ms")
    began = [columns[name].value.isNull() for name in spans]
    return [
        *text_rules("job_id", columns),
        *(rule for name in _JOB_TEXTS for rule in kind_rules(name, columns)),
        Rule("state", state.isin(*ENDS_OF_JOBS), "done, dead or cancelled"),
        *(_near_1970(name, columns) for name in times),
        Rule("attempts", columns["attempts"].value >= 0, "a number of attempts"),
        *(
            Rule(name, is_null | _is_near(columns[name].value), "a time, or nothing")
            for name, is_null in zip(spans, began, strict=True)
        ),
        Rule("run_ms", began[0] == began[2], "a duration, if an attempt has begun"),
        Rule("queue_ms", began[0] == began[1], "a duration, if an attempt has begun"),
    ]


JOBS_TABLE: Final = TableSpec(tables.JOBS, JOBS, _job_rules)
TABLES: Final = {"outcomes": OUTCOMES_TABLE, "operations": OPERATIONS_TABLE, "jobs": JOBS_TABLE}
