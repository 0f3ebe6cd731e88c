"""The extended log costs no commit, and SQLite reads it as if it were not extended."""

import os
import shutil
import sqlite3

import pytest

from purgatory.service.store.operation_batches import OperationBatch
from purgatory.service.store.store import Store
from purgatory.service.store.wal_preallocation import WalPreallocator
from tests.testing.changes import changes_of


def commit(store, first, count):
    """Commit operations, each in a commit of its own."""
    for number in range(first, first + count):
        changes = changes_of()
        changes.operations.append(OperationBatch(number, "me", 1, [[f"op{number}", ["k"], 1000]]))
        store.commit(changes)


def numbers(store):
    """Return the numbers of the operations in the store."""
    return [row.number for row in store.operations()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


def log_of(path):
    """Return the path of a database's log."""
    return path.with_name(path.name + "-wal")


def test_commits_rarely_change_the_length(path):
    """Few commits change the length of the log."""
    store = Store(path)
    lengths = set()
    for number in range(1, 401):
        commit(store, number, 1)
        lengths.add(log_of(path).stat().st_size)
    assert len(lengths) < 10
    store.close()
    assert not log_of(path).exists()


def test_a_crash_at_any_length(tmp_path, path):
    """What was committed is there, and no more, wherever the zeros begin."""
    store = Store(path)
    for number in range(1, 61):
        commit(store, number, 1)
        directory = tmp_path / f"crash-{number}"
        directory.mkdir()
        for file in (path, log_of(path)):
            shutil.copy(file, directory)
        found = Store(directory / path.name)
        assert numbers(found) == list(range(1, number + 1))
        commit(found, number + 1, 1)
        found.close()
        again = Store(directory / path.name)
        assert numbers(again) == list(range(1, number + 2))
        again.close()
    store.close()


def test_after_a_checkpoint_it_is_written_over(path):
    """After a checkpoint the log is overwritten, and does not grow."""
    store = Store(path)
    commit(store, 1, 30)
    before = log_of(path).stat().st_size
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(RESTART)")
    other.close()
    commit(store, 31, 10)
    assert log_of(path).stat().st_size == before
    assert numbers(store) == list(range(1, 41))
    store.close()


def test_a_full_disk(path, monkeypatch):
    """A full disk ends the extending, and fails no commit."""

    def full(*_):
        raise OSError(28, "No space left on device")

    store = Store(path)
    monkeypatch.setattr(os, "pwrite", full)
    commit(store, 1, 3)
    assert numbers(store) == [1, 2, 3]
    store.close()


def test_enough_bytes(tmp_path):
    """From some length on the log is not extended."""
    file = tmp_path / "log"
    file.write_bytes(b"x" * 100_000)
    preallocator = WalPreallocator(file, 150_000)
    preallocator.extend_if_full()
    assert file.stat().st_size == 200_000
    with file.open("ab") as log:
        log.write(b"x")
    for _ in range(3):
        preallocator.extend_if_full()
    assert file.stat().st_size == 200_001
    preallocator.close()


def test_no_log(tmp_path):
    """A missing log is no error: a database in memory has none."""
    WalPreallocator(tmp_path / "none", 10).extend_if_full()
    assert list(tmp_path.iterdir()) == []
