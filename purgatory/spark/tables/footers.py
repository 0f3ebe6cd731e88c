"""What the footers of Parquet files say of a table's columns.

Spark refuses a file with a column of an unknown type, even if no query uses the column. Spark takes
untyped nulls and durations for integers, and enumerations for texts. The footers tell more, of the
table's columns alone.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.ipc

from purgatory.spark.errors import TableError
from purgatory.spark.filesystem import local_name
from purgatory.spark.tables.timestamps import is_nanoseconds, read_nanoseconds_as_integers
from purgatory.trace.errors import TraceError
from purgatory.trace.parquet_format import check_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The logical type of a column of nulls.
UNTYPED: Final = "UNKNOWN"
# A type of Arrow; for Parquet such a column holds integers.
DURATION: Final = "DURATION"
STRING: Final = "STRING"
#: A list of texts, in any layout; a list of another type is `LIST of TYPE`.
LIST: Final = "LIST"
_JSON: Final = "JSON"  # texts, for all readers
_REPEATED: Final = "REPEATED"
_READERS: Final = 8
_OF_ARROW: Final = "ARROW:schema"
_CONVERTER: Final = (
    "org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter"
)
_Answer = TypeVar("_Answer")


class FooterColumns(NamedTuple):
    """Columns of a file: Spark's schema as JSON, without untyped ones, and the logical types."""

    schema: str
    types: tuple[tuple[str, str], ...]

    @property
    def untyped(self) -> list[str]:
        """The names of untyped columns."""
        return [name for name, kind in self.types if kind == UNTYPED]


def footer_types(
    spark: SparkSession, files: Sequence[str], names: Collection[str]
) -> list[dict[str, str]]:
    """Return the logical types of columns in each file, or physical ones of columns without.

    Raises `TableError` for a name that differs from one of `names` only by case.
    """
    footers = _read_footers(spark, files)
    return [types for _, types in _each_schema_once(footers, lambda f: _types_in(f, names))]


class _Footer(NamedTuple):
    """The schema of a file, also as text, and Arrow's copy of the schema, or ""."""

    file: str
    schema: Any
    text: str
    arrow: str


def _each_schema_once(
    footers: Iterable[_Footer], look: Callable[[_Footer], _Answer]
) -> Iterator[tuple[str, _Answer]]:
    """Yield files with what `look` finds, called once for equal schemas: Java answers slowly."""
    known: dict[tuple[str, str], _Answer] = {}
    for footer in footers:
        key = footer.text, footer.arrow
        if key not in known:
            known[key] = look(footer)
        yield footer.file, known[key]


def _types_in(footer: _Footer, names: Collection[str]) -> dict[str, str]:
    schema = footer.schema
    _check_case(footer.file, [str(column.getName()) for column in schema.getFields()], names)
    durations = _durations(footer.arrow)
    return {
        name: DURATION if name in durations else _type_name(schema.getType(name))
        for name in names
        if schema.containsField(name)
    }


def _durations(written: str) -> set[str]:
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written)))
    except (ValueError, EOFError, OSError):  # of another program
        return set()
    return {field.name for field in schema if pa.types.is_duration(field.type)}


def _type_name(column: Any) -> str:
    """Return a column's logical type, or else its physical one.

    A list of nulls without a type, as pyarrow writes empty lists, is untyped.
    """
    name = _own_name(column)
    if name == LIST or str(column.getRepetition()) == _REPEATED:
        while not column.isPrimitive():
            column = column.asGroupType().getType(0)
        name = _own_name(column)
        return {STRING: LIST, UNTYPED: UNTYPED}.get(name, f"{LIST} of {name}")
    return name


def _own_name(column: Any) -> str:
    logical = column.getLogicalTypeAnnotation()
    if logical is None and column.isPrimitive():
        return str(column.asPrimitiveType().getPrimitiveTypeName())
    return STRING if str(logical) == _JSON else str(logical)


def group_by_columns(
    spark: SparkSession, files: Sequence[str], names: Collection[str]
) -> dict[FooterColumns, list[str]]:
    """Group files that say the same of some columns; `TableError` as for `footer_types`."""
    groups: dict[FooterColumns, list[str]] = {}
    footers = _read_footers(spark, files)
    for file, columns in _each_schema_once(footers, lambda f: _columns(spark, f, names)):
        groups.setdefault(columns, []).append(file)
    return groups


def _columns(spark: SparkSession, footer: _Footer, names: Collection[str]) -> FooterColumns:
    jvm: Any = spark.sparkContext._jvm
    types = _types_in(footer, names)
    if any(map(is_nanoseconds, types.values())):
        read_nanoseconds_as_integers(spark)
    typed = [name for name, kind in types.items() if kind != UNTYPED]
    if not typed:
        return FooterColumns("", tuple(types.items()))
    columns = getattr(jvm, "java.util.ArrayList")()
    for name in typed:
        columns.add(footer.schema.getType(name))
    chosen = getattr(jvm, "org.apache.parquet.schema.MessageType")("table", columns)
    converter = getattr(jvm, _CONVERTER)(spark._jsparkSession.sessionState().conf())
    return FooterColumns(str(converter.convert(chosen).json()), tuple(types.items()))


def _check_case(file: str, found: Collection[str], names: Collection[str]) -> None:
    try:
        check_case(local_name(file), found, names)
    except TraceError as error:
        raise TableError(str(error)) from None


def _read_footers(spark: SparkSession, files: Sequence[str]) -> list[_Footer]:
    """Read several footers at a time: an object store answers slowly."""
    context = spark.sparkContext
    jvm: Any = context._jvm
    # By whole names: Java would look for each part of a name in all of Spark's archives.
    configuration = getattr(jvm, "org.apache.hadoop.conf.Configuration")
    settings = configuration(context._jsc.hadoopConfiguration())
    # Without checksums: see `reader`.
    settings.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    settings.set("fs.file.impl.disable.cache", "true")
    path = getattr(jvm, "org.apache.hadoop.fs.Path")
    source = getattr(jvm, "org.apache.parquet.hadoop.util.HadoopInputFile")
    reader = getattr(jvm, "org.apache.parquet.hadoop.ParquetFileReader")

    def read(file: str) -> _Footer:
        opened = reader.open(source.fromPath(path(file), settings))
        try:
            metadata = opened.getFileMetaData()
        finally:
            opened.close()
        schema, arrow = metadata.getSchema(), metadata.getKeyValueMetaData().get(_OF_ARROW)
        return _Footer(file, schema, str(schema), str(arrow or ""))

    if len(files) == 1:  # each new thread makes a connection to Java
        return [read(files[0])]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(read, files))
