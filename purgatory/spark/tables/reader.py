"""Files and directories of a trace, as checked DataFrames; what cannot be read is named at once.

`read_operations` and `read_events` take what `purgatory.trace` takes: Parquet, CSV and JSON lines,
by suffix, and directories of them; paths as Spark knows them (`hdfs:`, `s3a:`, globs) as well. The
rows are read when the DataFrame is; the call itself looks at names, schemas, headers and Parquet
footers, so that what is wrong with a file shows before work starts. Any thread may call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final, NamedTuple
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from purgatory.spark.errors import SPARK_ERRORS, TableError, error_message
from purgatory.spark.tables.local_table import local_table
from purgatory.spark.tables.row_checks import (
    EVENTS_TABLE,
    OPERATIONS_TABLE,
    CheckedTable,
    ParsedColumn,
    ParsedRows,
    TableSpec,
    absent_column,
    check_columns,
    check_rows,
    parse_rows,
)
from purgatory.spark.tables.schema import SEQUENCE

_FORMATS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_COMPRESSED: Final = ".gz"
_MALFORMED: Final = "_malformed"
_FILE: Final = "_file"

_NUMBERS: Final = StructType([StructField("_number", LongType()), StructField(_FILE, StringType())])

# Room for the rows, or the bytes, of a file below the number of the file.
_FILE_SHIFT: Final = 40
# monotonically_increasing_id counts the rows of a partition in its lower bits.
_ROW_OF_PARTITION: Final = (1 << 33) - 1
_SAMPLED_LINES: Final = 20

# A damaged or vanished file must stop the job, whatever a session handed in says.
_READ_ALL: Final = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


class TraceFiles(NamedTuple):
    """The files that a path stands for, by format: suffixes of their names, and all in order."""

    path: str
    suffixes: Mapping[str, Sequence[str]]
    names: Sequence[str]


def read_operations(spark: SparkSession, path: str) -> CheckedTable:
    """Read a table of operations; see `read_events`."""
    return read_table(spark, path, OPERATIONS_TABLE)


def read_events(spark: SparkSession, path: str) -> CheckedTable:
    """Read a table of key events: the good rows, and the rejected ones with file and reason.

    `path` is a file or a directory. Good rows have a column `seq` besides: the order of the rows
    in the file, and of files in that of their names. `TableError` names the file or path and what
    is wrong with it: missing, unreadable, of no known format, lacking a column, of a wrong type.
    """
    return read_table(spark, path, EVENTS_TABLE)


def find_files(spark: SparkSession, path: str) -> TraceFiles:
    """Find the files of a trace that a path stands for; `TableError` when there are none.

    Files of other suffixes in a directory are passed over, as are those whose names begin with an
    underscore or a dot.
    """
    try:
        found = spark.read.format("binaryFile").load(path).inputFiles()
    except AnalysisException as error:
        missing = error.getCondition() == "PATH_NOT_FOUND"
        raise TableError(f"{path}: {'not found' if missing else error_message(error)}") from error
    names = sorted(map(_plain_name, found), key=unquote)
    suffixes: dict[str, set[str]] = {}
    for name in names:
        if match := _format_of(name):
            suffixes.setdefault(match[0], set()).add(match[1])
    if not suffixes:
        known = ", ".join(_FORMATS)
        raise TableError(
            f"{path}: no file with a suffix of {known}, or .gz after one of the text formats"
        )
    ours = [name for name in names if _format_of(name)]
    return TraceFiles(path, {kind: sorted(found) for kind, found in suffixes.items()}, ours)


def read_table(spark: SparkSession, path: str, table: TableSpec) -> CheckedTable:
    """Read a table of any kind; see `read_events`."""
    files = find_files(spark, path)
    parts = []
    for kind, suffixes in files.suffixes.items():
        only = {"pathGlobFilter": f"*{{{','.join(suffixes)}}}", **_READ_ALL}
        try:
            found = _PARSERS[kind](spark, path, table, only)
        except SPARK_ERRORS as error:
            raise TableError(f"{path}: {error_message(error)}") from error
        if table is EVENTS_TABLE:
            found = _with_sequence(spark, files, found)
        parts.append(check_rows(table, found))
    return reduce(_union, parts)


def _union(one: CheckedTable, other: CheckedTable) -> CheckedTable:
    return CheckedTable(one.good.union(other.good), one.rejected.union(other.rejected))


def _parse_parquet(
    spark: SparkSession, path: str, table: TableSpec, options: Mapping[str, str]
) -> ParsedRows:
    # The schema of all files together: a column that only some of them have must not get lost.
    rows = spark.read.options(**options).option("mergeSchema", "true").parquet(path)
    found = parse_rows(table, rows, f"{path}: ")
    return _with_file_and_position(
        found, _names_of(table, rows.columns), F.col("_metadata.row_index")
    )


def _parse_csv(
    spark: SparkSession, path: str, table: TableSpec, options: Mapping[str, str]
) -> ParsedRows:
    reader = spark.read.options(**options).options(header="true", quote='"', escape='"')
    header = reader.csv(path).columns
    names = [name.strip() for name in header]
    check_columns(table, names, f"{path}: ")
    # A file whose header is another one is refused (enforceSchema) when it is read, as its columns
    # would be mistaken. multiLine: a quoted cell may hold line breaks.
    schema = ", ".join(f"{_quoted(name)} string" for name in [*header, _MALFORMED])
    rows = (
        reader.options(
            enforceSchema="false", multiLine="true", columnNameOfCorruptRecord=_MALFORMED
        )
        .schema(schema)
        .csv(path)
    )
    renamed = [
        F.col(_quoted(header[names.index(name)])).alias(name) for name in _names_of(table, names)
    ]
    columns = {
        field.name: csv_column(field.name, field.dataType)
        if field.name in names
        else absent_column(field.dataType)
        for field in table.schema
    }
    none = F.lit(None).cast("string")
    found = ParsedRows(rows, columns, none, F.col(_MALFORMED))
    return _with_file_and_position(found, [*renamed, _MALFORMED], _position_in_text_file())


def _names_of(table: TableSpec, names: Sequence[str]) -> list[str]:
    """Those of the table's columns that are there; others are passed over."""
    return [name for name in table.schema.names if name in names]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def csv_column(name: str, datatype: DataType) -> ParsedColumn:
    """The cell of a column that CSV gave as text."""
    text = F.nullif(F.col(name), F.lit(""))
    if isinstance(datatype, ArrayType):
        return ParsedColumn(F.split(text, r"\|"), text)
    if isinstance(datatype, IntegralType):
        # Plain decimal digits only: a cast alone would take more.
        return ParsedColumn(
            F.when(text.rlike(r"^\s*[+-]?[0-9]+\s*$"), text.try_cast("bigint")), text
        )
    return ParsedColumn(text, text)


def _parse_json(
    spark: SparkSession, path: str, table: TableSpec, options: Mapping[str, str]
) -> ParsedRows:
    lines = spark.read.options(**options).text(path)
    check_columns(table, _names_in(lines, table), f"{path}: ")
    # As variants, since a reader told to expect a string makes one of anything.
    schema = ", ".join(f"{name} variant" for name in table.schema.names)
    rows = (
        spark.read.options(**options)
        .option("columnNameOfCorruptRecord", _MALFORMED)
        .schema(f"{schema}, {_MALFORMED} string")
        .json(path)
    )
    columns = {field.name: json_column(field.name, field.dataType) for field in table.schema}
    found = ParsedRows(rows, columns, F.lit(None).cast("string"), F.col(_MALFORMED))
    return _with_file_and_position(
        found, [*table.schema.names, _MALFORMED], _position_in_text_file()
    )


def _names_in(lines: DataFrame, table: TableSpec) -> Sequence[str]:
    """The names that the first lines have; all that a table has when there are no objects."""
    names: set[str] = set()
    for row in lines.where(F.trim("value") != "").limit(_SAMPLED_LINES).collect():
        names |= _names_of_object(row.value)
    return sorted(names) or table.schema.names


def _names_of_object(line: str) -> set[str]:
    """The names in a line of JSON; none if it is no object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return set()
    return set(found) if isinstance(found, dict) else set()


def json_column(name: str, datatype: DataType) -> ParsedColumn:
    """The cell of a column that JSON gave as a variant."""
    column = F.col(name)
    kind = F.schema_of_variant(column)
    shown = F.when(
        kind != "VOID", F.coalesce(column.try_cast("string"), F.to_json(F.struct(column)))
    )
    wanted, found = _VARIANTS.get(type(datatype), _INTEGER)
    return ParsedColumn(F.when(kind.isin(*found), F.try_variant_get(column, "$", wanted)), shown)


# The Spark type of a column, and the types that a JSON value for it may have.
_VARIANTS: Final[dict[type[DataType], tuple[str, tuple[str, ...]]]] = {
    StringType: ("string", ("STRING",)),
    ArrayType: ("array<string>", ("ARRAY<STRING>", "ARRAY<VOID>")),
}
_INTEGER: Final = ("bigint", ("BIGINT",))

_PARSERS: Final[
    dict[str, Callable[[SparkSession, str, TableSpec, Mapping[str, str]], ParsedRows]]
] = {
    "parquet": _parse_parquet,
    "csv": _parse_csv,
    "json": _parse_json,
}


def _with_file_and_position(
    found: ParsedRows, columns: Sequence[Column | str], place: Column
) -> ParsedRows:
    """Note the file of each row, and its place in it, right where it is read."""
    name = F.regexp_replace("_metadata.file_path", "^file:/+", "/")
    rows = found.rows.select(*columns, name.alias(_FILE), place.alias(SEQUENCE))
    # As a person writes it; a plus sign is one there, but a space where forms are decoded.
    file = F.try_url_decode(F.replace(_FILE, F.lit("+"), F.lit("%2B")))
    return found._replace(rows=rows, file=file)


def _position_in_text_file() -> Column:
    """A number that grows from row to row of a text file.

    A file is read in blocks that begin at multiples of one size, several of them, also of other
    files, in a partition no larger than that size. Rows have a byte at least, so the row's number
    in its partition, added to where its block begins, stays below where the next block begins.
    """
    row = F.monotonically_increasing_id().bitwiseAND(_ROW_OF_PARTITION)
    return F.col("_metadata.file_block_start") + row


def _with_sequence(spark: SparkSession, files: TraceFiles, found: ParsedRows) -> ParsedRows:
    """Put the number of the file above the place in it."""
    if len(files.names) == 1:
        return found._replace(extra=[F.col(SEQUENCE)])
    numbers = local_table(spark, _NUMBERS, enumerate(files.names))
    rows = found.rows.join(F.broadcast(numbers), _FILE, "left")
    seq = F.shiftleft("_number", _FILE_SHIFT) + F.col(SEQUENCE)
    return found._replace(rows=rows, extra=[seq.alias(SEQUENCE)])


def _format_of(name: str) -> tuple[str, str] | None:
    """The format of a file, and the suffix that says so; None for an unknown one."""
    match = re.search(r"(\.[a-z]+)(\.gz)?$", name, re.IGNORECASE)
    kind = _FORMATS.get(match[1].lower()) if match else None
    if match is None or kind is None or (match[2] and kind == "parquet"):
        return None
    return kind, match[0]


def _plain_name(uri: str) -> str:
    """A file's name as `_metadata.file_path` has it, local ones without a scheme."""
    return re.sub("^file:/+", "/", uri)
