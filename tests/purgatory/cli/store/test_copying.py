"""`purgatory store copy`."""

from contextlib import closing

from purgatory.cli.store import copying
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing import shown_progress
from tests.testing.changes import changes_of


def test_from_sqlite_and_back(run, postgres, tmp_path):
    """What was copied is counted; a password is not shown."""
    (tmp_path / "one").mkdir(mode=0o700)
    with closing(SqliteStore(tmp_path / "one" / "purgatory.db")) as store:
        store.commit(changes_of(limits=["k", 1, 0, 0.0]))
    url = postgres.url.replace("postgres@", "postgres:secret@")
    code, out, err = run("store", "copy", "--from", tmp_path / "one", "--to", url)
    assert (code, err.replace("\r", "")) == (0, "")
    assert out.endswith("0 operations, 0 outcomes, 0 remembered ids\n")
    assert "secret" not in out
    code, out, err = run("store", "copy", "--from", url, "--to", tmp_path / "two")
    assert code == 0
    with closing(SqliteStore(tmp_path / "two" / "purgatory.db")) as store:
        assert [limit.kind for limit in store.limits()] == ["k"]


def test_the_partition_of_the_environment(run, postgres, tmp_path, monkeypatch):
    """It is that of the servers."""
    (tmp_path / "one").mkdir(mode=0o700)
    SqliteStore(tmp_path / "one" / "purgatory.db").close()
    monkeypatch.setenv("PURGATORY_PARTITION", "orders")
    assert run("store", "copy", "--from", tmp_path / "one", "--to", postgres.url)[0] == 0
    schemas = postgres.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'purgatory%'")
    assert schemas == [("purgatory_orders",)]


def test_progress(run, postgres, tmp_path, monkeypatch):
    """It says how many records are copied; only a terminal shows that."""
    (tmp_path / "one").mkdir(mode=0o700)
    with closing(SqliteStore(tmp_path / "one" / "purgatory.db")) as store:
        store.commit(changes_of(limits=["k", 1, 0, 0.0]))
    texts = shown_progress.record(monkeypatch, copying)
    assert run("store", "copy", "--from", tmp_path / "one", "--to", postgres.url)[0] == 0
    assert texts == ["0 records", "1 record"]


def test_nothing_to_copy(run, postgres, tmp_path):
    """It is one line, and exit code 2."""
    code, out, err = run("store", "copy", "--from", tmp_path / "no", "--to", postgres.url)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "there is no such database" in err
