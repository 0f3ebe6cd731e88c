"""The database files of a process: what a loss of power, a full disk and a killed process leave."""

from pathlib import Path

import pytest

from purgatory.errors import StoreError
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from purgatory.testing.world.database_files import SimulatedDatabaseFiles
from purgatory.testing.world.disk import Disk, DiskError
from purgatory.testing.world.world import World


def open_store(world, disk):
    """Open a store in a new process; returns it with the process's handles and files."""
    handles = disk.open_handles()
    files = SimulatedDatabaseFiles(world, disk, handles)
    return SqliteStore(Path("/a.db"), connect=files.connect, files=files), handles, files


def test_a_store_loses_nothing_that_was_committed():
    """Whatever write was under way when the power was lost."""
    for seed in range(30):
        world = World(seed)
        disk = Disk(world)
        done = 0
        for _ in range(5):
            store, handles, files = open_store(world, disk)
            assert store.metadata().get("n", 0) in (done, done + 1)
            left = world.random.randint(1, 40)

            def before_step(handles):
                nonlocal left
                left -= 1
                if not left:
                    handles.alive = False  # of this round

            disk.set_faults(before_step, before_step)
            while handles.alive:
                store.set_metadata({"n": done + 1})
                done += handles.alive
            disk.work_well()
            disk.lose_power()
            files.close()


def test_a_disk_that_fails(world, disk):
    """The store raises what it raises with a real one, and goes on after it."""
    store, _, files = open_store(world, disk)

    def fail(handles):
        raise DiskError(full=True)

    disk.set_faults(fail, fail)
    with pytest.raises(StoreError, match="database or disk is full") as caught:
        store.set_metadata({"n": 1})
    assert not caught.value.fatal
    disk.work_well()
    store.set_metadata({"n": 2})
    assert store.metadata()["n"] == 2

    def fail_sync(handles):
        raise DiskError(full=False)

    disk.set_faults(fail_sync, fail_sync)
    with pytest.raises(StoreError, match="disk I/O error") as caught:
        store.set_metadata({"n": 3})
    assert caught.value.fatal
    disk.work_well()
    files.close()


def test_a_copy(world, disk):
    """It is there with all that the database has, or not at all, and replaces what was there."""
    target = Path("/a.db.version-1")
    for round_ in range(2):
        store, handles, files = open_store(world, disk)
        store.set_metadata({"n": round_})

        def fail(handles):
            raise DiskError(full=True)

        disk.set_faults(fail, fail)
        with pytest.raises(StoreError, match=r"/a\.db\.version-1: cannot copy"):
            files.copy(store._connection, target, lambda *_: None)
        assert disk.exists(str(target)) == bool(round_)
        disk.work_well()
        files.copy(store._connection, target, lambda *_: None)
        disk.lose_power()
        file = disk.open(str(target), handles, create=False)
        assert file.read(file.size(), 0) == store._connection.content()
        store.close()
        files.close()


def test_a_checkpoint_that_fails(world, disk):
    """It is no error of the commit before it, as with a real disk."""
    files = SimulatedDatabaseFiles(world, disk, disk.open_handles())
    database = files.connect("/a.db")
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute("CREATE TABLE t (x)")
    database.execute("PRAGMA wal_autocheckpoint=1")
    failed = []

    def fail_after_sync(handles):
        if disk.syncs > synced:
            failed.append(True)
            raise DiskError(full=True)

    synced = disk.syncs
    disk.set_faults(fail_after_sync, lambda handles: None)
    database.execute("INSERT INTO t VALUES (1)")
    assert failed
    disk.work_well()
    disk.lose_power()
    files.close()
    found = SimulatedDatabaseFiles(world, disk, disk.open_handles()).connect("/a.db")
    assert found.execute("SELECT x FROM t").fetchall() == [(1,)]
