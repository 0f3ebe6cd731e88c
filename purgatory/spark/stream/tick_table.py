"""A table of rows by time, packed into ticks of a state store: a timing wheel at rest.

A row is a list that begins with its time in ms. Ticks of `TICK_MS` hold the rows, in up to
`MAX_CHUNKS` chunks, so adding rows reads none. Pages of `TICKS_PER_PAGE` ticks list the chunks, and
the caller keeps the set of pages, to skip empty ticks.

For one task within a single micro-batch; `flush` writes changes.
"""

import json
from collections import defaultdict
from typing import Any, Final

from purgatory.spark.stream.bucket_table import PackedMap, pack

TICK_MS: Final = 16_384
TICKS_PER_PAGE: Final = 256
MAX_CHUNKS: Final = 64

Row = list[Any]


class TickTable:
    """Rows by time. `pages`: those with rows."""

    def __init__(self, chunks: PackedMap, page_store: PackedMap, pages: set[int]) -> None:
        self.pages = pages
        self._chunks = chunks
        self._page_store = page_store
        self._added: defaultdict[int, list[Row]] = defaultdict(list)
        self._rest: dict[int, list[Row]] = {}  # of ticks read, to be written anew
        self._loaded_pages: dict[int, dict[int, int]] = {}  # chunks by tick
        self._changed_pages: set[int] = set()

    def add(self, row: Row) -> None:
        """Add a row."""
        self._added[row[0] // TICK_MS].append(row)

    def due(self, last_ms: int) -> list[Row]:
        """Remove and return the rows up to `last_ms`, without those added since `flush`."""
        due: list[Row] = []
        last_tick = last_ms // TICK_MS
        for page in sorted(self.pages):
            if page > last_tick // TICKS_PER_PAGE:
                break
            for tick in sorted(self._page(page)):
                if tick <= last_tick:
                    rows = self._read(tick)
                    due += [row for row in rows if row[0] <= last_ms]
                    self._rest[tick] = [row for row in rows if row[0] > last_ms]
        return due

    def flush(self) -> None:
        """Write changed ticks and pages."""
        for tick in {*self._rest, *self._added}:
            chunks = self._page(tick // TICKS_PER_PAGE).get(tick, 0)
            if tick in self._rest or chunks == MAX_CHUNKS:
                self._write_anew(tick, chunks)
            else:
                self._chunks.put(tick * MAX_CHUNKS + chunks, pack(self._added[tick]))
                self._set_chunks(tick, chunks + 1)
        for page in self._changed_pages:
            self._write_page(page)

    def _write_anew(self, tick: int, chunks: int) -> None:
        rows = self._read(tick) + self._added[tick]
        if rows:
            self._chunks.put(tick * MAX_CHUNKS, pack(rows))
        for chunk in range(1 if rows else 0, chunks):
            self._chunks.remove(tick * MAX_CHUNKS + chunk)
        self._set_chunks(tick, 1 if rows else 0)

    def _read(self, tick: int) -> list[Row]:
        rows = self._rest.get(tick)
        if rows is None:
            rows = []
            for chunk in range(self._page(tick // TICKS_PER_PAGE)[tick]):
                rows += json.loads(self._chunks.get(tick * MAX_CHUNKS + chunk) or b"[]")
        return rows

    def _set_chunks(self, tick: int, chunks: int) -> None:
        page = self._page(tick // TICKS_PER_PAGE)
        if chunks == page.get(tick, 0):
            return
        self._changed_pages.add(tick // TICKS_PER_PAGE)
        if chunks:
            page[tick] = chunks
        else:
            del page[tick]

    def _page(self, number: int) -> dict[int, int]:
        page = self._loaded_pages.get(number)
        if page is None:
            packed = self._page_store.get(number) if number in self.pages else None
            page = self._loaded_pages[number] = dict(json.loads(packed)) if packed else {}
        return page

    def _write_page(self, number: int) -> None:
        chunks = self._loaded_pages[number]
        if chunks:
            self.pages.add(number)
            self._page_store.put(number, pack(sorted(chunks.items())))
        else:
            self.pages.discard(number)
            self._page_store.remove(number)
