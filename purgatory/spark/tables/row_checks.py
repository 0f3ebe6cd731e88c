"""Checks rows: each is good, or rejected with the reason.

`check_operations`, `check_events` and `check_extensions` take any DataFrame with the columns of the
table and split its rows into good and rejected ones; no row is lost. Pure: no session, no action,
no UDF. Any thread may call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
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
from purgatory.spark.tables.schema import EVENTS, EXTENSIONS, OPERATIONS, SEQUENCE
from purgatory.spark.tables.timestamps import is_time, ms_of_timestamp

# Whether a row is good; a column of `CheckedTable.marked`.
IS_GOOD: Final = "_is_good"

_MAX_SHOWN: Final = 60  # characters of a bad value
_NON_EMPTY_TEXT: Final = "non-empty UTF-8 text"
_INT64: Final = "an integer of 64 bits"
_DURATION: Final = f"{_INT64}, 0 or more"
_DEADLINE: Final = "a deadline within 64 bits"


class CheckedTable(NamedTuple):
    """The rows of a table: all, with the columns of good ones and `IS_GOOD`, and the rejected ones.

    These are as `REJECTED`.
    """

    marked: DataFrame
    rejected: DataFrame

    @property
    def good(self) -> DataFrame:
        """The good rows."""
        return self.marked.where(IS_GOOD).drop(IS_GOOD)


class ParsedColumn(NamedTuple):
    """One column of a table as parsed.

    `value`: null where it is not of the column's type. `shown`: the text that was found there,
    null for nothing. `present`: false for a column that the table lacks.
    """

    value: Column
    shown: Column
    present: bool = True


class Rule(NamedTuple):
    """A rule for a column; `expected` is for the reason of a rejection."""

    column: str
    holds: Column
    expected: Column


class TableSpec(NamedTuple):
    """A kind of table: its schema, optional columns, and rules."""

    name: str
    schema: StructType
    optional: Sequence[str]
    rules: Callable[[Mapping[str, ParsedColumn]], list[Rule]]
    good_columns: Callable[[Mapping[str, ParsedColumn]], list[Column]]


class ParsedRows(NamedTuple):
    """The parsed rows of a table, and the expressions that give its columns.

    `file`: the file that a row came from. `malformed`: the row itself if it could not be parsed,
    else null. `extra`: further columns for the good rows.
    """

    rows: DataFrame
    columns: Mapping[str, ParsedColumn]
    file: Column
    malformed: Column
    extra: Sequence[Column] = ()


def check_operations(rows: DataFrame) -> CheckedTable:
    """Split rows of operations into good and rejected ones.

    `kind` may be absent or null (then empty), `need` too (then 1); other columns are ignored.
    Raises `TableError` if a column is missing or has a wrong type.
    """
    return check_rows(OPERATIONS_TABLE, parse_rows(OPERATIONS_TABLE, rows))


def check_events(rows: DataFrame) -> CheckedTable:
    """Split rows of events into good and rejected ones.

    `hold_ms` may be absent or null (then 0), `failed` too (then false); good rows lack what is
    absent. Keeps the column `seq` if there is one. Raises `TableError` if a column is missing or
    has a wrong type.
    """
    return _check_in_sequence(EVENTS_TABLE, rows)


def check_extensions(rows: DataFrame) -> CheckedTable:
    """Split rows of extensions into good and rejected ones.

    Keeps the column `seq` if there is one. Raises `TableError` if a column is missing or has a
    wrong type.
    """
    return _check_in_sequence(EXTENSIONS_TABLE, rows)


def _check_in_sequence(table: TableSpec, rows: DataFrame) -> CheckedTable:
    parsed = parse_rows(table, rows)
    if SEQUENCE in rows.columns:
        parsed = parsed._replace(extra=[F.col(SEQUENCE).cast("bigint").alias(SEQUENCE)])
    return check_rows(table, parsed)


def check_rows(table: TableSpec, parsed: ParsedRows) -> CheckedTable:
    """Split parsed rows into good and rejected ones."""
    is_good = _is_good(table, parsed)
    columns = [*table.good_columns(parsed.columns), *parsed.extra, is_good.alias(IS_GOOD)]
    rejected = parsed.rows.where(~is_good).select(
        F.lit(table.name).alias("table"),
        parsed.file.alias("file"),
        rejection_reason(table, parsed).alias("reason"),
        row_as_text(parsed).alias("row"),
    )
    return CheckedTable(parsed.rows.select(*columns), rejected)


def _is_good(table: TableSpec, parsed: ParsedRows) -> Column:
    """Tell whether a row breaks no rule; true where `rejection_reason` is null, and less work."""
    return reduce(and_, map(_holds, table.rules(parsed.columns)), parsed.malformed.isNull())


def _holds(rule: Rule) -> Column:
    return F.coalesce(rule.holds, F.lit(False))


def rejection_reason(table: TableSpec, parsed: ParsedRows) -> Column:
    """Return the reason for rejecting a row; null for a good row."""
    rules = [
        F.when(~_holds(rule), _reason(rule, parsed.columns[rule.column]))
        for rule in table.rules(parsed.columns)
    ]
    broken = F.when(parsed.malformed.isNotNull(), "the row cannot be taken apart")
    return F.coalesce(broken, *rules)


def row_as_text(parsed: ParsedRows) -> Column:
    """Return the row as JSON, or unparsed as its original text."""
    there = (name for name in parsed.columns if name in parsed.rows.columns)
    return F.coalesce(parsed.malformed, F.to_json(F.struct(*there)))


def parse_rows(table: TableSpec, rows: DataFrame, where: str = "") -> ParsedRows:
    """Find the table's columns in typed rows; raise `TableError`, beginning with `where`."""
    check_columns(table, rows.columns, where)
    columns = {}
    for field in table.schema:
        if field.name in rows.columns:
            found = rows.schema[field.name].dataType
            column = F.col(field.name)
            if is_time(field.name, found):
                value = ms_of_timestamp(column, found)
            else:
                _check_type(field, found, where)
                value = column.try_cast(_widest(field.dataType))
            columns[field.name] = ParsedColumn(value, _text(column))
        else:
            columns[field.name] = absent_column(field.dataType)
    none = F.lit(None).cast("string")
    return ParsedRows(rows, columns, file=none, malformed=none)


def absent_column(datatype: DataType) -> ParsedColumn:
    """Return nulls for a column that is absent."""
    nothing = F.lit(None)
    return ParsedColumn(nothing.cast(_widest(datatype)), nothing.cast("string"), present=False)


def check_columns(table: TableSpec, names: Sequence[str], where: str = "") -> None:
    """Raise `TableError`, beginning with `where`, if a column is missing or ambiguous."""
    missing = [name for name in table.schema.names if name not in {*names, *table.optional}]
    if missing:
        raise TableError(
            f"{where}not a table of {table.name}, it has no column {', '.join(missing)}"
        )
    twice = [name for name in table.schema.names if list(names).count(name) > 1]
    if twice:
        raise TableError(f"{where}column {', '.join(twice)} is there more than once")


def _check_type(field: StructField, found: DataType, where: str) -> None:
    if not _is_of_type(found, field.dataType):
        expected = _widest(field.dataType).simpleString()
        raise TableError(
            f"{where}column {field.name} holds {found.simpleString()}, expected {expected}"
        )


def _is_of_type(found: DataType, wanted: DataType) -> bool:
    if isinstance(found, NullType):  # a column of nulls only: the rules decide row by row
        return True
    if isinstance(wanted, ArrayType):
        return isinstance(found, ArrayType) and _is_of_type(found.elementType, wanted.elementType)
    if isinstance(wanted, StringType):
        return isinstance(found, StringType)
    if isinstance(wanted, BooleanType):
        return isinstance(found, BooleanType)
    # Spark reads unsigned integers of 64 bits as decimals without a fraction.
    return isinstance(found, IntegralType) or (isinstance(found, DecimalType) and found.scale == 0)


def _widest(datatype: DataType) -> DataType:
    """Widen integers to 64 bits, to reject those out of range."""
    return LongType() if isinstance(datatype, IntegralType) else datatype


def _text(column: Column) -> Column:
    return column.cast("string")


def _reason(rule: Rule, column: ParsedColumn) -> Column:
    shown = F.when(
        F.length(column.shown) > _MAX_SHOWN,
        F.concat(F.left(column.shown, F.lit(_MAX_SHOWN - 3)), F.lit("...")),
    )
    value = F.coalesce(shown, column.shown)
    found = F.coalesce(F.concat(F.lit("'"), value, F.lit("'")), F.lit("nothing"))
    return F.concat(F.lit(f"column {rule.column}: "), found, F.lit(", expected "), rule.expected)


def is_non_empty_text(text: Column) -> Column:
    """Tell whether a text is valid UTF-8 and not empty; null for null."""
    return (F.length(text) > 0) & F.is_valid_utf8(text)


def is_kind_or_null(kind: ParsedColumn) -> Column:
    """Tell whether a value is null or valid UTF-8 text."""
    return kind.shown.isNull() | F.is_valid_utf8(kind.value)


def _operation_rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    submitted, timeout = columns["submitted_ms"].value, columns["timeout_ms"].value
    keys, need = columns["keys"].value, columns["need"]
    distinct = F.size(F.array_distinct(keys))
    # Almost every operation needs one key, and there always is one.
    is_need = (need.value == 1) | need.shown.isNull() | need.value.between(1, distinct)
    return [
        Rule("op_id", is_non_empty_text(columns["op_id"].value), F.lit(_NON_EMPTY_TEXT)),
        Rule("kind", is_kind_or_null(columns["kind"]), F.lit("UTF-8 text")),
        Rule("submitted_ms", submitted.isNotNull(), F.lit(_INT64)),
        *_timeout_rules(submitted, timeout),
        Rule("keys", F.size(keys) > 0, F.lit("a list of at least one key")),
        Rule("keys", _are_keys(keys), F.lit(f"every key to be {_NON_EMPTY_TEXT}")),
        Rule(
            "need",
            is_need,
            F.concat(
                F.lit("an integer from 1 to "), distinct, F.lit(", the number of distinct keys")
            ),
        ),
    ]


def _timeout_rules(start: Column, timeout: Column) -> list[Rule]:
    is_in_range = F.try_add(start, timeout).isNotNull()
    return [
        Rule("timeout_ms", timeout >= 0, F.lit(_DURATION)),
        Rule("timeout_ms", is_in_range, F.lit(_DEADLINE)),
    ]


def _are_keys(keys: Column) -> Column:
    """Tell whether each key is valid UTF-8 and not empty; null if one is null.

    Without `forall`, which Spark does not compile. A comma between keys keeps the bytes of two of
    them from being valid together.
    """
    return ~F.array_contains(keys, "") & F.is_valid_utf8(F.concat_ws(",", keys))


def _operation_columns(columns: Mapping[str, ParsedColumn]) -> list[Column]:
    return [
        columns["op_id"].value.alias("op_id"),
        F.coalesce(columns["kind"].value, F.lit("")).alias("kind"),
        columns["submitted_ms"].value.alias("submitted_ms"),
        columns["timeout_ms"].value.alias("timeout_ms"),
        columns["keys"].value.alias("keys"),
        # Not a cast, which raises for the number of a row that is not good.
        F.coalesce(columns["need"].value, F.lit(1)).try_cast("int").alias("need"),
    ]


def _event_rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    at, hold, failed = columns["at_ms"].value, columns["hold_ms"], columns["failed"]
    end = F.try_add(at, hold.value)
    return [
        Rule("key", is_non_empty_text(columns["key"].value), F.lit(_NON_EMPTY_TEXT)),
        Rule("at_ms", at.isNotNull(), F.lit(_INT64)),
        Rule("hold_ms", hold.shown.isNull() | (hold.value >= 0), F.lit(_DURATION)),
        Rule(
            "hold_ms",
            hold.shown.isNull() | end.isNotNull(),
            F.lit("an end of the hold within 64 bits"),
        ),
        Rule("failed", failed.shown.isNull() | failed.value.isNotNull(), F.lit("true or false")),
    ]


def _event_columns(columns: Mapping[str, ParsedColumn]) -> list[Column]:
    """Return the columns that the table has, so that `batch.resolve` may leave steps out."""
    defaults = {"hold_ms": F.lit(0).cast("bigint"), "failed": F.lit(False)}
    values = {name: columns[name].value for name in EVENTS.names if columns[name].present}
    return [
        (F.coalesce(value, defaults[name]) if name in defaults else value).alias(name)
        for name, value in values.items()
    ]


def _extension_rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    at = columns["at_ms"].value
    return [
        Rule("op_id", is_non_empty_text(columns["op_id"].value), F.lit(_NON_EMPTY_TEXT)),
        Rule("at_ms", at.isNotNull(), F.lit(_INT64)),
        *_timeout_rules(at, columns["timeout_ms"].value),
    ]


def _extension_columns(columns: Mapping[str, ParsedColumn]) -> list[Column]:
    return [columns[name].value.alias(name) for name in EXTENSIONS.names]


OPERATIONS_TABLE: Final = TableSpec(
    "operations", OPERATIONS, ("kind", "need"), _operation_rules, _operation_columns
)
EVENTS_TABLE: Final = TableSpec(
    "events", EVENTS, ("hold_ms", "failed"), _event_rules, _event_columns
)
EXTENSIONS_TABLE: Final = TableSpec(
    "extensions", EXTENSIONS, (), _extension_rules, _extension_columns
)
