"""Rows by time, packed into ticks."""

import json
import random

import pytest

from purgatory.spark.stream import tick_table
from purgatory.spark.stream.bucket_table import pack
from purgatory.spark.stream.tick_table import TICK_MS, TickTable
from tests.testing.memory_store import MemoryStore


@pytest.mark.parametrize("seed", range(5))
def test_rows_come_when_they_are_due(monkeypatch, seed):
    """Each row comes once, at the first look at its time or later; nothing is left in the end."""
    monkeypatch.setattr(tick_table, "MAX_CHUNKS", 3)
    rng = random.Random(seed)
    chunks, page_store, pages = MemoryStore(), MemoryStore(), set()
    waiting, now, part_ms = [], -9 * TICK_MS, TICK_MS // 4
    for number in range(80):
        table = TickTable(chunks, page_store, pages)
        now += rng.choice([0, part_ms] if number < 60 else [1, TICK_MS, 300 * TICK_MS])
        due = table.due(now)
        assert sorted(due) == sorted(row for row in waiting if row[0] <= now)
        waiting = [row for row in waiting if row[0] > now]
        for place in range(rng.randrange(4)):
            parts = rng.choice([20, 4000])  # ticks that many rows share, and others
            waiting.append([now + part_ms * rng.randint(1, parts), f"{number}-{place}"])
            table.add(waiting[-1])
        table.flush()
        listed = [entry for page in page_store.values() for entry in json.loads(page)]
        places = [tick * 3 + chunk for tick, count in listed for chunk in range(count)]
        assert sorted(chunks) == sorted(places)
    table = TickTable(chunks, page_store, pages)
    assert sorted(table.due(2**50)) == sorted(waiting)
    table.flush()
    assert (chunks, page_store, pages) == ({}, {}, set())


def test_rows_have_the_places_of_earlier_versions():
    """So that a stream goes on from its checkpoint: 16384 ms a tick, 256 ticks a page."""
    chunks, page_store, pages = MemoryStore(), MemoryStore(), set()
    rows = [[16_384 * 256 - 1], [16_384 * 256], [16_384 * 257]]
    for row in rows:
        table = TickTable(chunks, page_store, pages)
        table.add(row)
        table.flush()
    assert chunks == {
        tick * 64: pack([row]) for tick, row in zip((255, 256, 257), rows, strict=True)
    }
    assert page_store == {0: pack([[255, 1]]), 1: pack([[256, 1], [257, 1]])}


def test_a_row_of_the_last_instant_is_due():
    """Once; the rows after it in the tick stay."""
    chunks, page_store, pages = MemoryStore(), MemoryStore(), set()
    table = TickTable(chunks, page_store, pages)
    for at_ms in (6, 7, 8):
        table.add([at_ms])
    table.flush()
    table = TickTable(chunks, page_store, pages)
    assert [table.due(last_ms) for last_ms in (7, 7, 8)] == [[[6], [7]], [], [[8]]]
