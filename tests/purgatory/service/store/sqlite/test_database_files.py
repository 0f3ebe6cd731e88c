"""Files of a data directory: only their owner may read them; an extended log costs no commit.

SQLite reads such a log as if it were not extended.
"""

import contextlib
import os
import shutil
import sqlite3
import stat
import time
import urllib.request

import pytest
import zmq

from purgatory import StoreError
from purgatory.service import Client, Config
from purgatory.service.auth.key_store import KeyStore
from purgatory.service.daemon import ServiceDaemon
from purgatory.service.protocol import Submit, Submitted
from purgatory.service.store.rows import OperationBatch
from purgatory.service.store.sqlite import database_files
from purgatory.service.store.sqlite.database_files import FileWatch, WalPreallocator, copy_database
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.changes import changes_of
from tests.testing.purgatory_harness import HANG
from tests.testing.server_processes import ServerProcess
from tests.testing.servers import RawPeer
from tests.testing.step_server import operation


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


@pytest.mark.parametrize("in_steps", [True, False])
def test_a_copy(path, tmp_path, monkeypatch, in_steps):
    """It is whole; one in steps says how many bytes are copied."""
    monkeypatch.setattr(database_files, "_STEP_BYTES", 1 << 14)
    connection, told = sqlite3.connect(path, isolation_level=None), []
    connection.execute("CREATE TABLE texts (text)")
    connection.executemany("INSERT INTO texts VALUES (?)", [("x" * 1000,)] * 200)
    progress = (lambda *sizes: told.append(sizes)) if in_steps else None
    copy_database(connection, tmp_path / "copy", progress)
    if in_steps:
        assert len(told) > 5
        done = [done for done, _ in told]
        assert done == sorted(done)
        assert {of for _, of in told} == {done[-1]}
    copied = sqlite3.connect(tmp_path / "copy")
    assert copied.execute("SELECT count(*) FROM texts").fetchall() == [(200,)]
    copied.close()
    connection.close()


@pytest.mark.parametrize(
    ("in_the_way", "reason"),
    [
        ("", "Cannot operate on a closed database."),
        ("copy", "Is a directory"),
        (".copy.unfinished", "Is a directory"),
    ],
)
def test_a_copy_that_fails(path, tmp_path, in_the_way, reason):
    """The error names the file, and has the words of SQLite or of the system."""
    connection, target = sqlite3.connect(path), tmp_path / "copy"
    if in_the_way:
        (tmp_path / in_the_way).mkdir()
    else:
        connection.close()
    before = {*tmp_path.iterdir()}
    with pytest.raises(StoreError) as caught:
        copy_database(connection, target)
    connection.close()
    assert str(caught.value) == f"{target}: cannot copy the database there: {reason}"
    assert {*tmp_path.iterdir()} == before


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


@pytest.mark.parametrize(
    ("length", "enough", "extended"),
    [(0, 10**9, 0), (1, 10**9, 65_537), (100_000, 100_000, 100_000), (100_000, 100_001, 200_000)],
)
def test_a_log_is_extended_once_when_it_is_full(tmp_path, length, enough, extended):
    """Not again before commits have filled it; an empty log and a long log are not extended."""
    file = tmp_path / "log"
    file.write_bytes(b"x" * length)
    preallocator = WalPreallocator(file, enough)
    for _ in range(3):
        assert preallocator.extend_if_full()
        assert file.stat().st_size == extended
    preallocator.close()


def test_a_closed_log_is_left_alone(tmp_path):
    """Nothing is written, or a full disk would be asked for room after each commit."""
    file = tmp_path / "log"
    file.write_bytes(b"x" * 1000)
    preallocator = WalPreallocator(file, 10**9)
    preallocator.close()
    assert preallocator.extend_if_full()
    assert file.stat().st_size == 1000


def test_no_log(tmp_path):
    """A missing log is no error: a database in memory has none."""
    WalPreallocator(tmp_path / "none", 10).extend_if_full()
    assert list(tmp_path.iterdir()) == []


NAMES = ("purgatory.db", "purgatory.db-wal", "purgatory.db-shm")


def replace(path):
    """Put a copy in a file's place."""
    shutil.copy(path, path.with_name("copy"))
    path.with_name("copy").replace(path)


def cut_off(path):
    os.truncate(path, path.stat().st_size // 2)


def move(path):
    path.rename(path.with_name("moved"))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("harm", [os.unlink, replace, move, cut_off])
def test_what_may_become_of_a_file(tmp_path, name, harm):
    """It may be deleted, replaced, renamed or cut off; each is told with the file's name."""
    for each in NAMES:
        (tmp_path / each).write_bytes(bytes(1000))
    watch = FileWatch(tmp_path / NAMES[0])
    assert watch.trouble() == ""
    with (tmp_path / name).open("ab") as file:
        file.write(bytes(1000))
    assert watch.trouble() == ""
    harm(tmp_path / name)
    expected = "" if harm is cut_off and name == NAMES[2] else f"{tmp_path / name}: "
    assert watch.trouble().startswith(expected)
    assert bool(watch.trouble()) == bool(expected)


def test_a_log_that_comes_later(tmp_path):
    """A file that is not there yet is watched when it is."""
    (tmp_path / "a.db").touch()
    watch = FileWatch(tmp_path / "a.db")
    assert watch.trouble() == ""
    (tmp_path / "a.db-wal").touch()
    assert watch.trouble() == ""
    (tmp_path / "a.db-wal").unlink()
    assert "a.db-wal: " in watch.trouble()


def ready(url):
    """Return the status of /readyz; 0 if the server has ended."""
    try:
        with urllib.request.urlopen(f"{url}readyz", timeout=HANG) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@pytest.mark.parametrize(
    ("place", "harm"),
    [
        ("purgatory.db", os.unlink),
        ("purgatory.db-wal", os.unlink),
        ("purgatory.db-wal", cut_off),
        ("", move),
        ("", shutil.rmtree),
    ],
)
@pytest.mark.parametrize("is_busy", [False, True])
def test_a_server_ends(tmp_path, place, harm, is_busy):
    """With 2 and a line that names the file; after a second it acknowledges nothing."""
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, 0)
        serve = stack.enter_context(ServerProcess(tmp_path / "data", "--http-bind", "127.0.0.1:0"))
        url = serve.process.stdout.readline().split()[-1]
        peer = RawPeer(context, serve.address)
        peer.hello()
        submit(peer, 0)
        assert ready(url) == 200
        harm(tmp_path / "data" / place)
        harmed, acknowledged, number = time.monotonic(), 0.0, 0
        while is_busy and ready(url) == 200 and time.monotonic() < harmed + HANG:
            number += 1
            if submit(peer, number):
                acknowledged = time.monotonic()
        serve.process.wait(HANG)
        errors = serve.process.stderr.read()
        assert serve.process.returncode == 2, errors
        assert f"{tmp_path / 'data' / place}" in errors
        assert acknowledged < harmed + 1.0


def submit(peer, number):
    """Submit an operation; False if there is no answer, for the server ends."""
    peer.send(Submit(number, [operation(f"op {number}", f"key {number}")]))
    return bool(peer.socket.poll(500)) and isinstance(peer.receive(), Submitted)


def test_a_server_that_is_closed(serve):
    """The end of a server, which deletes its log, is no trouble."""
    for _ in range(3):
        server = serve()
        server.close()
        assert server.failure is None


def test_a_new_database_beside_a_journal(tmp_path):
    """The next start says that the journal is of another database."""
    context = zmq.Context()
    with contextlib.ExitStack() as stack:
        stack.callback(context.destroy, 0)
        serve = ServerProcess(tmp_path / "data", "--journal-seconds", "0.05")
        with serve:
            peer = RawPeer(context, serve.address)
            peer.hello()
            submit(peer, 1)
            assert "another database" not in serve.end()[1]
        for name in NAMES:
            (tmp_path / "data" / name).unlink(missing_ok=True)
        with serve:
            assert f"{tmp_path}/data/journal: the journal is of another database" in serve.end()[1]


def test_a_deleted_lock_file(tmp_path):
    """It lets no second server in, and the first one goes on."""
    with ServerProcess(tmp_path / "data") as first:
        (tmp_path / "data" / "lock").unlink()
        for _ in range(2):
            with pytest.raises(AssertionError, match="another server has its data there"):
                ServerProcess(tmp_path / "data").start()
        assert first.end() == (0, "")
