"""Reads files and directories of a trace as checked DataFrames, as `purgatory.trace` does.

Also takes paths that Spark knows (`hdfs:`, `s3a:`, globs); existing paths literally. Names, headers
and footers are read first, to report an unreadable file at once.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from purgatory.printable import printable
from purgatory.spark.errors import SPARK_ERRORS, TableError, error_message
from purgatory.spark.filesystem import (
    LITERAL_PATHS,
    FileSystem,
    file_system_for,
    find_paths,
    local_name,
)
from purgatory.spark.tables.footers import (
    DURATION,
    LIST,
    FooterColumns,
    group_by_columns,
)
from purgatory.spark.tables.line_parser import (
    CSV,
    FAULT,
    FILE,
    PLACE,
    SHOWN,
    LineParser,
    parsed_schema,
    text_lines,
)
from purgatory.spark.tables.row_checks import (
    EVENTS_TABLE,
    EXTENSIONS_TABLE,
    CheckedTable,
    ParsedColumn,
    ParsedRows,
    TableSpec,
    check_rows,
    parse_rows,
    wrong_type,
)
from purgatory.spark.tables.schema import SEQUENCE
from purgatory.spark.tables.timestamps import (
    TIME_COLUMNS,
    is_nanoseconds,
    ms_of_nanoseconds,
)
from purgatory.trace.errors import BadValue, TraceError
from purgatory.trace.formats import KNOWN, find_format
from purgatory.trace.tables import Table, table_named
from purgatory.trace.text_formats import CsvRowReader, is_binary, object_of

PARQUET: Final = "parquet"
_IN_SEQUENCE: Final = (EVENTS_TABLE, EXTENSIONS_TABLE)

_NUMBERS: Final = StructType([StructField("_number", LongType()), StructField(FILE, StringType())])

# A sequence number has the file's number above so many bits of the position.
_FILE_SHIFT: Final = 40
# monotonically_increasing_id counts the rows of a partition in these bits.
_ROW_OF_PARTITION: Final = (1 << 33) - 1
# Spark's hidden column of facts on the file.
_METADATA: Final = "_metadata"
# Types that Spark takes for integers or texts.
_MISTAKEN: Final = "DECIMAL", DURATION, "TIMESTAMP(NANOS", "ENUM", f"{LIST} of"
_SAMPLED_LINES: Final = 20

# A damaged or missing file must fail the job, whatever the session's settings.
_READ_ALL: Final = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
# Hadoop takes a colon in the name of a local file's checksums for a scheme's.
_WITHOUT_CHECKSUMS: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


def find_files(spark: SparkSession, path: str) -> dict[str, str]:
    """Find the files of a trace that a path stands for, in order, and their formats.

    Takes the same files as `trace.formats.files_of`. Raises `TableError` without files, and for an
    empty file of a format that needs columns.
    """
    file_system, _ = file_system_for(spark, path)
    roots = find_paths(spark, path)
    if not roots:
        raise TableError(f"{path}: not found")
    below = {name: size for root in roots for name, size in _files_below(file_system, root)}
    _check_names(below)
    order = sorted(below, key=lambda name: name.split("/"))
    found = {name: kind for name in order if (kind := format_of(name)) is not None}
    for name, kind in found.items():
        _check_not_empty(name, kind, below[name])
    if not found and not _are_empty_tables(file_system, roots, below):
        raise TableError(
            f"{path}: no file with a suffix of {KNOWN}, or .gz after one of the text formats"
        )
    return found


def _check_names(files: Iterable[str]) -> None:
    # Java would not find the file.
    for name in files:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise TableError(f"{printable(name)}: Spark reads no name that is not UTF-8") from None


def _are_empty_tables(
    file_system: FileSystem, roots: Sequence[str], below: Mapping[str, int]
) -> bool:
    """Tell whether all are empty directories, named as tables."""
    are_named = all(table_named(root.rpartition("/")[2]) is not None for root in roots)
    return are_named and not below and not any(_holds_more(file_system, root) for root in roots)


def _holds_more(file_system: FileSystem, path: str) -> bool:
    """Tell whether a directory without files has directories other than partitions."""
    names = [name for name in file_system.names(path) if not name.startswith((".", "_"))]
    return any("=" not in name or _holds_more(file_system, f"{path}/{name}") for name in names)


def _files_below(
    file_system: FileSystem, path: str, above: frozenset[str] = frozenset()
) -> Iterator[tuple[str, int]]:
    """Yield the files of a path and its partitions.

    A link to a directory `above` would lead in circles.
    """
    place = file_system.place(path)
    if place in above:
        return
    size = file_system.size(path)
    if size is not None:
        yield path, size
        return
    sizes = file_system.sizes(path)
    for name in file_system.names(path):
        if name.startswith((".", "_")):
            continue
        if name in sizes:
            yield f"{path}/{name}", sizes[name]
        elif "=" in name:
            yield from _files_below(file_system, f"{path}/{name}", above | {place})


def format_of(name: str) -> str | None:
    """Return the format that a file's name indicates, or None."""
    found = find_format(Path(name))
    return None if found is None else found.name


def _check_not_empty(name: str, kind: str, size: int) -> None:
    if size == 0 and kind == PARQUET:
        raise TableError(f"{name}: an empty file, not Parquet")
    if size == 0 and kind == CSV:
        raise TableError(f"{name}: empty, not even a header line")


def read_table(spark: SparkSession, path: str, table: TableSpec) -> CheckedTable:
    """Read a file or directory as the good and the rejected rows of a table.

    Good rows of events and extensions have a column `seq`: the order of rows in files, and of files
    by name. Raises `TableError` for a path that is missing, unreadable or of no known format, and
    for a column that is missing or of a wrong type.
    """
    try:
        files = find_files(spark, path)
        parsed = [
            part
            for kind in dict.fromkeys(files.values())
            for part in _parse(spark, kind, [n for n in files if files[n] == kind], table, path)
        ]
    except SPARK_ERRORS as error:
        raise TableError(f"{path}: {error_message(error)}") from error
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from error
    if not parsed:
        parsed = [_no_rows(spark, table, path)]
    if table in _IN_SEQUENCE:
        parsed = [_with_sequence(spark, files, part) for part in parsed]
    parts = [check_rows(table, part) for part in parsed]
    # Only some files of events may have its optional columns.
    union = partial(DataFrame.unionByName, allowMissingColumns=True)
    return CheckedTable(
        reduce(union, (part.marked for part in parts)),
        reduce(DataFrame.union, (part.rejected for part in parts)),
    )


def _parse(
    spark: SparkSession, kind: str, files: Sequence[str], table: TableSpec, path: str
) -> list[ParsedRows]:
    if kind == PARQUET:
        return _parse_parquet(spark, files, table)
    return [_parse_text(spark, kind, files, table, path)]


def _no_rows(spark: SparkSession, table: TableSpec, path: str) -> ParsedRows:
    named = table_named(path.rstrip("/").rpartition("/")[2])
    if named is None or named.name != table.name:
        raise TableError(f"{path}: an empty directory; expected a table of {table.name}")
    return parsed_lines(local_table(spark, parsed_schema(table.name)), table)


def _options(files: Iterable[str]) -> dict[str, str]:
    has_colon = any(":" in re.sub("^file:", "", name) for name in files)
    return {**_READ_ALL, **LITERAL_PATHS, **(_WITHOUT_CHECKSUMS if has_colon else {})}


def _parse_parquet(spark: SparkSession, files: Sequence[str], table: TableSpec) -> list[ParsedRows]:
    """Parse files by their footers, those with different types of a column apart."""
    groups = group_by_columns(spark, files, table.schema.names)
    return [_parse_group(spark, group, table, found) for found, group in groups.items()]


def _parse_group(
    spark: SparkSession, files: Sequence[str], table: TableSpec, found: FooterColumns
) -> ParsedRows:
    schema = StructType.fromJson(json.loads(found.schema)) if found.schema else StructType()
    rows = spark.read.options(**_options(files)).schema(schema).parquet(*files)
    # The rules decide row by row what nulls are worth.
    rows = rows.select("*", *(F.lit(None).alias(name) for name in found.untyped))
    where = f"{local_name(files[0])}: "
    parsed = _with_odd_columns(parse_rows(table, rows, where), table, dict(found.types), where)
    names = [name for name in table.schema.names if name in rows.columns]
    file, position = _file_column(), F.col(f"{_METADATA}.row_index")
    rows = parsed.rows.select(*names, file.alias(FILE), position.alias(PLACE))
    return parsed._replace(rows=rows, file=F.col(FILE))


def _with_odd_columns(
    parsed: ParsedRows, table: TableSpec, types: Mapping[str, str], where: str
) -> ParsedRows:
    """Turn nanoseconds into milliseconds; refuse types that Spark takes for others."""
    columns = dict(parsed.columns)
    for name, kind in types.items():
        if is_nanoseconds(kind) and name in TIME_COLUMNS:
            columns[name] = columns[name]._replace(value=ms_of_nanoseconds(columns[name].value))
        elif kind.startswith(_MISTAKEN):
            found = "timestamps" if is_nanoseconds(kind) else kind
            raise wrong_type(table.schema[name], found, where)
    return parsed._replace(columns=columns)


def _parse_text(
    spark: SparkSession, kind: str, files: Sequence[str], table: TableSpec, path: str
) -> ParsedRows:
    reader = spark.read.format("text").options(lineSep="\n", **_options(files))
    _check_beginning(reader.load(files[0]), kind, table.table, path)
    lines = reader.load(list(files)).select(
        F.col("value").cast("binary"),
        _file_column().alias(FILE),
        _position_in_text_file().alias(PLACE),
    )
    if kind == CSV and lines.rdd.getNumPartitions() > 1:
        # A value may have line breaks, so one task reads a file, in order.
        lines = lines.repartition(FILE).sortWithinPartitions(FILE, PLACE)
    rows = lines.mapInArrow(LineParser(table.name, kind), parsed_schema(table.name))
    return parsed_lines(rows, table)


def parsed_lines(rows: DataFrame, table: TableSpec) -> ParsedRows:
    """Return the output of a `LineParser` as parsed rows."""
    columns = {
        name: ParsedColumn(F.col(name), F.col(name).cast("string")) for name in table.schema.names
    }
    return ParsedRows(rows, columns, F.col(FILE), F.col(FAULT), F.col(SHOWN))


def _check_beginning(lines: DataFrame, kind: str, table: Table[Any], path: str) -> None:
    value = F.col("value").cast("binary")
    there = lines if kind == CSV else lines.where(F.trim("value") != "")
    found = [bytes(row[0]) for row in there.select(value).limit(_SAMPLED_LINES).collect()]
    try:
        if kind == CSV:
            CsvRowReader(Path(path), text_lines(found)).bind(table)
        elif is_binary("".join(text_lines(found[:1]))):
            raise TableError(f"{path}: not UTF-8 text")
        elif names := {name for line in text_lines(found) for name in _names_of_object(line)}:
            table.check_columns(path, names)
    except TraceError as error:
        raise TableError(str(error)) from error


def _names_of_object(line: str) -> Iterable[str]:
    try:
        return object_of(line)
    except BadValue:
        return ()


def _file_column() -> Column:
    name = F.regexp_replace("_metadata.file_path", "^file:/+", "/")
    # try_url_decode would turn a plus sign, which stands for itself, into a space.
    return F.try_url_decode(F.replace(name, F.lit("+"), F.lit("%2B")))


def _position_in_text_file() -> Column:
    """Return a number that grows from row to row of a text file.

    Spark's blocks of a file begin at multiples of one size; a partition is no larger, and a row has
    at least one byte. So the row's number in the partition plus the start of its block is below the
    next block.
    """
    row = F.monotonically_increasing_id().bitwiseAND(_ROW_OF_PARTITION)
    return F.col("_metadata.file_block_start") + row


def _with_sequence(spark: SparkSession, files: Collection[str], parsed: ParsedRows) -> ParsedRows:
    if len(files) <= 1:
        return parsed._replace(extra=[F.col(PLACE).alias(SEQUENCE)])
    names = enumerate(map(local_name, files))
    numbers = local_table(spark, _NUMBERS, names)
    rows = parsed.rows.join(F.broadcast(numbers), FILE, "left")
    seq = F.shiftleft("_number", _FILE_SHIFT) + F.col(PLACE)
    return parsed._replace(rows=rows, extra=[seq.alias(SEQUENCE)])


def local_table(
    spark: SparkSession, schema: StructType, rows: Iterable[Sequence[object]] = ()
) -> DataFrame:
    """Make a DataFrame of rows with values in the schema's order."""
    named = [dict(zip(schema.names, row, strict=True)) for row in rows]
    return spark.createDataFrame(
        pa.Table.from_pylist(named, schema=to_arrow_schema(schema)), schema
    )
