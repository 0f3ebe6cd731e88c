"""The operator with state: rows of a shard in, its outcomes out.

Spark calls `ShardProcessor` in Python workers, once a shard and micro-batch, in a single thread.
All state is in Spark's state store, so a repeated task has the same result.

Each query also starts a Python that only opens the state; pandas, half of that start, is imported
by `_frame` alone.
"""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from purgatory.spark.stream import shard_state
from purgatory.spark.stream.bucket_table import PackedMap
from purgatory.spark.stream.packing import CLOSE, OTHER_COLUMNS, REACHED, REJECTED, unpack
from purgatory.spark.stream.shard import TABLES, Shard, compute_closed_ms
from purgatory.spark.stream.shard_state import ShardState
from purgatory.spark.stream.tick_table import Row
from purgatory.spark.tables import schema

if TYPE_CHECKING:
    import pandas as pd

# `output` is the kind of a row; `row` is a JSON object, except for outcomes.
OUTPUT: Final = StructType(
    [StructField("output", StringType()), *schema.OUTCOMES, StructField("row", StringType())]
)
OUTCOMES: Final = "outcomes"
FACTS: Final = "facts"  # where a shard stands, and how many rows of each output it has

_NUMBER: Final = StructType([StructField("number", LongType())])
_PACKED: Final = StructType([StructField("packed", BinaryType())])


class ShardProcessor(StatefulProcessor):
    """Advances the shards of a stream, one call a shard and micro-batch.

    `first_shard` reports rows that every shard gets.
    """

    def __init__(self, tables: Sequence[str], watermark_ms: int, first_shard: int) -> None:
        self._tables = tuple(tables)
        self._watermark_ms = watermark_ms
        self._first_shard = first_shard

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._maps = {name: handle.getMapState(name, _NUMBER, _PACKED) for name in shard_state.MAPS}

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803 - Spark's
    ) -> Iterator[pd.DataFrame]:
        """Advance one shard by the packed rows of a micro-batch."""
        with _without_garbage_collection():
            stores = {name: PackedMap(state) for name, state in self._maps.items()}
            state = ShardState(stores, extensible="extensions" in self._tables)
            batch = _ShardBatch(state, is_first=key[0] == self._first_shard)
            for frame in rows:
                for row in frame.itertuples(index=False):
                    batch.take(row.table, row.newest_ms, row.rows)
            yield from batch.advance(self._tables, self._watermark_ms)
            state.flush()

    def close(self) -> None:
        """Do nothing: the maps are Spark's."""


class _ShardBatch:
    def __init__(self, state: ShardState, *, is_first: bool) -> None:
        self._state = state
        self._shard = Shard(state)
        self._is_first = is_first
        self._rejected: list[Row] = []
        self._before_ms = self._close_ms = state.closed_ms

    def take(self, table: str, newest_ms: Any, packed: bytes | None) -> None:
        if table == REJECTED:
            self._rejected += unpack(table, packed) if packed else []
        elif table == CLOSE:
            self._close_ms = max(self._close_ms, int(newest_ms))
        else:
            if packed:
                self._shard.take(unpack(table, packed))
            if newest_ms > self._before_ms:  # late rows never advance it
                newest, table = self._state.newest_ms, table.removeprefix(REACHED)
                newest[table] = max(newest.get(table, int(newest_ms)), int(newest_ms))

    def advance(self, tables: Sequence[str], watermark_ms: int) -> Iterator[pd.DataFrame]:
        state = self._state
        taken = Counter(TABLES[row[1]] for row in self._shard.taken)
        reached_ms = compute_closed_ms(state.newest_ms, tables, watermark_ms, state.closed_ms)
        self._shard.advance(max(reached_ms, self._close_ms))
        outcomes = self._shard.outcomes
        if outcomes:
            frame = _frame(outcomes, schema.OUTCOMES.names)
            yield frame.assign(output=OUTCOMES, row=None)[OUTPUT.names]
        rejected = [dict(zip(schema.REJECTED.names, row, strict=True)) for row in self._rejected]
        rows = [*self._late_rows(), *((REJECTED, row) for row in rejected)]
        written = Counter(output for output, _ in rows)
        self._count(taken, Counter(row[2] for row in outcomes), written.copy())
        written[OUTCOMES] = len(outcomes)
        yield _json_frame([*rows, (FACTS, state.facts() | {"written": written})])

    def _count(self, taken: Counter[str], ended: Counter[str], written: Counter[str]) -> None:
        if not self._is_first:
            del taken["events"]
        for row in self._rejected:
            written[f"rejected_{row[0]}"] += 1
        del written["rejected"]
        for name, rows in (taken + ended + written).items():
            self._state.count(name, rows)

    def _late_rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for row in self._shard.late:
            table = TABLES[row[1]]
            if self._is_first or table != "events":
                values = dict(zip(OTHER_COLUMNS[table], row[4:], strict=True))
                time = "submitted_ms" if table == "operations" else "at_ms"
                yield f"late_{table}", {time: row[0], **values, "closed_ms": self._before_ms}


@contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Stop looking for cycles: a shard makes none, and has many objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _json_frame(rows: list[tuple[str, dict[str, Any]]]) -> pd.DataFrame:
    texts = [(output, json.dumps(row, ensure_ascii=False)) for output, row in rows]
    frame = _frame(texts, ["output", "row"])
    numbers = {f.name: 0 if isinstance(f.dataType, LongType) else None for f in OUTPUT}
    for name in schema.OUTCOMES.names:
        frame[name] = numbers[name]
    return frame[OUTPUT.names]


def _frame(rows: list[Any], columns: list[str]) -> pd.DataFrame:
    import pandas as pd  # noqa: PLC0415 - see the module's docstring

    return pd.DataFrame(rows, columns=columns)
