"""Writing: rows are checked, and the whole file appears at once or not at all."""

import contextlib
import os
import resource
import signal

import pytest

from purgatory.trace import (
    BadRows,
    KeyEvent,
    TraceError,
    read_events,
    write_events,
)

SUFFIXES = ["parquet", "csv", "jsonl", "csv.gz"]
ROW = KeyEvent("k", 1)


class Mishap(Exception):
    """An exception raised within a `with` block."""


def write_and_fail(path, error):
    with write_events(path) as out:
        out.write(ROW)
        raise error


def write_much(path):
    with write_events(path) as out:
        write_rows(out)


def write_rows(out):
    for n in range(100_000):
        out.write(KeyEvent(f"key-{n * 7919 % 100_000}", n))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_file_appears_when_the_block_ends(tmp_path, suffix):
    """Not before, whole, and with nothing beside it."""
    path = tmp_path / f"e.{suffix}"
    with write_events(path) as out:
        out.write(ROW)
        assert not path.exists()
    assert list(tmp_path.iterdir()) == [path]
    assert list(read_events(path)) == [ROW]


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", [Mishap, KeyboardInterrupt])
def test_an_error_leaves_nothing_behind(tmp_path, suffix, error):
    """No new file, no half file, and an old file as it was."""
    path = tmp_path / f"e.{suffix}"
    with pytest.raises(error):
        write_and_fail(path, error)
    assert list(tmp_path.iterdir()) == []
    path.write_text("old")
    with pytest.raises(error):
        write_and_fail(path, error)
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_text() == "old"


def test_an_old_file_is_replaced_through_its_link(tmp_path):
    """The link stays, and points where it did."""
    real = tmp_path / "real.csv"
    real.write_text("old")
    link = tmp_path / "link.csv"
    link.symlink_to(real)
    with write_events(link) as out:
        out.write(ROW)
    assert link.is_symlink()
    assert list(read_events(real)) == [ROW]


def test_the_file_has_the_usual_permissions(tmp_path):
    """Those that the umask leaves, not those of a private temporary file."""
    path = tmp_path / "e.csv"
    before = os.umask(0o027)
    try:
        with write_events(path):
            pass
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_replaced_file_keeps_its_mode(tmp_path):
    """A private file stays private, also while the new one is written."""
    path = tmp_path / "e.csv"
    path.touch()
    path.chmod(0o600)
    with write_events(path) as out:
        out.write(ROW)
        assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_no_regular_file_is_never_replaced(tmp_path):
    """A directory, or a device behind a link, is refused before anything is written."""
    directory = tmp_path / "dir.csv"
    directory.mkdir()
    device = tmp_path / "null.csv"
    device.symlink_to(os.devnull)
    for path in (directory, device):
        with pytest.raises(TraceError, match="not a regular file"), write_events(path):
            pass
    assert sorted(tmp_path.iterdir()) == [directory, device]


def test_what_cannot_be_made_is_refused(tmp_path):
    """A missing directory, a file in its place, too long a name: one error that names it."""
    (tmp_path / "file").touch()
    for name in ("missing/e.csv", "file/e.csv", "x" * 300 + ".csv"):
        path = tmp_path / name
        with pytest.raises(TraceError) as caught, write_events(path):
            pass
        assert str(path) in str(caught.value)
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_bad_row_is_refused_and_the_others_are_kept(tmp_path, suffix):
    """The error names the row; a caller that goes on loses nothing."""
    path = tmp_path / f"e.{suffix}"
    with write_events(path) as out:
        out.write(ROW)
        with pytest.raises(BadRows, match=r"row 2, column at_ms: 'now'") as caught:
            out.write(KeyEvent("k", "now"))  # type: ignore[arg-type]
        assert caught.value.rows[0].path == str(path)
        out.write(ROW)
    assert list(read_events(path)) == [ROW, ROW]


def test_the_writer_works_in_its_block_only(tmp_path):
    """Before and after it there is no file to write into."""
    out = write_events(tmp_path / "e.csv")
    with pytest.raises(TraceError, match="outside of its with block"):
        out.write(ROW)
    with out:
        out.write(ROW)
    with pytest.raises(TraceError, match="outside of its with block"):
        out.write(ROW)
    assert list(read_events(tmp_path / "e.csv")) == [ROW]


@contextlib.contextmanager
def full_disk():
    """A limit on file sizes stands for the disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path, suffix):
    """While writing and at the end."""
    with full_disk(), pytest.raises(TraceError, match="cannot write") as caught:
        write_much(tmp_path / f"e.{suffix}")
    assert f"e.{suffix}" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_no_torn_file_appears_after_a_failed_write(tmp_path):
    """The caller catches the error, and the disk has room again."""
    path = tmp_path / "e.jsonl"
    path.write_text("old")
    out = write_events(path).__enter__()
    with full_disk(), pytest.raises(TraceError, match="cannot write"):
        write_rows(out)
    with pytest.raises(TraceError, match="an earlier write failed"):
        out.write(ROW)
    with pytest.raises(TraceError, match="an earlier write failed"):
        out.write_columns([["k"], [1], [0], [False]])
    with pytest.raises(TraceError, match="an earlier write failed"):
        out.__exit__(None)
    assert [one.name for one in tmp_path.iterdir()] == ["e.jsonl"]
    assert path.read_text() == "old"
