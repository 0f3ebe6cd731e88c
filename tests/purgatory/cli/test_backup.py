"""`purgatory backup` and `purgatory restore`."""

import os
import signal

import pytest

from purgatory.cli import backup as backup_command
from tests.testing import shown_progress

pytestmark = pytest.mark.usefixtures("no_thread_is_left")


def test_a_copy_of_a_server_that_runs(run, at, service, tmp_path):
    """What was submitted is in the copy, and in the data directory that is made of it."""
    run("defer", "k", "--in", 60)
    backup, restored = tmp_path / "back\x1bup", tmp_path / "restored"
    code, out, err = run("backup", backup, "--data-dir", tmp_path / "data")
    assert (code, err) == (0, "")
    assert out.startswith(rf"{tmp_path}/back\x1bup: a database of ")
    code, out, err = run("restore", backup, "--data-dir", restored)
    assert (code, err) == (0, "")
    assert (restored / "purgatory.db").stat().st_size > 0


def test_progress(run, at, service, tmp_path, monkeypatch):
    """It says how much of the data is copied; only a terminal shows that."""
    texts = shown_progress.record(monkeypatch, backup_command)
    target = tmp_path / "backup"
    assert run("backup", target, "--data-dir", tmp_path / "data")[0] == 0
    assert run("restore", target, "--data-dir", tmp_path / "new")[0] == 0
    assert all(text.endswith(" MiB copied") for text in texts)
    assert [text.partition(":")[0] for text in texts] == [str(target)] * 2 + [
        str(tmp_path / "new")
    ] * 2


def test_sigterm_leaves_no_unfinished_copy(run, at, service, tmp_path, monkeypatch):
    """The exit code is the signal's; nobody would look for the hidden directory."""
    assert run("backup", tmp_path / "backup", "--data-dir", tmp_path / "data")[0] == 0
    service.close()
    monkeypatch.setattr(os, "fsync", lambda _: signal.raise_signal(signal.SIGTERM))
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        for argv in (
            ("backup", tmp_path / "new", "--data-dir", tmp_path / "data"),
            ("restore", tmp_path / "backup", "--data-dir", tmp_path / "new"),
            ("store", "copy", "--from", tmp_path / "data", "--to", tmp_path / "new"),
        ):
            with pytest.raises(SystemExit, match="143"):
                run(*argv)
            assert {path.name for path in tmp_path.iterdir()} == {"data", "backup"}
    finally:
        signal.signal(signal.SIGTERM, handler)


@pytest.mark.parametrize(
    "argv",
    [("backup", "{}/new", "--data-dir", "{}/missing"), ("restore", "{}", "--data-dir", "{}/new")],
)
def test_nothing_to_copy(run, tmp_path, argv):
    """It is one line and exit code 2, and no new directory is left."""
    code, out, err = run(*[word.format(tmp_path) for word in argv])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("partition", "schema"), [("", "purgatory"), ("eu", "purgatory_eu")])
def test_a_database_of_several_servers(run, tmp_path, monkeypatch, partition, schema):
    """It is refused in one line that says what copies it; the password is not shown."""
    monkeypatch.setenv("PURGATORY_STORE", "postgresql://me:secret@db/purgatory")
    monkeypatch.setenv("PURGATORY_PARTITION", partition)
    monkeypatch.setenv("PURGATORY_ADVERTISE", "tcp://a:7411")
    code, out, err = run("backup", tmp_path / "new")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert f"pg_dump --schema={schema} " in err
    assert "secret" not in err
    assert not (tmp_path / "new").exists()


def test_a_server_in_memory(run, tmp_path, monkeypatch):
    """There is nothing to copy."""
    monkeypatch.setenv("PURGATORY_MEMORY", "1")
    message = "purgatory: memory is set: the server keeps nothing on disk that could be copied\n"
    assert run("backup", tmp_path / "new") == (2, "", message)
