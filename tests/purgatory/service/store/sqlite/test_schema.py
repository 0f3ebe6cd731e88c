"""Databases of earlier versions are brought up to date, after a copy."""

import re
import sqlite3
import stat
from pathlib import Path

import pytest

from purgatory import StoreError
from purgatory.service.encoding import unpack
from purgatory.service.store.contract import COUNT
from purgatory.service.store.sqlite import migrations, schema
from purgatory.service.store.sqlite.schema import OLDEST_VERSION, SCHEMA_VERSION
from purgatory.service.store.sqlite.sqlite_store import SqliteStore
from tests.testing.step_server import StepServer, operation

# Version 2 was made by the last program with that schema, while its server was killed; version 1 is
# the same data in the tables of its time. A new schema adds the dump of the one before.
OLD_VERSIONS = range(OLDEST_VERSION, SCHEMA_VERSION)
DUMPS = {
    number: Path(__file__).with_name(f"version_{number}.sql").read_text(encoding="utf-8")
    for number in OLD_VERSIONS
}


@pytest.fixture(params=OLD_VERSIONS)
def old(tmp_path, request):
    """The path of a database of an earlier version."""
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.executescript(DUMPS[request.param])
    connection.close()
    assert version(path) == request.param
    return path


def version(path):
    connection = sqlite3.connect(path)
    [(found,)] = connection.execute("PRAGMA user_version")
    connection.close()
    return found


def dump(path):
    """Return all that a database has, as SQL."""
    connection = sqlite3.connect(path)
    found = list(connection.iterdump())
    connection.close()
    return found


def copies(path):
    """Return the copies that were made before a migration."""
    return sorted(path.parent.glob("a.db.version-*"))


def test_all_is_there(old):
    """What an earlier version has stored is found, and what is new works."""
    server = StepServer(old)
    assert version(old) == SCHEMA_VERSION
    server.hello()
    [outcome] = server.fetch_outcomes()
    assert (outcome.op_id, unpack(outcome.result), unpack(outcome.payload)) == (
        "done",
        "v",
        "a payload",
    )
    assert server.query("waits").keys_done == ["l"]
    assert server.query("waits").kind == "pay"
    assert server.extend("waits", 70_000).done == [True]
    server.complete("n", 1, hold_ms=5)
    assert server.query("due").state == "completed"
    server.submit(operation("new", "n"))
    server.crash()
    assert server.query("waits").deadline_ms == server.time.ms + 70_000
    assert server.query("new").state == "completed"
    server.store.close()


def test_numbers_are_not_given_again(old):
    """Not those of operations that the earlier version has deleted."""
    before = sqlite3.connect(old)
    last = 3
    if version(old) == 1:
        [(last,)] = before.execute("SELECT seq FROM sqlite_sequence WHERE name = 'operations'")
    before.close()
    store = SqliteStore(old)
    assert store.last_numbers()[:2] == (last, 1)
    store.close()


def test_the_tables_are_those_of_a_new_database(old, tmp_path):
    """A migration leads to the same schema as a new start."""

    def tables(path):
        connection = sqlite3.connect(path)
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        found = {name: "".join(line.partition("--")[0].strip() for line in sql.splitlines())
                 for name, sql in rows}  # fmt: skip
        connection.close()
        return found

    SqliteStore(old).close()
    SqliteStore(tmp_path / "new.db").close()
    assert tables(old) == tables(tmp_path / "new.db")


def test_the_copy(old):
    """It is the database as it was, named with its version, and private."""
    before, number = dump(old), version(old)
    StepServer(old).store.close()
    [copy] = copies(old)
    assert copy.name == f"a.db.version-{number}"
    assert dump(copy) == before
    assert version(copy) == number
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    SqliteStore(old).close()
    assert copies(old) == [copy]


def test_how_far_it_is(old):
    """The copy is told in bytes, though another connection reads; at last it is checked."""
    number, told = version(old), []
    SqliteStore(old, note=told.append).close()
    assert re.fullmatch(rf"(\d) of \1 MiB are copied, of a database of version {number}", told[0])
    assert told[-1] == "the database is checked"
    told.clear()
    SqliteStore(old, note=told.append).close()
    assert told == ["the database is checked"]


def test_a_start_that_migrates_nothing(tmp_path):
    """A new database, and one of this version, are not copied."""
    for _ in range(2):
        SqliteStore(tmp_path / "a.db").close()
        assert copies(tmp_path / "a.db") == []


def test_a_locked_database(old):
    """Nothing is changed then; the next start does it."""
    number = version(old)
    blocker = sqlite3.connect(old, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        StepServer(old)
    blocker.close()
    assert version(old) == number
    StepServer(old).store.close()
    assert version(old) == SCHEMA_VERSION


def test_a_step_that_fails(old, monkeypatch):
    """It leaves the version before; the next start goes on from there."""

    def full(connection, note):
        connection.execute("CREATE TABLE half (done)")
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setitem(migrations.STEPS, SCHEMA_VERSION, full)
        with pytest.raises(StoreError, match="disk is full"):
            StepServer(old)
    assert version(old) == SCHEMA_VERSION - 1
    assert not any("half" in line for line in dump(old))
    StepServer(old).store.close()
    assert version(old) == SCHEMA_VERSION


def test_a_copy_that_fails(old, monkeypatch):
    """Without a copy nothing is changed; the error names its file."""

    def full(connection, target, progress):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("purgatory.service.store.sqlite.database_files._copy", full)
    number = version(old)
    with pytest.raises(StoreError, match=rf"a.db.version-{number}: .* No space left"):
        StepServer(old)
    assert version(old) == number
    assert copies(old) == []


def test_a_later_version(old):
    """It is refused, with both versions: an older program does not know what it would lose."""
    connection = sqlite3.connect(old)
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    connection.close()
    words = f"schema version is {SCHEMA_VERSION + 1}; expected {OLDEST_VERSION} to {SCHEMA_VERSION}"
    with pytest.raises(StoreError, match=words):
        StepServer(old)


def test_every_version_has_a_step():
    """From the oldest version on, one after the other."""
    assert list(migrations.STEPS) == list(range(schema.OLDEST_VERSION + 1, SCHEMA_VERSION + 1))


def test_a_start_looks_for_damage(tmp_path, monkeypatch):
    """Of all tables; if there are many remembered ids, not of theirs."""
    store = SqliteStore(tmp_path / "a.db")
    store.set_metadata({COUNT: 3})
    checks = schema.quick_checks(store._connection)
    assert checks == ["PRAGMA quick_check(1)"]
    monkeypatch.setattr(schema, "MAX_CHECKED", 2)
    checks = schema.quick_checks(store._connection)
    assert "PRAGMA quick_check('outcomes')" in checks
    assert "PRAGMA quick_check('sqlite_schema')" in checks
    assert not [check for check in checks if "remembered" in check]
    assert {store._connection.execute(check).fetchone()[0] for check in checks} == {"ok"}
    store.close()
