"""One contract, two file systems: this machine's disks, and the same seen through Hadoop."""

import threading

import pytest

from purgatory.spark.filesystem import HadoopFiles, LocalFiles, files_for


@pytest.fixture(params=["local", "hadoop"])
def files(request, spark):
    """A file system."""
    return LocalFiles() if request.param == "local" else HadoopFiles(spark)


@pytest.fixture
def root(request, files, tmp_path):
    """A directory, as the file system names it."""
    return str(tmp_path) if isinstance(files, LocalFiles) else f"file://{tmp_path}"


def test_a_file_is_made_once(files, root):
    """The second maker is told, and the first one's text stays; no hidden file is left."""
    path = f"{root}/deep/down/file"
    assert files.create(path, "é") is True
    assert files.create(path, "other") is False
    assert files.read(path) == "é"
    assert [n for n in files.names(f"{root}/deep/down") if not n.endswith(".crc")] == ["file"]


def test_what_is_not_there(files, root):
    """A directory that is not there has no names; deleting and moving nothing do nothing."""
    assert files.names(f"{root}/none") == []
    assert files.exists(f"{root}/none") is False
    files.delete(f"{root}/none")
    files.move(f"{root}/none", f"{root}/target")
    assert files.exists(f"{root}/target") is False


def test_a_move_makes_the_directory_and_replaces_what_is_there(files, root):
    """So a move that was cut short can be done again."""
    for text in ("old", "new"):
        files.create(f"{root}/source", text)
        files.move(f"{root}/source", f"{root}/to/target")
    assert files.read(f"{root}/to/target") == "new"
    assert files.exists(f"{root}/source") is False


def test_delete_takes_files_and_whole_directories(files, root):
    """All that is below goes."""
    files.create(f"{root}/one/two/file", "")
    files.create(f"{root}/file", "")
    files.delete(f"{root}/one")
    files.delete(f"{root}/file")
    assert not files.exists(f"{root}/one")
    assert not files.exists(f"{root}/file")


def test_of_many_makers_one_wins(tmp_path):
    """On a local disk, from several threads at once: who made it, and whose text it is, agree."""
    files, winners, start = LocalFiles(), [], threading.Barrier(8)

    def make(name):
        start.wait()
        if files.create(f"{tmp_path}/file", name):
            winners.append(name)

    threads = [threading.Thread(target=make, args=(f"{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [files.read(f"{tmp_path}/file")] == winners


@pytest.mark.parametrize(
    ("path", "kind", "at"),
    [
        ("/a/b", LocalFiles, "/a/b"),
        ("file:///a/b%20c", LocalFiles, "/a/b c"),
        ("file:/a/b", LocalFiles, "/a/b"),
        ("hdfs://host/a/", HadoopFiles, "hdfs://host/a"),
        ("s3a://bucket/a", HadoopFiles, "s3a://bucket/a"),
    ],
)
def test_the_scheme_decides(spark, path, kind, at):
    """A path without one is local."""
    files, found = files_for(spark, path)
    assert (type(files), found) == (kind, at)


def test_a_relative_path_is_made_absolute(spark, tmp_path, monkeypatch):
    """As Spark's Java process may have another working directory."""
    monkeypatch.chdir(tmp_path)
    assert files_for(spark, "a")[1] == f"{tmp_path}/a"
