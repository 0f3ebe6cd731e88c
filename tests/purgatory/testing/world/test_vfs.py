"""SQLite's view of a disk: names, sizes, syncs, and the errors of each step."""

import apsw
import pytest

from purgatory.testing.world.disk import DiskError
from purgatory.testing.world.vfs import SimulatedVfs


@pytest.fixture
def handles(disk):
    """Those of a process."""
    return disk.open_handles()


@pytest.fixture
def vfs(world, disk, handles):
    """A file system on the disk."""
    made = SimulatedVfs(world, disk, handles)
    yield made
    made.unregister()


def open_file(vfs, name="/a.db", kind=apsw.SQLITE_OPEN_MAIN_DB):
    """Open a file as SQLite does."""
    return vfs.xOpen(name, [kind, 0])


def test_what_is_written_is_read(vfs):
    """At its offset; fewer bytes at the end."""
    file = open_file(vfs)
    file.xWrite(b"content", 3)
    assert file.xFileSize() == 10
    assert file.xRead(100, 5) == b"ntent"
    file.xTruncate(4)
    assert file.xRead(100, 0) == b"\0\0\0c"


def test_names(vfs):
    """A file is there once it was opened, until it is deleted."""
    assert not vfs.xAccess("/a.db", 0)
    open_file(vfs)
    assert vfs.xAccess("/a.db", 0)
    vfs.xDelete("/a.db", syncdir=False)
    assert not vfs.xAccess("/a.db", 0)


def test_the_first_sync_of_a_log_syncs_its_name(vfs, disk):
    """As SQLite does with its directory; a database's own name is not synced with it."""
    log = open_file(vfs, "/a.db-wal", apsw.SQLITE_OPEN_WAL)
    log.xSync(0)
    disk.lose_power()
    assert disk.exists("/a.db-wal")


@pytest.mark.parametrize(
    ("full", "error"), [(True, apsw.FullError), (False, apsw.IOError)], ids=["full", "broken"]
)
def test_errors_are_sqlites(vfs, disk, full, error):
    """A full disk and a broken one, at each kind of step."""
    file = open_file(vfs)

    def fail(handles):
        raise DiskError(full=full)

    disk.set_faults(fail, fail)
    for step in (lambda: file.xWrite(b"x", 0), lambda: file.xTruncate(0), lambda: file.xSync(0)):
        with pytest.raises(error):
            step()


def test_random_bytes_are_the_worlds(vfs):
    """One seed, one database."""
    assert len(vfs.xRandomness(16)) == 16
