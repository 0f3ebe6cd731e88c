"""Packs rows of a micro-batch for the shards, and unpacks them there.

The operator with state takes rows one by one, so the rows of a shard go there packed, some thousand
at once. Operations and extensions go to the shard of their `op_id`; events, and the newest time of
each table, go to every shard.

`Packer` runs in tasks without state, `unpack` in those of the shards.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructType

from purgatory.spark.stream.shard import TABLES
from purgatory.spark.stream.tick_table import Row
from purgatory.spark.tables.schema import REJECTED as REJECTED_SCHEMA
from purgatory.trace import tables

# A shard's packed rows: of a table, or `REJECTED`, and the newest time of the table.
PACKED: Final = (
    StructType()
    .add("shard", LongType())
    .add("table", StringType())
    .add("newest_ms", LongType())
    .add("rows", BinaryType())
)
REJECTED: Final = "rejected"
CLOSE: Final = "close"  # a row that closes the instants up to `newest_ms`
REACHED: Final = "reached_"  # with a table's name: a row with the newest time alone

SHARD: Final = "shard"  # the column of rows to pack

# The columns besides the time.
OTHER_COLUMNS: Final = {
    table.name: [name for name in table.names if name != table.time_column]
    for table in (tables.OPERATIONS, tables.EXTENSIONS, tables.EVENTS)
}
_COLUMNS: Final = {
    REJECTED: REJECTED_SCHEMA.names,
    **{table: ["time_ms", "file", "place", *others] for table, others in OTHER_COLUMNS.items()},
}
_SCHEMA: Final = to_arrow_schema(PACKED)


_Packed: TypeAlias = tuple[int, str, int, bytes | None]
"""A row of `PACKED`."""


class Packer:
    """Packs the rows of a partition; for `mapInArrow`.

    Rows of `numbered` tables get their number in the partition added to `place`: Spark knows only
    where their block of a file begins.
    """

    def __init__(self, shards: Sequence[int], numbered: Sequence[str]) -> None:
        self._shards = tuple(shards)
        self._numbered = frozenset(numbered)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = 0
        for batch in batches:
            packed = list(self._packed(pa.table(batch), number))
            number += batch.num_rows
            if packed:
                columns = [
                    pa.array(c, f.type)
                    for c, f in zip(zip(*packed, strict=True), _SCHEMA, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)

    def _packed(self, rows: pa.Table, number: int) -> Iterator[_Packed]:
        is_good = pc.is_null(rows["reason"])
        bad = rows.filter(pc.invert(is_good))
        if bad.num_rows:
            yield (self._shards[0], REJECTED, 0, _dump(bad, REJECTED))
            yield from ((shard, REJECTED, 0, None) for shard in self._shards[1:])
        for table in pc.unique(rows["table"]).to_pylist():
            chosen = pc.and_(is_good, pc.equal(rows["table"], table))
            place = rows["place"]
            if table in self._numbered:
                place = pc.add(place, pa.array(range(number, number + rows.num_rows), pa.int64()))
            numbered = rows.set_column(rows.schema.get_field_index("place"), "place", place)
            good = numbered.filter(chosen)
            if good.num_rows:
                newest_ms = pc.max(good["time_ms"]).as_py()
                yield from self._for_shards(good, table, newest_ms)

    def _for_shards(self, rows: pa.Table, table: str, newest_ms: int) -> Iterator[_Packed]:
        if table not in TABLES:
            yield from ((shard, table, newest_ms, None) for shard in self._shards)
            return
        whole = _dump(rows, table) if table == "events" else None
        for shard in self._shards:
            dumped = whole or _dump(rows.filter(pc.equal(rows[SHARD], shard)), table)
            yield (shard, table, newest_ms, dumped)


def _dump(rows: pa.Table, table: str) -> bytes | None:
    if not rows.num_rows:
        return None
    sink = pa.BufferOutputStream()
    chosen = rows.select(_COLUMNS[table])
    with pa.ipc.new_stream(sink, chosen.schema) as writer:
        writer.write_table(chosen)
    return bytes(sink.getvalue())


def unpack(table: str, packed: bytes) -> list[Row]:
    """Return the rows of a table as `shard` takes them; of `REJECTED` as lists of columns."""
    rows = pa.ipc.open_stream(packed).read_all()
    columns: list[Any] = [rows[name].to_pylist() for name in _COLUMNS[table]]
    if table in TABLES:
        columns.insert(1, [TABLES.index(table)] * rows.num_rows)
    return [list(row) for row in zip(*columns, strict=True)]
