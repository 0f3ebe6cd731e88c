"""Parses lines of CSV and JSON by the code of `purgatory.trace`.

So a replay, the batch and the stream take and reject the same rows; Spark's readers do not.

Spark calls a `LineParser` in Python workers, one call a partition, in a single thread.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from purgatory.spark.tables.row_checks import MAX_SHOWN
from purgatory.spark.tables.schema import schema_of
from purgatory.trace.errors import BadValue, TraceError
from purgatory.trace.tables import BATCH_ROWS, JOBS, TABLES, Table
from purgatory.trace.text_formats import CsvRowReader, object_of

CSV: Final = "csv"
JSON: Final = "json"
MESSAGES: Final = "messages"  # JSON, with blank lines as rows

# The further columns of a parsed row: file, place, and of a bad row the reason and the text.
FILE: Final = "_file"
PLACE: Final = "_place"
FAULT: Final = "_fault"
SHOWN: Final = "_shown"
_Line: TypeAlias = tuple[bytes | None, str | None, int]
_Row: TypeAlias = tuple[Any, ...]
_TEXTS: Final = [StructField(name, StringType()) for name in (FAULT, SHOWN, FILE)]
_TABLES: Final = {table.name: table for table in (*TABLES, JOBS)}


def parsed_schema(table: str) -> StructType:
    """Return the schema of parsed rows of a table."""
    columns = schema_of(_TABLES[table])
    return StructType([*columns, *_TEXTS, StructField(PLACE, LongType())])


class LineParser:
    """Parses the lines of a partition, each with its `FILE` and `PLACE`; for `mapInArrow`.

    `format`: `CSV`, `JSON` or `MESSAGES`. Lines of CSV come in order, file by file; `PLACE` is then
    the number in the file. Raises `TraceError` for a header of another table.
    """

    def __init__(self, table: str, format: str) -> None:  # noqa: A002 - as Spark calls it
        self._name = table
        self._format = format

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = to_arrow_schema(parsed_schema(self._name))
        columns = ((column.to_pylist() for column in batch.columns) for batch in batches)
        lines = chain.from_iterable(zip(*batch, strict=True) for batch in columns)
        table = _TABLES[self._name]
        rows = _csv_rows(table, lines) if self._format == CSV else self._json_rows(table, lines)
        while portion := list(islice(rows, BATCH_ROWS)):
            arrays = map(pa.array, zip(*portion, strict=True), schema.types)
            yield pa.RecordBatch.from_arrays(list(arrays), schema=schema)

    def _json_rows(self, table: Table[Any], lines: Iterable[_Line]) -> Iterator[_Row]:
        names = table.names
        for line, file, place in lines:
            text = _decoded(line)
            if self._format == JSON and (not text or text.isspace()):
                continue
            try:
                row = table.make(*map(object_of(text).get, names))
            except BadValue as error:
                yield _bad_row(table, error, _printable(text), file, place)
            else:
                yield (*row, None, None, file, place)


def _csv_rows(table: Table[Any], lines: Iterable[_Line]) -> Iterator[_Row]:
    for file, of_file in groupby(lines, key=itemgetter(1)):
        reader = CsvRowReader(Path(str(file)), text_lines(line for line, *_ in of_file))
        reader.bind(table)
        for place, fields in enumerate(_records(reader, file)):
            shown = fields[:]
            try:
                row = table.make(*reader.values(fields))
            except BadValue as error:
                yield _bad_row(table, error, _shown(reader.columns(), shown), file, place)
            else:
                yield (*row, None, None, file, place)


def _records(reader: CsvRowReader, file: str | None) -> Iterator[list[str]]:
    try:
        yield from reader.records()
    except csv.Error as error:
        raise TraceError(f"{file}, after line {reader.number}: {error}") from error


def text_lines(lines: Iterable[bytes | None]) -> Iterator[str]:
    """Yield lines as `csv` expects them: a carriage return ends a line, too."""
    for line in lines:
        yield from io.StringIO(f"{_decoded(line)}\n", newline="")


def _bad_row(table: Table[Any], error: BadValue, shown: str, file: str | None, place: int) -> _Row:
    return (*(None for _ in table.columns), _reason(error), shown, file, place)


def _reason(error: BadValue) -> str:
    if not error.column:
        return "the row cannot be taken apart"
    value = error.value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    shown = text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."
    found = "nothing" if value is None else f"'{shown}'"
    reason = f"column {error.column}: {found}, expected {error.expected}"
    return reason.encode("utf-8", "backslashreplace").decode()


def _shown(names: Sequence[str], fields: Sequence[str]) -> str:
    """Return a record as JSON, or as CSV if its fields do not match the header."""
    fields = [*map(_printable, fields)]
    if len(names) == len(fields):
        return json.dumps(dict(zip(names, fields, strict=True)), ensure_ascii=False)
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(fields)
    return text.getvalue()


def _decoded(line: bytes | None) -> str:
    return (line or b"").decode("utf-8", "surrogateescape")


def _printable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
