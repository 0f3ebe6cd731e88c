"""Files of a data directory: only their owner may read them; an extended log costs no commit.

SQLite reads such a log as if it were not extended.
"""

import os
import shutil
import sqlite3
import stat

import pytest

from purgatory import StoreError
from purgatory.service import Client, Config
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.daemon import ServiceDaemon
from purgatory.service.store.rows import OperationBatch
from purgatory.service.store.sqlite import database_files
from purgatory.service.store.sqlite.database_files import WalPreallocator, copy_database
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.changes import changes_of
from tests.testing.purgatory_harness import HANG


@pytest.fixture
def _open_umask():
    """Files that are made without a mode are readable by all."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def readable_by_others(directory):
    """Return the paths in a directory, itself included, that others may use in any way."""
    return [
        f"{path} {stat.filemode(path.stat().st_mode)}"
        for path in (directory, *directory.rglob("*"))
        if path.stat().st_mode & 0o077
    ]


def use(directory):
    """Run a server over a directory; returns what others may read while it runs, and after."""
    config = Config(data_dir=directory, bind="tcp://127.0.0.1:0", http_bind="", journal_seconds=0.1)
    with ServiceDaemon(config) as service, Client(service.server.address) as client:
        client.defer("k", timeout=HANG)
        client.flush()
        client.complete("k")
        found = readable_by_others(directory)
    return found, readable_by_others(directory)


@pytest.mark.usefixtures("_open_umask")
class TestServer:
    def test_an_open_directory(self, tmp_path):
        """One that was made for the server, as 0755, is shut; no file in it is readable."""
        directory = tmp_path / "data"
        directory.mkdir(mode=0o755)
        assert use(directory) == ([], [])
        names = {path.name for path in directory.rglob("*")}
        assert {"purgatory.db", "lock", "journal"} <= names
        assert any(name.endswith(".parquet") for name in names)

    def test_files_of_an_earlier_version(self, tmp_path):
        """Those that earlier versions made readable are shut at the next start."""
        use(tmp_path)
        KeyStore(tmp_path / "keys").new("shop")
        for path in (tmp_path, tmp_path / "purgatory.db", tmp_path / "lock"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        assert use(tmp_path) == ([], [])

    def test_a_directory_of_something_else(self, tmp_path):
        """It is refused, by path and mode, and left as it is."""
        directory = tmp_path / "home"
        directory.mkdir(mode=0o755)
        (directory / "letters").touch()
        with pytest.raises(StoreError, match=rf"{directory}: its mode is 0755, .* expected 0700"):
            use(directory)
        assert [path.name for path in directory.iterdir()] == ["letters"]
        assert use(directory / "data") == ([], [])


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
    store = SqliteStore(path)
    lengths = set()
    for number in range(1, 401):
        commit(store, number, 1)
        lengths.add(log_of(path).stat().st_size)
    assert len(lengths) < 10
    store.close()
    assert not log_of(path).exists()


def test_a_crash_at_any_length(tmp_path, path):
    """What was committed is there, and no more, wherever the zeros begin."""
    store = SqliteStore(path)
    for number in range(1, 61):
        commit(store, number, 1)
        directory = tmp_path / f"crash-{number}"
        directory.mkdir()
        for file in (path, log_of(path)):
            shutil.copy(file, directory)
        found = SqliteStore(directory / path.name)
        assert numbers(found) == list(range(1, number + 1))
        commit(found, number + 1, 1)
        found.close()
        again = SqliteStore(directory / path.name)
        assert numbers(again) == list(range(1, number + 2))
        again.close()
    store.close()


def test_after_a_checkpoint_it_is_written_over(path):
    """After a checkpoint the log is overwritten, and does not grow."""
    store = SqliteStore(path)
    commit(store, 1, 30)
    before = log_of(path).stat().st_size
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(RESTART)")
    other.close()
    commit(store, 31, 10)
    assert log_of(path).stat().st_size == before
    assert numbers(store) == list(range(1, 41))
    store.close()


def test_a_copy_in_steps(path, tmp_path, monkeypatch):
    """It says how many bytes are copied; the copy is whole."""
    monkeypatch.setattr(database_files, "_STEP_BYTES", 1 << 14)
    connection, told = sqlite3.connect(path, isolation_level=None), []
    connection.execute("CREATE TABLE texts (text)")
    connection.executemany("INSERT INTO texts VALUES (?)", [("x" * 1000,)] * 200)
    copy_database(connection, tmp_path / "copy", lambda *sizes: told.append(sizes))
    assert len(told) > 5
    done = [done for done, _ in told]
    assert done == sorted(done)
    assert {of for _, of in told} == {done[-1]}
    copied = sqlite3.connect(tmp_path / "copy")
    assert copied.execute("SELECT count(*) FROM texts").fetchall() == [(200,)]
    copied.close()
    connection.close()


def test_a_full_disk(path, monkeypatch):
    """A full disk ends the extending, and fails no commit."""

    def full(*_):
        raise OSError(28, "No space left on device")

    store = SqliteStore(path)
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
