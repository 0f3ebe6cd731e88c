"""Traces as Parquet, through pyarrow, an optional extra imported on first use.

Rows are read a batch and written a row group at a time. For one thread.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from pathlib import Path
from typing import IO, Any, Final

from purgatory.trace.errors import TraceError
from purgatory.trace.row_files import RowReader, RowWriter
from purgatory.trace.tables import Column, Columns, Table
from purgatory.trace.validation import ColumnType

_BATCH_ROWS: Final = 8_192
_GROUP_ROWS: Final = 32_768
_MAGIC: Final = b"PAR1"


class ParquetRowReader(RowReader):
    """Reads the rows of one Parquet file; `number` counts the last row, from 1."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pa = load_pyarrow(path)
        self.errors = (OSError, self._pa.ArrowException)
        _check_magic(path)
        try:
            self._file = self._pa.parquet.ParquetFile(path)
        except self._pa.ArrowException as error:
            raise TraceError(f"{path}: a damaged Parquet file") from error
        self._table: Table[Any] | None = None
        self._columns: tuple[Column, ...] = ()
        self._names: list[str | None] = []

    def columns(self) -> Sequence[str]:
        return [str(name) for name in self._file.schema_arrow.names]

    def bind(self, table: Table[Any]) -> None:
        """Choose the table; `TraceError` for a missing column, a wrong name or type."""
        found = self.columns()
        check_case(str(self._path), found, table.names)
        table.check_columns(str(self._path), found)
        present = [column for column in table.columns if column.name in found]
        for column in present:
            check_type(self._pa, self._path, self._file.schema_arrow, column)
        self._table = table
        self._columns = table.columns
        self._names = [column.name if column in present else None for column in table.columns]

    def records(self) -> Iterator[Any]:
        for portion in self.portions():
            yield from self.records_of(portion)

    def portions(self) -> Iterator[Any]:
        wanted = [name for name in self._names if name is not None]
        yield from self._file.iter_batches(_BATCH_ROWS, columns=wanted)

    def good_columns_of(self, portion: Any) -> Columns | None:
        """Return the columns, and count the rows, if surely good."""
        arrays = self._arrays_of(portion)
        assert self._table is not None
        if not len(portion) or not self._table.surely_allows(self._pa, arrays):
            return None
        try:
            columns = tuple(
                _listed(self._pa, arrays[column.name], _strict_scalars)
                if column.name in arrays
                else [column.default] * len(portion)
                for column in self._columns
            )
        except UnicodeDecodeError:
            return None
        self.number += len(portion)
        return columns

    def columns_of(self, portion: Any) -> Columns:
        """Return the columns, and count the rows."""
        self.number += len(portion)
        return self._columns_of(portion)

    def _columns_of(self, portion: Any) -> Columns:
        arrays = self._arrays_of(portion)
        scalars = partial(_scalars, self._pa)
        return tuple(
            _listed(self._pa, arrays[column.name], scalars)
            if column.name in arrays
            else [None] * len(portion)
            for column in self._columns
        )

    def records_of(self, portion: Any) -> Iterator[Any]:
        rows = zip(*self._columns_of(portion), strict=True)
        for self.number, row in enumerate(rows, self.number + 1):  # noqa: B020 - counts on
            yield row

    def values(self, record: tuple[object, ...]) -> tuple[object, ...]:
        return record

    def close(self) -> None:
        self._file.close()

    def _arrays_of(self, portion: Any) -> dict[str, Any]:
        """Return the present columns, times as Unix milliseconds."""
        arrays = {}
        for column in self._columns:
            if column.name in self._names:
                array = portion.column(column.name)
                if column.is_time and self._pa.types.is_timestamp(array.type):
                    array = unix_ms(self._pa, array)
                arrays[column.name] = _plain(self._pa, array, column.type)
        return arrays


class ParquetRowWriter(RowWriter):
    """Writes rows, a row group at a time; leaves the file open."""

    def __init__(
        self, file: IO[bytes], path: Path, table: Table[Any], group_rows: int = _GROUP_ROWS
    ) -> None:
        self._group_rows = group_rows
        self._pa = load_pyarrow(path)
        self._schema = _schema(self._pa, table)
        # Dictionaries of ids and keys would cost more than all else.
        few = [column.name for column in table.columns if column.has_few]
        self._writer = self._pa.parquet.ParquetWriter(file, self._schema, use_dictionary=few)
        self._rows: list[tuple[Any, ...]] = []
        self._batches: list[Any] = []  # before those rows
        self._batched = 0  # rows in them

    def write(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        if len(self._rows) >= self._group_rows:
            self._write_group()

    def write_columns(self, columns: Columns) -> bool:
        self._batch_rows()
        self._add_batch(columns)
        if self._batched >= self._group_rows:
            self._write_group()
        return True

    def write_portion(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write rows, and hold no Python objects of them."""
        self._rows.extend(rows)
        self._batch_rows()
        if self._batched >= self._group_rows:
            self._write_group()

    def close(self) -> None:
        """Write what is buffered and the footer."""
        try:
            self._write_group()
        finally:
            self._writer.close()

    def _write_group(self) -> None:
        self._batch_rows()
        batches, self._batches, self._batched = self._batches, [], 0
        if batches:
            self._writer.write_table(self._pa.Table.from_batches(batches).combine_chunks())

    def _batch_rows(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            # Column by column: `zip(*rows)` makes an iterator for each row, and is slower.
            places = range(len(self._schema))
            self._add_batch(tuple(list(map(itemgetter(place), rows)) for place in places))

    def _add_batch(self, columns: Columns) -> None:
        arrays = [
            _array(self._pa, column, field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        self._batches.append(self._pa.RecordBatch.from_arrays(arrays, schema=self._schema))
        self._batched += len(columns[0])


def load_pyarrow(path: Path) -> Any:
    """Import pyarrow; `path` is for the error."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - optional, and slow to import
        import pyarrow.compute  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        raise TraceError(
            f"{path}: Parquet needs pyarrow: pip install 'timer-purgatory[trace]'"
        ) from error
    return pa


def check_case(path: str, found: Collection[str], names: Iterable[str]) -> None:
    """Raise TraceError for a name that differs from one of `names` only by case.

    Spark would read the column, Arrow would not.
    """
    for name in names:
        for other in found:
            if other != name and other.lower() == name.lower():
                raise TraceError(
                    f"{path}: the name of column {other} differs from {name} only by case"
                )


def check_type(pa: Any, path: Path, schema: Any, column: Column) -> None:
    """Raise TraceError if a column's type does not hold its values."""
    found = schema.field(column.name).type
    if column.is_time and pa.types.is_timestamp(found):
        return
    if not _holds(pa.types, found, column.type):
        raise TraceError(
            f"{path}: column {column.name} holds {found}, expected {column.type.value}"
        )


def _check_magic(path: Path) -> None:
    # pyarrow's message says less.
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise TraceError(f"{path}: not a Parquet file")


def _holds(types: Any, found: Any, wanted: ColumnType) -> bool:
    if types.is_null(found):  # validation checks each row
        return True
    if wanted is ColumnType.TEXTS:
        is_list = any(is_kind(found) for is_kind in _list_kinds(types))
        return is_list and _holds(types, found.value_type, ColumnType.TEXT)
    if wanted is ColumnType.TEXT:
        if types.is_dictionary(found):
            return _holds(types, found.value_type, wanted)
        found = getattr(found, "storage_type", found)  # of JSON, which Spark takes for texts, too
        return any(is_kind(found) for is_kind in _text_kinds(types))
    if wanted is ColumnType.BOOL:
        return bool(types.is_boolean(found))
    return bool(types.is_integer(found))


def _text_kinds(types: Any) -> tuple[Callable[[Any], bool], ...]:
    return types.is_string, types.is_large_string, types.is_string_view


def _list_kinds(types: Any) -> tuple[Callable[[Any], bool], ...]:
    views = types.is_list_view, types.is_large_list_view
    return types.is_list, types.is_large_list, *views, types.is_fixed_size_list


def _plain(pa: Any, array: Any, wanted: ColumnType) -> Any:
    """Return texts with offsets: other programs write views, too."""
    found = array.type
    if wanted is ColumnType.TEXT and not _is_plain_text(pa, found):
        return array.cast(pa.large_string())
    if wanted is ColumnType.TEXTS and not (
        any(is_kind(found) for is_kind in _list_kinds(pa.types)[:2])
        and _is_plain_text(pa, found.value_type)
    ):
        return array.cast(pa.large_list(pa.large_string()))
    return array


def _is_plain_text(pa: Any, found: Any) -> bool:
    return any(is_kind(found) for is_kind in _text_kinds(pa.types)[:2])


def _listed(pa: Any, array: Any, scalars: Callable[[Any], list[Any]]) -> list[Any]:
    """Return Python values; for lists `to_pylist` is several times slower."""
    if not pa.types.is_list(array.type) and not pa.types.is_large_list(array.type):
        return scalars(array)
    ends = array.offsets.to_pylist()
    texts = tuple(scalars(array.values))
    first, last = ends[0], ends[-1]
    if not array.null_count and ends == list(range(first, first + len(ends))):  # one text each
        return list(zip(texts[first:last], strict=True))
    lists = [texts[start:end] for start, end in pairwise(ends)]
    if array.null_count:
        valid = array.is_valid().to_pylist()
        return [texts if here else None for here, texts in zip(valid, lists, strict=True)]
    return lists


def unix_ms(pa: Any, array: Any) -> Any:
    """Return timestamps as Unix milliseconds, rounded down; UTC without a zone."""
    unit = array.type.unit
    counts = array.cast(pa.int64())
    if unit == "s":
        return pa.compute.multiply(counts, 1000)
    for _ in range({"ms": 0, "us": 1, "ns": 2}[unit]):
        counts = _floor_thousandth(pa, counts)
    return counts


def _floor_thousandth(pa: Any, counts: Any) -> Any:
    whole = pa.compute.divide(counts, 1000)  # towards zero
    is_less = pa.compute.less(counts, pa.compute.multiply(whole, 1000))
    return pa.compute.subtract(whole, is_less.cast(pa.int64()))


def _strict_scalars(array: Any) -> list[Any]:
    return list(array.to_pylist())  # may raise UnicodeDecodeError


def _scalars(pa: Any, array: Any) -> list[Any]:
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        # As in a text file: validation refuses the surrogates, so a bad text makes a bad row.
        cells = array.cast(pa.large_binary()).to_pylist()
        return [c if c is None else c.decode("utf-8", "surrogateescape") for c in cells]


def _array(pa: Any, column: Sequence[Any], kind: Any) -> Any:
    """Return an array; for lists `pa.array` is several times slower."""
    if not pa.types.is_list(kind) or None in column:
        return pa.array(column, kind)
    ends = pa.array([0, *accumulate(map(len, column))], pa.int32())
    return pa.ListArray.from_arrays(
        ends, pa.array(list(chain.from_iterable(column)), kind.value_type)
    )


def _schema(pa: Any, table: Table[Any]) -> Any:
    types = {
        ColumnType.TEXT: pa.string(),
        ColumnType.TEXTS: pa.list_(pa.string()),
        ColumnType.INT32: pa.int32(),
        ColumnType.INT64: pa.int64(),
        ColumnType.BOOL: pa.bool_(),
    }
    return pa.schema([(column.name, types[column.type]) for column in table.columns])
