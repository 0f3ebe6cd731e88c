"""Backups are made while a server runs; restored, they have all that was answered before."""

import contextlib
import dataclasses
import os
import queue
import sqlite3
import stat
import threading
from pathlib import Path

import pyarrow.dataset
import pytest

from purgatory import StoreError
from purgatory.cli import entry_point as cli
from purgatory.service import Client, Config
from purgatory.service.backup import back_up, restore
from purgatory.service.daemon import ServiceDaemon
from purgatory.service.store.sqlite.database_files import copy_database
from purgatory.service.store.sqlite.schema import SCHEMA_VERSION
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.eventually import eventually
from tests.testing.purgatory_harness import HANG, free_port
from tests.testing.server_processes import ServerProcess

SECONDS = float(os.environ.get("PURGATORY_SECONDS", "0.3"))


def config(directory, journal_seconds=0.05):
    return Config(data_dir=directory, bind="tcp://127.0.0.1:0", http_bind="",
                  journal_seconds=journal_seconds)  # fmt: skip


class Load:
    """Submits operations, and completes every other one, from another thread until `stop`."""

    def __init__(self, address):
        self._address = address
        self._stop = threading.Event()
        self.answered = []  # ids of operations whose submission was answered, in order
        self.rounds = 0  # how often some were submitted, and half of them completed
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        with Client(self._address, name="load", timeout=HANG) as client:
            number = 0
            while not self._stop.is_set():
                ids = [f"op-{number + n}" for n in range(20)]
                for op_id in ids:
                    client.defer(f"{op_id}'s key", timeout=3600, op_id=op_id)
                client.flush()
                self.answered += ids
                for op_id in ids[::2]:
                    client.complete(f"{op_id}'s key")
                self.rounds += 1
                number += len(ids)

    def wait_for(self, seconds):
        """Let it work for so long, and for a round at least, however slow it is."""
        before = self.rounds
        self._stop.wait(seconds)
        eventually(lambda: self.rounds > before or not self._thread.is_alive())
        assert self._thread.is_alive()

    def stop(self):
        self._stop.set()
        self._thread.join()


@pytest.fixture
def data(tmp_path):
    """A data directory with an operation that waits, one that ended, and a journal of both."""
    # Written when the server closes: each table in one file, however long a request takes.
    with ServiceDaemon(config(tmp_path / "data", journal_seconds=3600)) as service, \
            Client(service.server.address) as client:  # fmt: skip
        client.defer("a", timeout=3600, op_id="waits")
        client.defer("b", timeout=3600, op_id="done")
        client.flush()
        client.complete("b", 1)
    return tmp_path / "data"


def states(directory, ids):
    """Start a server over a directory; returns the states of some operations."""
    with ServiceDaemon(config(directory)) as service, \
            Client(service.server.address, name="load") as client:  # fmt: skip
        return [client.query(op_id).state for op_id in ids]


def journal(directory, table):
    """Return the ids in a table of the journal."""
    found = pyarrow.dataset.dataset(directory / "journal" / table, format="parquet",
                                    partitioning="hive")  # fmt: skip
    return found.to_table().column("op_id").to_pylist()


def test_under_load(tmp_path):
    """Restored elsewhere, all that was answered before the backup began is there."""
    with ServerProcess(tmp_path / "data", "--journal-seconds", "0.05") as server:
        load = Load(server.address)
        try:
            load.wait_for(SECONDS)
            answered = list(load.answered)
            back_up(Config(data_dir=tmp_path / "data"), tmp_path / "backup")
            load.wait_for(SECONDS)
        finally:
            load.stop()
    assert len(answered) >= 20
    made = (tmp_path / "backup").stat().st_mtime_ns
    restore(tmp_path / "backup", tmp_path / "new")
    # Nothing was written there: SQLite would have made and deleted files beside the database.
    assert (tmp_path / "backup").stat().st_mtime_ns == made
    found = states(tmp_path / "new", answered)
    assert set(found) == {"pending", "completed"}
    ids = journal(tmp_path / "new", "operations")
    assert set(answered) <= set(ids)
    assert len(set(ids)) == len(ids)


def test_a_journal_goes_on(data, tmp_path):
    """Each row is in the restored journal once, also of files that the backup has left out."""
    backup = tmp_path / "backup"
    copied = back_up(Config(data_dir=data), backup)
    assert copied.journal_files == len(list(backup.rglob("*.parquet"))) == 3
    restore(backup, tmp_path / "new")
    assert states(tmp_path / "new", ["waits", "done"]) == ["pending", "completed"]
    with ServiceDaemon(config(tmp_path / "new")) as service, \
            Client(service.server.address) as client:  # fmt: skip
        client.defer("c", op_id="later")
        client.complete("a", 2)
    assert sorted(journal(tmp_path / "new", "operations")) == ["done", "later", "waits"]
    assert sorted(journal(tmp_path / "new", "outcomes")) == ["done", "waits"]


def test_outcomes_after_a_restore(tmp_path):
    """Each reaches a client that stayed, though outcomes since the backup were lost."""
    address, told = f"tcp://127.0.0.1:{free_port()}", queue.SimpleQueue()

    def end_some(*names):
        with Client(address, name="other") as other, Client(address, name="stays") as twin:
            for name in names:
                twin.submit(name, op_id=name)
                assert other.complete(name) == 1

    def served(name):
        return ServiceDaemon(dataclasses.replace(config(tmp_path / name), bind=address))

    with contextlib.ExitStack() as stack:
        with served("data"):
            stays = Client(address, name="stays", on_outcome=told.put)
            stack.enter_context(stays)
            end_some("a")
            numbers = [told.get(timeout=HANG).number]
            back_up(config(tmp_path / "data"), tmp_path / "backup")
            end_some("b", "c", "d")
            numbers += [told.get(timeout=HANG).number for _ in range(3)]
        restore(tmp_path / "backup", tmp_path / "new")
        with served("new"):
            end_some("e", "f", "g", "h", "i")
            outcomes = [told.get(timeout=HANG) for _ in range(5)]
    assert [outcome.op_id for outcome in outcomes] == ["e", "f", "g", "h", "i"]
    assert min(outcome.number for outcome in outcomes) > max(numbers)


def test_rows_that_came_after_the_database_was_copied(data, tmp_path, monkeypatch):
    """Their files are left out: the database of the backup would give their numbers again."""
    last = SqliteStore.last_numbers

    def before_the_last_operation(store):
        return last(store)._replace(operations=1, outcomes=0)

    monkeypatch.setattr(SqliteStore, "last_numbers", before_the_last_operation)
    assert back_up(Config(data_dir=data), tmp_path / "backup").journal_files == 1


def test_a_server_begins_meanwhile(data, tmp_path, monkeypatch):
    """The copy is of one moment, though no server had the database before."""

    def late(connection, target):
        with ServiceDaemon(config(data)) as service, Client(service.server.address) as client:
            for number in range(300):
                client.defer("c", timeout=3600, op_id=f"{number}" * 100)
            client.flush()
        copy_database(connection, target)

    monkeypatch.setattr("purgatory.service.backup.copy_database", late)
    back_up(config(data), tmp_path / "backup")
    assert states(tmp_path / "backup", ["waits", "done"]) == ["pending", "completed"]


def test_an_empty_directory(data, tmp_path, monkeypatch):
    """A link may name it; the working directory is refused: programs there would lose it."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to("there")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(StoreError, match="here: is the working directory; expected a new or"):
        back_up(config(data), Path())
    back_up(config(data), Path("../link"))
    assert (tmp_path / "there" / "purgatory.db").is_file()
    assert (tmp_path / "link").is_symlink()


def test_it_is_private(data, tmp_path):
    """Only the owner may read it."""
    before = os.umask(0o022)
    try:
        back_up(Config(data_dir=data), tmp_path / "backup")
    finally:
        os.umask(before)
    for path in (tmp_path / "backup", *(tmp_path / "backup").rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_a_copy_that_fails(data, tmp_path, monkeypatch):
    """Nothing is left of it, and the error names the file."""

    def full(*_):
        raise OSError(28, "No space left on device", "a file")

    monkeypatch.setattr("purgatory.service.backup.copy_file", full)
    with pytest.raises(StoreError, match="a file: No space left on device"):
        back_up(Config(data_dir=data), tmp_path / "backup")
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_refusals(data, tmp_path):
    """Directories with files, those without a database, and other versions are refused."""
    with pytest.raises(StoreError, match=r"data: has .* in it; expected a new or empty directory"):
        restore(data, data)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file: is a file"):
        back_up(Config(data_dir=data), tmp_path / "file")
    with pytest.raises(StoreError, match="no such database"):
        restore(tmp_path / "nothing", tmp_path / "new")
    with ServiceDaemon(config(tmp_path / "used")):
        with pytest.raises(StoreError, match=r"used: has .* in it"):
            restore(data, tmp_path / "used")
    for more, remedy in ((-1, "start a server"), (1, "use the later version")):
        with contextlib.closing(sqlite3.connect(data / "purgatory.db")) as connection:
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + more}")
        found = rf"version is {SCHEMA_VERSION + more}; expected \d+: {remedy}"
        with pytest.raises(StoreError, match=found):
            back_up(Config(data_dir=data), tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_the_commands(data, tmp_path, capsys):
    """They say what they have copied; errors are one line."""
    backup, new = str(tmp_path / "backup"), str(tmp_path / "new")
    assert cli.main(["backup", backup, "--data-dir", str(data)]) == 0
    assert capsys.readouterr().out.startswith(f"{backup}: a database of ")
    assert cli.main(["restore", backup, "--data-dir", new]) == 0
    assert capsys.readouterr().out.endswith("3 files of the journal\n")
    assert cli.main(["restore", backup, "--data-dir", new]) == cli.FAILED
    assert "expected a new or empty directory" in capsys.readouterr().err
    assert states(tmp_path / "new", ["done"]) == ["completed"]
