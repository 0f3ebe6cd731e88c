"""The check of every row by the rules of its table: each row is good, or rejected with a reason.

`check_operations` and `check_events` take any DataFrame with the columns of the table and split its
rows into good and rejected ones; no row is lost. Pure: no session, no action, no UDF. Any thread
may call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegralType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from purgatory.spark.errors import TableError
from purgatory.spark.tables.schema import EVENTS, OPERATIONS, SEQUENCE

_MAX_SHOWN: Final = 60  # characters of a bad value
_NON_EMPTY_TEXT: Final = "non-empty UTF-8 text"
_INT64: Final = "an integer of 64 bits"


class CheckedTable(NamedTuple):
    """A table, parted: `good` rows with the table's columns and types, `rejected` as `REJECTED`."""

    good: DataFrame
    rejected: DataFrame


class ParsedColumn(NamedTuple):
    """One column of a table as found: its value, null when it is none of the column's type.

    `shown` is the text of what was found there, null for nothing.
    """

    value: Column
    shown: Column


class Rule(NamedTuple):
    """What a column must fulfil; `expected` says it in words."""

    column: str
    holds: Column
    expected: Column


class TableSpec(NamedTuple):
    """A kind of table: its schema, which columns may be absent, and its rules and result."""

    name: str
    schema: StructType
    optional: Sequence[str]
    rules: Callable[[Mapping[str, ParsedColumn]], list[Rule]]
    good_columns: Callable[[Mapping[str, ParsedColumn]], list[Column]]


class ParsedRows(NamedTuple):
    """The rows of a table as they were found, and where in them its columns are.

    `file`: the file that a row came from; `malformed`: the row itself when it could not be taken
    apart, else null. `extra`: further columns for the good rows.
    """

    rows: DataFrame
    columns: Mapping[str, ParsedColumn]
    file: Column
    malformed: Column
    extra: Sequence[Column] = ()


def check_operations(rows: DataFrame) -> CheckedTable:
    """Part rows of operations in good and rejected ones.

    `kind` may be absent or null (then empty), `need` too (then 1); other columns are passed over.
    `TableError` when a column is missing or has a wrong type.
    """
    return check_rows(OPERATIONS_TABLE, parse_rows(OPERATIONS_TABLE, rows))


def check_events(rows: DataFrame) -> CheckedTable:
    """Part rows of events in good and rejected ones; `seq` is kept where there is one.

    `TableError` when a column is missing or has a wrong type.
    """
    found = parse_rows(EVENTS_TABLE, rows)
    if SEQUENCE in rows.columns:
        found = found._replace(extra=[F.col(SEQUENCE).cast("bigint").alias(SEQUENCE)])
    return check_rows(EVENTS_TABLE, found)


def check_rows(table: TableSpec, found: ParsedRows) -> CheckedTable:
    """Part the rows found in good and rejected ones."""
    rows = found.rows.withColumn("_reason", rejection_reason(table, found))
    reason = F.col("_reason")
    good = rows.where(reason.isNull()).select(*table.good_columns(found.columns), *found.extra)
    rejected = rows.where(reason.isNotNull()).select(
        F.lit(table.name).alias("table"),
        found.file.alias("file"),
        reason.alias("reason"),
        row_as_text(found).alias("row"),
    )
    return CheckedTable(good, rejected)


def rejection_reason(table: TableSpec, found: ParsedRows) -> Column:
    """What is wrong with a row; null for a good one."""
    rules = [
        F.when(~F.coalesce(rule.holds, F.lit(False)), _reason(rule, found.columns[rule.column]))
        for rule in table.rules(found.columns)
    ]
    broken = F.when(found.malformed.isNotNull(), "the row cannot be taken apart")
    return F.coalesce(broken, *rules)


def row_as_text(found: ParsedRows) -> Column:
    """The row as it was found: as JSON or, when it could not be taken apart, as it stood there."""
    there = (name for name in found.columns if name in found.rows.columns)
    return F.coalesce(found.malformed, F.to_json(F.struct(*there)))


def parse_rows(table: TableSpec, rows: DataFrame, where: str = "") -> ParsedRows:
    """Find the table's columns in typed rows; `TableError`, beginning with `where`, if not."""
    check_columns(table, rows.columns, where)
    columns = {}
    for field in table.schema:
        if field.name in rows.columns:
            _check_type(field, rows.schema[field.name].dataType, where)
            column = F.col(field.name)
            columns[field.name] = ParsedColumn(
                column.try_cast(_widest(field.dataType)), _text(column)
            )
        else:
            columns[field.name] = absent_column(field.dataType)
    none = F.lit(None).cast("string")
    return ParsedRows(rows, columns, file=none, malformed=none)


def absent_column(datatype: DataType) -> ParsedColumn:
    """The cell of a column that is not there."""
    return ParsedColumn(F.lit(None).cast(_widest(datatype)), F.lit(None).cast("string"))


def check_columns(table: TableSpec, names: Sequence[str], where: str = "") -> None:
    """`TableError`, beginning with `where`, when a required column of the table is missing."""
    missing = [name for name in table.schema.names if name not in {*names, *table.optional}]
    if missing:
        raise TableError(
            f"{where}not a table of {table.name}, it has no column {', '.join(missing)}"
        )
    twice = [name for name in table.schema.names if list(names).count(name) > 1]
    if twice:
        raise TableError(f"{where}column {', '.join(twice)} is there more than once")


def _check_type(field: StructField, found: DataType, where: str) -> None:
    if not _holds(found, field.dataType):
        expected = _widest(field.dataType).simpleString()
        raise TableError(
            f"{where}column {field.name} holds {found.simpleString()}, expected {expected}"
        )


def _holds(found: DataType, wanted: DataType) -> bool:
    if isinstance(found, NullType):  # a column of nulls: each row is checked
        return True
    if isinstance(wanted, ArrayType):
        return isinstance(found, ArrayType) and _holds(found.elementType, wanted.elementType)
    if isinstance(wanted, StringType):
        return isinstance(found, StringType)
    # Unsigned integers of 64 bits come as decimals without a fraction.
    return isinstance(found, IntegralType) or (isinstance(found, DecimalType) and found.scale == 0)


def _widest(datatype: DataType) -> DataType:
    """All integers are checked as 64 bits, so that one out of range is seen and not wrapped."""
    return LongType() if isinstance(datatype, IntegralType) else datatype


def _text(column: Column) -> Column:
    return column.cast("string")


def _reason(rule: Rule, cell: ParsedColumn) -> Column:
    shown = F.when(
        F.length(cell.shown) > _MAX_SHOWN,
        F.concat(F.left(cell.shown, F.lit(_MAX_SHOWN - 3)), F.lit("...")),
    )
    value = F.coalesce(shown, cell.shown)
    found = F.coalesce(F.concat(F.lit("'"), value, F.lit("'")), F.lit("nothing"))
    return F.concat(F.lit(f"column {rule.column}: "), found, F.lit(", expected "), rule.expected)


def is_non_empty_text(text: Column) -> Column:
    """Whether a text is there, is not empty, and is UTF-8."""
    return (F.length(text) > 0) & F.is_valid_utf8(text)


def is_kind_or_null(cell: ParsedColumn) -> Column:
    """Whether a cell is nothing or text: a kind may be both."""
    return cell.shown.isNull() | F.is_valid_utf8(cell.value)


def _operation_rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    submitted, timeout = columns["submitted_ms"].value, columns["timeout_ms"].value
    keys, need = columns["keys"].value, columns["need"]
    distinct = F.size(F.array_distinct(keys))
    is_need = need.shown.isNull() | need.value.between(1, distinct)
    return [
        Rule("op_id", is_non_empty_text(columns["op_id"].value), F.lit(_NON_EMPTY_TEXT)),
        Rule("kind", is_kind_or_null(columns["kind"]), F.lit("UTF-8 text")),
        Rule("submitted_ms", submitted.isNotNull(), F.lit(_INT64)),
        Rule("timeout_ms", timeout >= 0, F.lit(f"{_INT64}, 0 or more")),
        Rule(
            "timeout_ms",
            F.try_add(submitted, timeout).isNotNull(),
            F.lit("a deadline within 64 bits"),
        ),
        Rule("keys", F.size(keys) > 0, F.lit("a list of at least one key")),
        Rule("keys", F.forall(keys, _is_key), F.lit(f"every key to be {_NON_EMPTY_TEXT}")),
        Rule(
            "need",
            is_need,
            F.concat(
                F.lit("an integer from 1 to "), distinct, F.lit(", the number of distinct keys")
            ),
        ),
    ]


def _is_key(key: Column) -> Column:
    return F.coalesce(is_non_empty_text(key), F.lit(False))


def _operation_columns(columns: Mapping[str, ParsedColumn]) -> list[Column]:
    return [
        columns["op_id"].value.alias("op_id"),
        F.coalesce(columns["kind"].value, F.lit("")).alias("kind"),
        columns["submitted_ms"].value.alias("submitted_ms"),
        columns["timeout_ms"].value.alias("timeout_ms"),
        columns["keys"].value.alias("keys"),
        F.coalesce(columns["need"].value, F.lit(1)).cast("int").alias("need"),
    ]


def _event_rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    return [
        Rule("key", is_non_empty_text(columns["key"].value), F.lit(_NON_EMPTY_TEXT)),
        Rule("at_ms", columns["at_ms"].value.isNotNull(), F.lit(_INT64)),
    ]


def _event_columns(columns: Mapping[str, ParsedColumn]) -> list[Column]:
    return [columns[name].value.alias(name) for name in EVENTS.names]


OPERATIONS_TABLE: Final = TableSpec(
    "operations", OPERATIONS, ("kind", "need"), _operation_rules, _operation_columns
)
EVENTS_TABLE: Final = TableSpec("events", EVENTS, (), _event_rules, _event_columns)
