"""One contract, two file systems: the local disks, and the same disks through Hadoop."""

import contextlib
import os
import threading

import pytest

from purgatory.spark.filesystem import HadoopFileSystem, LocalFileSystem, file_system_for
from tests.testing.default_file_system import viewfs_as_default


@pytest.fixture(params=["local", "hadoop"])
def file_system(request, spark):
    """A file system of either kind."""
    return LocalFileSystem() if request.param == "local" else HadoopFileSystem(spark)


@pytest.fixture
def root(request, file_system, tmp_path):
    """A directory, as the file system names it."""
    return str(tmp_path) if isinstance(file_system, LocalFileSystem) else f"file://{tmp_path}"


def test_a_file_is_made_once(file_system, root):
    """Creating a file again returns False and keeps the first text; no hidden file is left."""
    path = f"{root}/deep/down/file"
    assert file_system.create(path, "é") is True
    assert file_system.create(path, "other") is False
    assert file_system.read(path) == "é"
    assert [n for n in file_system.names(f"{root}/deep/down") if not n.endswith(".crc")] == ["file"]


def test_what_is_not_there(file_system, root):
    """A missing directory has no names; deleting and moving missing files do nothing."""
    assert file_system.names(f"{root}/none") == []
    assert file_system.exists(f"{root}/none") is False
    file_system.delete(f"{root}/none")
    file_system.move(f"{root}/none", f"{root}/target")
    assert file_system.exists(f"{root}/target") is False


def test_a_move_makes_the_directory_and_replaces_what_is_there(file_system, root):
    """Moving replaces the target, so that an interrupted move can be repeated."""
    for text in ("old", "new"):
        file_system.create(f"{root}/source", text)
        file_system.move(f"{root}/source", f"{root}/to/target")
    assert file_system.read(f"{root}/to/target") == "new"
    assert file_system.exists(f"{root}/source") is False


def test_a_move_to_a_new_name_replaces_nothing(file_system, root):
    """It tells whether the file was renamed; a file that is missing is none."""
    file_system.create(f"{root}/source", "first")
    assert file_system.move_new(f"{root}/source", f"{root}/to/target") is True
    assert file_system.move_new(f"{root}/source", f"{root}/to/target") is False
    file_system.create(f"{root}/source", "second")
    assert file_system.move_new(f"{root}/source", f"{root}/to/target") is False
    assert file_system.read(f"{root}/to/target") == "first"
    assert file_system.read(f"{root}/source") == "second"


def test_the_sizes_of_files(file_system, root):
    """Of files only; a missing directory has none."""
    file_system.create(f"{root}/file", "four")
    file_system.create(f"{root}/directory/other", "")
    assert file_system.sizes(f"{root}/none") == {}
    sizes = file_system.sizes(root)
    assert {name: size for name, size in sizes.items() if not name.endswith(".crc")} == {"file": 4}


def test_a_file_deleted_meanwhile_hides_no_other(tmp_path, monkeypatch):
    """A running server deletes old files of its journal at any time."""
    entries = [Entry("gone", None), Entry("kept", 4)]
    monkeypatch.setattr(os, "scandir", lambda _: contextlib.nullcontext(entries))
    assert LocalFileSystem().sizes(str(tmp_path)) == {"kept": 4}


class Entry:
    """A file in a listing; without a size it was deleted after the listing."""

    def __init__(self, name, size):
        self.name, self.st_size = name, size

    def is_file(self):
        return True

    def stat(self):
        if self.st_size is None:
            raise FileNotFoundError
        return self


def test_delete_takes_files_and_whole_directories(file_system, root):
    """Deleting a directory deletes all files below it."""
    file_system.create(f"{root}/one/two/file", "")
    file_system.create(f"{root}/file", "")
    file_system.delete(f"{root}/one")
    file_system.delete(f"{root}/file")
    assert not file_system.exists(f"{root}/one")
    assert not file_system.exists(f"{root}/file")


def test_of_many_makers_one_wins(tmp_path):
    """If threads create the same file at once, one gets True, and its text is in the file."""
    file_system, winners, start = LocalFileSystem(), [], threading.Barrier(8)

    def make(name):
        start.wait()
        if file_system.create(f"{tmp_path}/file", name):
            winners.append(name)

    threads = [threading.Thread(target=make, args=(f"{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [file_system.read(f"{tmp_path}/file")] == winners


@pytest.mark.parametrize(
    ("path", "kind", "at"),
    [
        ("/a/b", LocalFileSystem, "/a/b"),
        ("file:///a/b%20c", LocalFileSystem, "/a/b c"),
        ("file:/a/b", LocalFileSystem, "/a/b"),
        ("hdfs://host/a/", HadoopFileSystem, "hdfs://host/a"),
        ("s3a://bucket/a", HadoopFileSystem, "s3a://bucket/a"),
    ],
)
def test_the_scheme_decides(spark, path, kind, at):
    """A path without a scheme, or with `file:`, is local."""
    file_system, found = file_system_for(spark, path)
    assert (type(file_system), found) == (kind, at)


@pytest.fixture
def other_default(spark, tmp_path):
    """Make `viewfs` the default file system, with /data on a disk; return the path there."""
    with viewfs_as_default(spark, "cluster", tmp_path):
        yield tmp_path


def test_a_path_without_a_scheme_belongs_to_the_default_file_system(spark, other_default):
    """Spark and these operations find the same file; `file:` still means a local disk."""
    file_system, path = file_system_for(spark, "/data/a")
    assert (type(file_system), path) == (HadoopFileSystem, "viewfs://cluster/data/a")
    file_system.create(f"{path}/text", "here")
    assert (other_default / "a" / "text").read_text() == "here"
    local, path = file_system_for(spark, f"file:{other_default}/a")
    assert (type(local), path) == (LocalFileSystem, f"file:{other_default}/a")
    assert "text" in local.names(path)
    assert [row.value for row in spark.read.text(f"{path}/text").collect()] == ["here"]


def test_a_relative_path_is_made_absolute(spark, tmp_path, monkeypatch):
    """Paths are absolute, as the Java process may have another working directory."""
    monkeypatch.chdir(tmp_path)
    assert file_system_for(spark, "a")[1] == f"{tmp_path}/a"
