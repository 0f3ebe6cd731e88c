"""What the footers of Parquet files say of a table's columns.

Spark infers types of all columns of a file, and refuses a file with a column of a type that Spark
does not know, even if no query uses the column. It also takes a column of nulls without a type for
integers. The footers tell more, of the table's columns alone.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.ipc

from purgatory.spark.errors import TableError
from purgatory.spark.filesystem import local_name
from purgatory.trace.errors import TraceError
from purgatory.trace.parquet_format import check_case

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The logical type of a column of nulls that pyarrow and pandas write if no value has a type.
UNTYPED: Final = "UNKNOWN"
# A type of Arrow, as pandas writes differences of times. For Parquet such a column holds integers.
DURATION: Final = "DURATION"
_LIST: Final = "LIST"
_OF_ARROW: Final = "ARROW:schema"


class FooterColumns(NamedTuple):
    """Columns of a file: Spark's schema as JSON, without untyped ones, and the logical types."""

    schema: str
    types: tuple[tuple[str, str], ...]

    @property
    def untyped(self) -> list[str]:
        """The names of the columns of nulls without a type."""
        return [name for name, kind in self.types if kind == UNTYPED]


def footer_types(
    spark: SparkSession, files: Iterable[str], names: Collection[str]
) -> list[dict[str, str]]:
    """Return the logical types of columns in each file, or physical ones of columns without.

    Raises `TableError` for a file with a name that differs from one of `names` only by case.
    """
    return [_types_in(file, _metadata(spark, file), names) for file in files]


def _types_in(file: str, metadata: Any, names: Collection[str]) -> dict[str, str]:
    schema = metadata.getSchema()
    _check_case(file, [str(column.getName()) for column in schema.getFields()], names)
    durations = _durations(metadata.getKeyValueMetaData().get(_OF_ARROW))
    return {
        name: DURATION if name in durations else _type_name(schema.getType(name))
        for name in names
        if schema.containsField(name)
    }


def _durations(written: str | None) -> set[str]:
    """Return the columns of a file that are durations by the schema that Arrow writes."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written or "")))
    except (ValueError, EOFError, OSError):  # of another program
        return set()
    return {field.name for field in schema if pa.types.is_duration(field.type)}


def _type_name(column: Any) -> str:
    """Return the logical type of a column, or the physical one of a column without.

    A list of nulls without a type, as pyarrow writes empty lists, is untyped.
    """
    logical = column.getLogicalTypeAnnotation()
    if logical is None and column.isPrimitive():
        return str(column.asPrimitiveType().getPrimitiveTypeName())
    if str(logical) == _LIST:
        while not column.isPrimitive():
            column = column.asGroupType().getType(0)
        return UNTYPED if str(column.getLogicalTypeAnnotation()) == UNTYPED else _LIST
    return str(logical)


def footer_columns(spark: SparkSession, file: str, names: Collection[str]) -> FooterColumns:
    """Return what a file says of some columns; `TableError` as for `footer_types`."""
    jvm: Any = spark.sparkContext._jvm
    metadata = _metadata(spark, file)
    types = _types_in(file, metadata, names)
    typed = [name for name, kind in types.items() if kind != UNTYPED]
    if not typed:
        return FooterColumns("", tuple(types.items()))
    columns = jvm.java.util.ArrayList()
    for name in typed:
        columns.add(metadata.getSchema().getType(name))
    chosen = jvm.org.apache.parquet.schema.MessageType("table", columns)
    parquet = jvm.org.apache.spark.sql.execution.datasources.parquet
    converter = parquet.ParquetToSparkSchemaConverter(spark._jsparkSession.sessionState().conf())
    return FooterColumns(str(converter.convert(chosen).json()), tuple(types.items()))


def _check_case(file: str, found: Collection[str], names: Collection[str]) -> None:
    try:
        check_case(local_name(file), found, names)
    except TraceError as error:
        raise TableError(str(error)) from None


def _metadata(spark: SparkSession, file: str) -> Any:
    context = spark.sparkContext
    jvm: Any = context._jvm
    settings = jvm.org.apache.hadoop.conf.Configuration(context._jsc.hadoopConfiguration())
    # Without files of checksums: Hadoop cannot name the one of a file with a colon.
    settings.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    settings.set("fs.file.impl.disable.cache", "true")
    path = jvm.org.apache.hadoop.fs.Path(file)
    source = jvm.org.apache.parquet.hadoop.util.HadoopInputFile.fromPath(path, settings)
    reader = jvm.org.apache.parquet.hadoop.ParquetFileReader.open(source)
    try:
        return reader.getFileMetaData()
    finally:
        reader.close()
