"""The steps from earlier schemas to the present one; `test_schema` starts servers on them."""

import sqlite3

import pytest
from msgspec import msgpack

from purgatory.service.store.sqlite import migrations
from purgatory.service.store.sqlite.migrations import STEPS, create_tables, migrate, run_statements
from tests.purgatory.service.store.sqlite.test_schema import DUMPS

NEWEST = max(STEPS)


@pytest.fixture
def connection():
    """A database of version 1 in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(DUMPS[1])
    yield connection
    connection.close()


def version(connection):
    return connection.execute("PRAGMA user_version").fetchone()[0]


def tables(connection):
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}


def test_operations_are_packed(connection):
    """Each is a batch of its own, with its timeout instead of its deadline."""
    columns = "number, client, submitted_ms, op_id, keys, deadline_ms, need, kind, payload"
    before = connection.execute(f"SELECT {columns} FROM operations").fetchall()
    assert migrate(connection, 1) == NEWEST
    after = connection.execute(
        "SELECT first, last, size, client, submitted_ms, operations FROM batches"
    ).fetchall()
    assert before
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        number, client, submitted_ms, op_id, keys, deadline_ms, need, kind, payload = old
        assert new[:5] == (number, number, 1, client, submitted_ms)
        value = msgpack.decode(payload) if payload else None
        expected = [op_id, msgpack.decode(keys), deadline_ms - submitted_ms, need, kind, value]
        assert msgpack.decode(new[5]) == [expected]


def test_how_far_it_is(connection, monkeypatch):
    """The step that reads each operation counts them."""
    monkeypatch.setattr(migrations, "_NOTED", 2)
    columns = "client, submitted_ms, op_id, keys, deadline_ms, need, kind, payload"
    for n in range(5):
        connection.execute(
            f"INSERT INTO operations ({columns}) SELECT client, submitted_ms, 'more-{n}', keys, "
            "deadline_ms, need, kind, payload FROM operations WHERE op_id = 'waits'"
        )
    [(total,)] = connection.execute("SELECT count(*) FROM operations")
    told = []
    migrate(connection, 1, told.append)
    assert told == [f"{n} of {total} operations are converted" for n in range(2, total + 1, 2)]


def test_only_the_steps_that_it_lacks(connection):
    """A database of the newest version is left as it is."""
    migrate(connection, 1)
    assert version(connection) == NEWEST
    assert {"deadlines", "held", "replies", "jobs"} <= tables(connection)
    changes = connection.total_changes
    assert migrate(connection, NEWEST) == NEWEST
    assert connection.total_changes == changes


def test_a_step_that_fails(connection, monkeypatch):
    """Nothing of it stays, and the steps before do."""

    def full(connection, note):
        run_statements(connection, "CREATE TABLE half (done)")
        raise sqlite3.OperationalError("full")

    monkeypatch.setitem(STEPS, NEWEST, full)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        migrate(connection, 1)
    connection.execute("ROLLBACK")
    assert version(connection) == NEWEST - 1
    assert "half" not in tables(connection)
    assert "held" in tables(connection)


def test_a_new_database_has_the_tables_of_a_migrated_one(connection):
    """And no others."""
    new = sqlite3.connect(":memory:")
    create_tables(new)
    migrate(connection, 1)
    assert tables(new) == tables(connection)
    new.close()
