"""The store's rows of what is remembered."""

import pytest

from purgatory.errors import StoreError
from purgatory.service.store.changes import Changes, RememberedChanges
from purgatory.service.store.rows import RememberedRow
from purgatory.service.store.sqlite import remembered
from purgatory.service.store.sqlite.sqlite_store import SqliteStore


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


def commit(store, rows=(), deleted=(), shards=(), count=None):
    """Write rows, given as (place, until_ms), and the rest."""
    changes = Changes()
    assert not changes
    changes.remembered = RememberedChanges()
    changes.remembered.rows = [
        RememberedRow(place, until_ms, place + 1, 5, b"\x01") for place, until_ms in rows
    ]
    changes.remembered.deleted = [(place + 1, place) for place in deleted]
    changes.remembered.shards = list(shards)
    changes.remembered.count = len(rows) if count is None else count
    changes.remembered.last_place = max([place for place, _ in rows], default=0)
    assert changes
    assert changes.has_others
    assert not changes.is_one_row
    store.commit(changes)


def test_rows_are_read_by_place(path):
    """Those that exist, the latest first, also after a start."""
    store = SqliteStore(path)
    commit(store, [(1, 100), (2, 200), (7, 300)])
    store.close()
    store = SqliteStore(path)
    assert store.remembered.counts() == (3, 7)
    assert store.remembered.read([2, 7, 9]) == [
        RememberedRow(7, 300, 8, 5, b"\x01"),
        RememberedRow(2, 200, 3, 5, b"\x01"),
    ]
    assert list(store.remembered.entries(1)) == [(3, 2), (8, 7)]
    store.close()


def test_rows_whose_time_is_over(path):
    """In portions, and not before; deleted ones are gone."""
    store = SqliteStore(path)
    commit(store, [(1, 300), (2, 100), (3, 200)])
    table = store.remembered
    assert table.due(99, 9) == []
    assert table.due(200, 9) == [(3, 2), (4, 3)]
    assert len(table.due(300, 2)) == 2
    commit(store, deleted=[2, 3], count=1)
    assert table.due(300, 9) == [(2, 1)]
    assert table.counts()[0] == 1
    store.close()


def test_times_are_moved(path):
    """Those of rows from before and after, also after a start, without a write to a row."""
    store = SqliteStore(path)
    commit(store, [(1, 100)])
    store.shift_times(50, {})
    commit(store, [(2, 100)], count=2)
    for _ in range(2):
        rows = store.remembered.read([1, 2])
        assert [(row.place, row.until_ms) for row in rows] == [(2, 100), (1, 150)]
        assert store.remembered.due(149, 9) == [(3, 2)]
        assert len(store.remembered.due(150, 9)) == 2
        store.close()
        store = SqliteStore(path)
    store.close()


def test_shards(path):
    """A later one of the same number replaces it."""
    store = SqliteStore(path)
    commit(store, shards=[(0, 5, b"12345678"), (1, 5, b"")])
    commit(store, shards=[(0, 9, b"87654321")])
    assert list(store.remembered.shards()) == [(0, 9, b"87654321"), (1, 5, b"")]
    store.close()


def test_a_start_looks_for_damage(path, monkeypatch):
    """Of all tables if the rows here are few, else of all others."""
    store = SqliteStore(path)
    commit(store, [(place, 100) for place in range(1, 4)])
    checks = remembered.quick_checks(store._connection)
    assert checks == ["PRAGMA quick_check(1)"]
    monkeypatch.setattr(remembered, "MAX_CHECKED", 2)
    checks = remembered.quick_checks(store._connection)
    assert "PRAGMA quick_check('outcomes')" in checks
    assert "PRAGMA quick_check('sqlite_schema')" in checks
    assert not [check for check in checks if "remembered" in check]
    assert {store._connection.execute(check).fetchone()[0] for check in checks} == {"ok"}
    store.close()


def test_a_read_that_fails(path):
    """Raises StoreError."""
    store = SqliteStore(path)
    store.close()
    for read in (
        lambda: store.remembered.read([1]),
        lambda: store.remembered.due(1, 1),
        store.remembered.counts,
        lambda: list(store.remembered.shards()),
        lambda: list(store.remembered.entries(0)),
    ):
        with pytest.raises(StoreError):
            read()
