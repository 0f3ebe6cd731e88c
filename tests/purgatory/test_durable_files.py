"""Directories and names that are on disk when a function returns."""

import stat
from contextlib import closing

import pytest

from purgatory import durable_files
from purgatory.durable_files import DirectoryLock, fsync, make_directory


@pytest.fixture
def synced(monkeypatch):
    """The names of what is synced, in order."""
    found = []

    def sync(path):
        found.append(path.name)
        fsync(path)

    monkeypatch.setattr(durable_files, "fsync", sync)
    return found


def test_the_parent_of_each_new_directory_is_synced(tmp_path, synced):
    """From the outermost one on; those that are there are left alone."""
    target = tmp_path / "a" / "b" / "c"
    make_directory(target)
    assert target.is_dir()
    assert synced == [tmp_path.name, "a", "b"]
    make_directory(target)
    assert len(synced) == 3


def test_new_directories_have_the_mode(tmp_path):
    """All of them; an existing one keeps its own."""
    (tmp_path / "there").mkdir(mode=0o755)
    made = tmp_path / "there" / "a" / "b"
    make_directory(made, 0o700)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (made, made.parent)]
    assert modes == [0o700, 0o700]
    assert stat.S_IMODE((tmp_path / "there").stat().st_mode) == 0o755


def test_a_file_where_a_directory_should_be(tmp_path):
    """It is an OSError, and so is a sync of what is not there."""
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        make_directory(tmp_path / "file" / "a")
    with pytest.raises(FileNotFoundError):
        fsync(tmp_path / "missing")


def test_a_lock_outlives_its_file(tmp_path):
    """A second process gets the directory when the first has closed its lock, and not before."""
    with closing(DirectoryLock(tmp_path, "lock")):
        for _ in range(2):
            with pytest.raises(BlockingIOError):
                DirectoryLock(tmp_path, "lock")
            (tmp_path / "lock").unlink()
    DirectoryLock(tmp_path, "lock").close()
