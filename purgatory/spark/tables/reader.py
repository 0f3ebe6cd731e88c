"""Reads files and directories of a trace as checked DataFrames.

`read_table` takes what `purgatory.trace` takes: Parquet, CSV and JSON lines, by suffix, and
directories of them; also paths that Spark knows (`hdfs:`, `s3a:`, globs). The call itself reads
names, schemas, headers and Parquet footers, so that an unreadable file is reported before work
starts; rows are read when the DataFrame is used. Any thread may call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, reduce
from typing import Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegralType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from purgatory.spark.errors import SPARK_ERRORS, TableError, error_message
from purgatory.spark.tables.row_checks import (
    EVENTS_TABLE,
    EXTENSIONS_TABLE,
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
from purgatory.spark.tables.timestamps import (
    TIME_COLUMNS,
    columns_of_nanoseconds,
    ms_of_nanoseconds,
    read_nanoseconds_as_integers,
    reads_nanoseconds_as_integers,
)

_FORMATS: Final = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
}
_COMPRESSED: Final = ".gz"
_IN_SEQUENCE: Final = (EVENTS_TABLE, EXTENSIONS_TABLE)
_MALFORMED: Final = "_malformed"
_FILE: Final = "_file"

_NUMBERS: Final = StructType([StructField("_number", LongType()), StructField(_FILE, StringType())])

# A sequence number has the number of the file above the position in the file; bits of the latter.
_FILE_SHIFT: Final = 40
# monotonically_increasing_id counts the rows of a partition in its lower bits.
_ROW_OF_PARTITION: Final = (1 << 33) - 1
# What Spark says of a type that it cannot hold, and of files without a footer.
_ILLEGAL_TYPE: Final = "PARQUET_TYPE_ILLEGAL"
_NO_SCHEMA: Final = "UNABLE_TO_INFER_SCHEMA"
_SAMPLED_LINES: Final = 20

# A damaged or missing file must fail the job, whatever the settings of the caller's session are.
_READ_ALL: Final = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}


class TraceFiles(NamedTuple):
    """The files of a path: suffixes by format, and all names in order."""

    suffixes: Mapping[str, Sequence[str]]
    names: Sequence[str]


def find_files(spark: SparkSession, path: str) -> TraceFiles:
    """Find the files of a trace that a path stands for.

    Raises `TableError` if there are none. Skips files of other suffixes in a directory, and names
    that begin with an underscore or a dot.
    """
    try:
        found = spark.read.format("binaryFile").load(path).inputFiles()
    except AnalysisException as error:
        missing = error.getCondition() == "PATH_NOT_FOUND"
        raise TableError(f"{path}: {'not found' if missing else error_message(error)}") from error
    # A local file without its scheme.
    names = sorted((re.sub("^file:/+", "/", uri) for uri in found), key=unquote)
    suffixes: dict[str, set[str]] = {}
    ours = {name: match for name in names if (match := _format_of(name))}
    for kind, suffix in ours.values():
        suffixes.setdefault(kind, set()).add(suffix)
    if not ours:
        known = ", ".join(_FORMATS)
        raise TableError(
            f"{path}: no file with a suffix of {known}, or .gz after one of the text formats"
        )
    return TraceFiles({kind: sorted(found) for kind, found in suffixes.items()}, list(ours))


def read_table(spark: SparkSession, path: str, table: TableSpec) -> CheckedTable:
    """Read a table as good and rejected rows.

    `path` is a file or a directory. Good rows of events and extensions have an additional column
    `seq`: the order of the rows in the file, and of files by their names. Raises `TableError` for a
    path that is missing, unreadable or of no known format, and for a column that is missing or of a
    wrong type.
    """
    files = find_files(spark, path)
    parts = []
    for kind, suffixes in files.suffixes.items():
        only = {"pathGlobFilter": f"*{{{','.join(suffixes)}}}", **_READ_ALL}
        try:
            parsed = _PARSERS[kind](spark, path, table, only)
        except SPARK_ERRORS as error:
            raise TableError(f"{path}: {error_message(error)}") from error
        if table in _IN_SEQUENCE:
            parsed = _with_sequence(spark, files, parsed)
        parts.append(check_rows(table, parsed))
    # By name: only some files of events may have its optional columns.
    union = partial(DataFrame.unionByName, allowMissingColumns=True)
    return CheckedTable(
        reduce(union, (part.marked for part in parts)),
        reduce(DataFrame.union, (part.rejected for part in parts)),
    )


def _parse_parquet(
    spark: SparkSession, path: str, table: TableSpec, options: Mapping[str, str]
) -> ParsedRows:
    # Merge the schemas of all files, so that a column that only some of them have is not lost.
    reader = spark.read.options(**options).option("mergeSchema", "true")
    try:
        rows = reader.parquet(path)
    except PySparkException as error:
        if error.getCondition() == _NO_SCHEMA:
            raise TableError(f"{path}: an empty file is no Parquet") from error
        if error.getCondition() != _ILLEGAL_TYPE or reads_nanoseconds_as_integers(spark):
            raise
        read_nanoseconds_as_integers(spark)
        rows = reader.parquet(path)
    parsed = parse_rows(table, rows, f"{path}: ")
    if reads_nanoseconds_as_integers(spark):
        parsed = _with_nanoseconds(spark, rows.inputFiles(), parsed)
    return _with_file_and_position(
        parsed, _names_of(table, rows.columns), F.col("_metadata.row_index")
    )


def _with_nanoseconds(spark: SparkSession, files: Sequence[str], parsed: ParsedRows) -> ParsedRows:
    """Let times that were read as integers of nanoseconds be milliseconds."""
    columns = dict(parsed.columns)
    for name in columns_of_nanoseconds(spark, files, TIME_COLUMNS):
        if name in columns:
            value = ms_of_nanoseconds(columns[name].value)
            columns[name] = columns[name]._replace(value=value)
    return parsed._replace(columns=columns)


def _parse_csv(
    spark: SparkSession, path: str, table: TableSpec, options: Mapping[str, str]
) -> ParsedRows:
    reader = spark.read.options(**options).options(header="true", quote='"', escape='"')
    header = reader.csv(path).columns
    names = [name.strip() for name in header]
    check_columns(table, names, f"{path}: ")
    # Without enforceSchema, Spark refuses a file with another header when it reads it; its columns
    # would be mixed up otherwise. multiLine: a quoted value may contain line breaks.
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
    parsed = ParsedRows(rows, columns, none, F.col(_MALFORMED))
    return _with_file_and_position(parsed, [*renamed, _MALFORMED], _position_in_text_file())


def _names_of(table: TableSpec, names: Sequence[str]) -> list[str]:
    """Return those of the table's columns that are present; other columns are ignored."""
    return [name for name in table.schema.names if name in names]


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def csv_column(name: str, datatype: DataType) -> ParsedColumn:
    """Parse a column that CSV gave as text."""
    text = F.nullif(F.col(name), F.lit(""))
    if isinstance(datatype, ArrayType):
        return ParsedColumn(F.split(text, r"\|"), text)
    if isinstance(datatype, IntegralType):
        # Decimal digits only: a cast alone would accept more.
        return ParsedColumn(
            F.when(text.rlike(r"^\s*[+-]?[0-9]+\s*$"), text.try_cast("bigint")), text
        )
    if isinstance(datatype, BooleanType):
        # A cast would accept more words.
        truth = F.when(F.lower(text) == "true", True).when(F.lower(text) == "false", False)
        return ParsedColumn(truth, text)
    return ParsedColumn(text, text)


def _parse_json(
    spark: SparkSession, path: str, table: TableSpec, options: Mapping[str, str]
) -> ParsedRows:
    lines = spark.read.options(**options).text(path)
    check_columns(table, _names_in(lines, table), f"{path}: ")
    # As variants, since a reader that expects a string turns any value into one.
    schema = ", ".join(f"{name} variant" for name in table.schema.names)
    rows = (
        spark.read.options(**options)
        .option("columnNameOfCorruptRecord", _MALFORMED)
        .schema(f"{schema}, {_MALFORMED} string")
        .json(path)
    )
    columns = {field.name: json_column(field.name, field.dataType) for field in table.schema}
    parsed = ParsedRows(rows, columns, F.lit(None).cast("string"), F.col(_MALFORMED))
    return _with_file_and_position(
        parsed, [*table.schema.names, _MALFORMED], _position_in_text_file()
    )


def _names_in(lines: DataFrame, table: TableSpec) -> Sequence[str]:
    """Return the names in the first lines, or else all of the table."""
    names: set[str] = set()
    for row in lines.where(F.trim("value") != "").limit(_SAMPLED_LINES).collect():
        names |= _names_of_object(row.value)
    return sorted(names) or table.schema.names


def _names_of_object(line: str) -> set[str]:
    """Return the names in a line of JSON; none if no object."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return set()
    return set(found) if isinstance(found, dict) else set()


def json_column(name: str, datatype: DataType) -> ParsedColumn:
    """Parse a column that JSON gave as a variant."""
    column = F.col(name)
    kind = F.schema_of_variant(column)
    shown = F.when(
        kind != "VOID", F.coalesce(column.try_cast("string"), F.to_json(F.struct(column)))
    )
    wanted, found = _VARIANTS.get(type(datatype), _INTEGER)
    return ParsedColumn(F.when(kind.isin(*found), F.try_variant_get(column, "$", wanted)), shown)


# For a type of column, the type to cast to and the types that a JSON value may have.
_VARIANTS: Final[dict[type[DataType], tuple[str, tuple[str, ...]]]] = {
    StringType: ("string", ("STRING",)),
    BooleanType: ("boolean", ("BOOLEAN",)),
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
    parsed: ParsedRows, columns: Sequence[Column | str], position: Column
) -> ParsedRows:
    """Add the file of each row and its position there."""
    name = F.regexp_replace("_metadata.file_path", "^file:/+", "/")
    rows = parsed.rows.select(*columns, name.alias(_FILE), position.alias(SEQUENCE))
    # Decode the URI. try_url_decode would turn a plus sign, which is one here, into a space.
    file = F.try_url_decode(F.replace(_FILE, F.lit("+"), F.lit("%2B")))
    return parsed._replace(rows=rows, file=file)


def _position_in_text_file() -> Column:
    """Return a number that grows from row to row of a text file.

    Spark reads a file in blocks that begin at multiples of one size. A partition may have several
    blocks, also of other files, but is no larger than that size. A row has at least one byte. So
    the row's number in its partition, plus the start of its block, is below the start of the next
    block.
    """
    row = F.monotonically_increasing_id().bitwiseAND(_ROW_OF_PARTITION)
    return F.col("_metadata.file_block_start") + row


def _with_sequence(spark: SparkSession, files: TraceFiles, parsed: ParsedRows) -> ParsedRows:
    """Add the column `seq`: number of the file, then position in it."""
    if len(files.names) == 1:
        return parsed._replace(extra=[F.col(SEQUENCE)])
    numbers = local_table(spark, _NUMBERS, enumerate(files.names))
    rows = parsed.rows.join(F.broadcast(numbers), _FILE, "left")
    seq = F.shiftleft("_number", _FILE_SHIFT) + F.col(SEQUENCE)
    return parsed._replace(rows=rows, extra=[seq.alias(SEQUENCE)])


def _format_of(name: str) -> tuple[str, str] | None:
    """Return a file's format and its suffix; None for an unknown one."""
    match = re.search(r"(\.[a-z]+)(\.gz)?$", name, re.IGNORECASE)
    kind = _FORMATS.get(match[1].lower()) if match else None
    if match is None or kind is None or (match[2] and kind == "parquet"):
        return None
    return kind, match[0]


def local_table(
    spark: SparkSession, schema: StructType, rows: Iterable[Sequence[object]] = ()
) -> DataFrame:
    """Make a DataFrame of rows with values in the schema's order."""
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(
        pa.Table.from_pylist(named, schema=to_arrow_schema(schema)), schema
    )
