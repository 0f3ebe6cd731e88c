"""Checks rows: each is good, or rejected with the reason.

No row is lost. Pure: no session, action or UDF; any thread.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    IntegerType,
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
from purgatory.trace import tables
from purgatory.trace.tables import Table
from purgatory.trace.validation import FARTHEST_MS, NEAR_TIME

# Whether a row is good; a column of `CheckedTable.marked`.
IS_GOOD: Final = "_is_good"

MAX_SHOWN: Final = 60  # characters of a bad value
_NON_EMPTY_TEXT: Final = "non-empty UTF-8 text"
_INT64: Final = "an integer of 64 bits"
_DURATION: Final = f"{_INT64}, 0 or more"
# What null stands for.
_DEFAULTS: Final[Mapping[str, object]] = {
    **dict.fromkeys(("kind", "worker", "error"), ""),
    "need": 1,
    "hold_ms": 0,
    "failed": False,
}


class CheckedTable(NamedTuple):
    """The rows of a table: all, with `IS_GOOD`, and the rejected."""

    marked: DataFrame
    rejected: DataFrame

    @property
    def good(self) -> DataFrame:
        """The rows that break no rule."""
        return self.marked.where(IS_GOOD).drop(IS_GOOD)


class ParsedColumn(NamedTuple):
    """A parsed column: `value` is null if of a wrong type, `shown` the text found or null.

    `present`: whether the table has the column.
    """

    value: Column
    shown: Column
    present: bool = True


class Rule(NamedTuple):
    """A rule for a column; `expected` is for the reason."""

    column: str
    holds: Column
    expected: Column | str


class TableSpec(NamedTuple):
    """A table of a trace, its schema in Spark, and the rules of its rows."""

    table: Table[Any]
    schema: StructType
    rules: Callable[[Mapping[str, ParsedColumn]], list[Rule]]

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.name


class ParsedRows(NamedTuple):
    """The parsed rows of a table, with expressions of its columns.

    `file`: where a row came from. `fault`, `shown`: reason and text of a row that its parser
    rejects, else null. `extra`: further columns of good rows.
    """

    rows: DataFrame
    columns: Mapping[str, ParsedColumn]
    file: Column
    fault: Column
    shown: Column
    extra: Sequence[Column] = ()


def check_operations(rows: DataFrame) -> CheckedTable:
    """Split rows of operations into good and rejected rows.

    `kind` may be absent or null (then empty), `need` too (then 1); other columns are ignored.
    Raises `TableError` if a column is missing or has a wrong type.
    """
    return check_rows(OPERATIONS_TABLE, parse_rows(OPERATIONS_TABLE, rows))


def check_events(rows: DataFrame) -> CheckedTable:
    """Split rows of events into good and rejected rows.

    `hold_ms` may be absent or null (then 0), `failed` too (then false); good rows lack absent
    columns. Keeps a column `seq`. Raises `TableError` as `check_operations`.
    """
    return _check_in_sequence(EVENTS_TABLE, rows)


def check_extensions(rows: DataFrame) -> CheckedTable:
    """Split rows of extensions into good and rejected rows.

    Keeps a column `seq`. Raises `TableError` as `check_operations`.
    """
    return _check_in_sequence(EXTENSIONS_TABLE, rows)


def _check_in_sequence(table: TableSpec, rows: DataFrame) -> CheckedTable:
    parsed = parse_rows(table, rows)
    if SEQUENCE in rows.columns:
        parsed = parsed._replace(extra=[F.col(SEQUENCE).cast("bigint").alias(SEQUENCE)])
    return check_rows(table, parsed)


def check_rows(table: TableSpec, parsed: ParsedRows) -> CheckedTable:
    """Split parsed rows into good and rejected rows."""
    is_good = _is_good(table, parsed)
    columns = [*good_columns(table, parsed.columns), *parsed.extra, is_good.alias(IS_GOOD)]
    rejected = parsed.rows.where(~is_good).select(
        F.lit(table.name).alias("table"),
        parsed.file.alias("file"),
        rejection_reason(table, parsed).alias("reason"),
        row_as_text(parsed).alias("row"),
    )
    return CheckedTable(parsed.rows.select(*columns), rejected)


def _is_good(table: TableSpec, parsed: ParsedRows) -> Column:
    return reduce(and_, map(_holds, table.rules(parsed.columns)), parsed.fault.isNull())


def _holds(rule: Rule) -> Column:
    return F.coalesce(rule.holds, F.lit(False))


def good_columns(table: TableSpec, columns: Mapping[str, ParsedColumn]) -> list[Column]:
    """Return the good rows' columns, without absent rare columns."""
    there = [c.name for c in table.table.columns if columns[c.name].present or not c.rare]
    return [_good_column(columns[name].value, table.schema[name]).alias(name) for name in there]


def _good_column(value: Column, field: StructField) -> Column:
    if field.name in _DEFAULTS:
        value = F.coalesce(value, F.lit(_DEFAULTS[field.name]))
    # A cast would raise for bad rows.
    return value.try_cast("int") if isinstance(field.dataType, IntegerType) else value


def rejection_reason(table: TableSpec, parsed: ParsedRows) -> Column:
    """Return the reason for rejecting a row, null for a good row."""
    rules = [
        F.when(~_holds(rule), _reason(rule, parsed.columns[rule.column]))
        for rule in table.rules(parsed.columns)
    ]
    # Other bytes would stop the Python worker.
    return F.make_valid_utf8(F.coalesce(parsed.fault, *rules))


def row_as_text(parsed: ParsedRows) -> Column:
    """Return the row as JSON, or its parser's text."""
    there = (name for name in parsed.columns if name in parsed.rows.columns)
    return F.make_valid_utf8(F.coalesce(parsed.shown, F.to_json(F.struct(*there))))


def parse_rows(table: TableSpec, rows: DataFrame, where: str = "") -> ParsedRows:
    """Find the table's columns; `TableError` begins with `where`."""
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
            columns[field.name] = ParsedColumn(value, column.cast("string"))
        else:
            columns[field.name] = absent_column(field.dataType)
    none = F.lit(None).cast("string")
    return ParsedRows(rows, columns, file=none, fault=none, shown=none)


def absent_column(datatype: DataType) -> ParsedColumn:
    """Return the nulls of an absent column."""
    nothing = F.lit(None)
    return ParsedColumn(nothing.cast(_widest(datatype)), nothing.cast("string"), present=False)


def check_columns(table: TableSpec, names: Sequence[str], where: str = "") -> None:
    """Raise `TableError`, beginning with `where`, for a missing or ambiguous column."""
    if missing := table.table.missing_from(names):
        raise TableError(
            f"{where}not a table of {table.name}, it has no column {', '.join(missing)}"
        )
    twice = [name for name in table.schema.names if list(names).count(name) > 1]
    if twice:
        raise TableError(f"{where}column {', '.join(twice)} is there more than once")


def _check_type(field: StructField, found: DataType, where: str) -> None:
    if not _is_of_type(found, field.dataType):
        raise wrong_type(field, found.simpleString(), where)


def wrong_type(field: StructField, found: str, where: str) -> TableError:
    """Return the error for a column of a wrong type."""
    expected = _widest(field.dataType).simpleString()
    return TableError(f"{where}column {field.name} holds {found}, expected {expected}")


def _is_of_type(found: DataType, wanted: DataType) -> bool:
    if isinstance(found, NullType):  # the rules decide row by row
        return True
    if isinstance(wanted, ArrayType):
        return isinstance(found, ArrayType) and _is_of_type(found.elementType, wanted.elementType)
    if isinstance(wanted, StringType):
        return isinstance(found, StringType)
    if isinstance(wanted, BooleanType):
        return isinstance(found, BooleanType)
    # Spark reads unsigned integers of 64 bits as decimals of 20 digits.
    return isinstance(found, IntegralType) or found == DecimalType(20, 0)


def _widest(datatype: DataType) -> DataType:
    """Widen integers to 64 bits, to reject numbers out of range."""
    return LongType() if isinstance(datatype, IntegralType) else datatype


def _reason(rule: Rule, column: ParsedColumn) -> Column:
    shown = F.when(
        F.length(column.shown) > MAX_SHOWN,
        F.concat(F.left(column.shown, F.lit(MAX_SHOWN - 3)), F.lit("...")),
    )
    value = F.coalesce(shown, column.shown)
    found = F.coalesce(F.concat(F.lit("'"), value, F.lit("'")), F.lit("nothing"))
    return F.concat(
        F.lit(f"column {rule.column}: "), found, F.lit(", expected "), F.lit(rule.expected)
    )


def text_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    """Return the rules of an id or key: non-empty valid UTF-8."""
    text = columns[name].value
    return [Rule(name, (F.length(text) > 0) & F.is_valid_utf8(text), _NON_EMPTY_TEXT)]


def kind_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    """Return the rules of a kind: null or valid UTF-8."""
    kind = columns[name]
    return [Rule(name, kind.shown.isNull() | F.is_valid_utf8(kind.value), "UTF-8 text")]


def integer_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    """Return the rules of an integer of 64 bits."""
    return [Rule(name, columns[name].value.isNotNull(), _INT64)]


def _time_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    is_near = columns[name].value.between(-FARTHEST_MS, FARTHEST_MS)
    return [*integer_rules(name, columns), Rule(name, is_near, NEAR_TIME)]


def _timeout_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    start = columns["submitted_ms" if "submitted_ms" in columns else "at_ms"].value
    timeout = columns[name].value
    return [
        Rule(name, timeout >= 0, _DURATION),
        Rule(name, F.try_add(start, timeout).isNotNull(), "a deadline within 64 bits"),
    ]


def _key_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    keys = columns[name].value
    # Spark does not compile `forall`. The comma keeps bytes of two keys from being valid together.
    are_texts = ~F.array_contains(keys, "") & F.is_valid_utf8(F.concat_ws(",", keys))
    return [
        Rule(name, F.size(keys) > 0, "a list of at least one key"),
        Rule(name, are_texts, f"every key to be {_NON_EMPTY_TEXT}"),
    ]


def _need_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    need, distinct = columns[name], F.size(F.array_distinct(columns["keys"].value))
    # Almost every operation needs a single key.
    is_need = (need.value == 1) | need.shown.isNull() | need.value.between(1, distinct)
    limits = (F.lit("an integer from 1 to "), distinct, F.lit(", the number of distinct keys"))
    return [Rule(name, is_need, F.concat(*limits))]


def _hold_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    hold = columns[name]
    end = F.try_add(columns["at_ms"].value, hold.value)
    return [
        Rule(name, hold.shown.isNull() | (hold.value >= 0), _DURATION),
        Rule(name, hold.shown.isNull() | end.isNotNull(), "an end of the hold within 64 bits"),
    ]


def _truth_rules(name: str, columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    truth = columns[name]
    return [Rule(name, truth.shown.isNull() | truth.value.isNotNull(), "true or false")]


_RULES: Final = {
    "op_id": text_rules,
    "key": text_rules,
    "kind": kind_rules,
    "submitted_ms": _time_rules,
    "at_ms": _time_rules,
    "timeout_ms": _timeout_rules,
    "keys": _key_rules,
    "need": _need_rules,
    "hold_ms": _hold_rules,
    "failed": _truth_rules,
}


def _rules(columns: Mapping[str, ParsedColumn]) -> list[Rule]:
    return [rule for name in columns for rule in _RULES[name](name, columns)]


OPERATIONS_TABLE: Final = TableSpec(tables.OPERATIONS, OPERATIONS, _rules)
EVENTS_TABLE: Final = TableSpec(tables.EVENTS, EVENTS, _rules)
EXTENSIONS_TABLE: Final = TableSpec(tables.EXTENSIONS, EXTENSIONS, _rules)
