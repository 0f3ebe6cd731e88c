"""Databases of earlier versions are brought up to date."""

import sqlite3
from pathlib import Path

import pytest

from purgatory import StoreError
from purgatory.service.protocol import unpack
from purgatory.service.store.schema import SCHEMA_VERSION
from tests.testing.step_server import StepServer, operation

# Made by the last version with schema 2, while a server of it was killed.
VERSION_2 = Path(__file__).with_name("version_2.sql").read_text(encoding="utf-8")


@pytest.fixture
def old(tmp_path):
    """The path of a database of version 2."""
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.executescript(VERSION_2)
    connection.close()
    return path


def version(path):
    connection = sqlite3.connect(path)
    [(found,)] = connection.execute("PRAGMA user_version")
    connection.close()
    return found


def test_a_database_of_version_2(old):
    """All that it has is there, and what is new works."""
    assert version(old) == 2
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
    assert server.extend("waits", 70_000).done == [True]
    server.complete("n", 1, hold_ms=5)
    assert server.query("due").state == "completed"
    server.submit(operation("new", "n"))
    server.crash()
    assert server.query("waits").deadline_ms == server.time.ms + 70_000
    assert server.query("new").state == "completed"
    server.store.close()


def test_a_failure_while_it_is_brought_up(old):
    """Nothing is changed then; the next start does it."""
    blocker = sqlite3.connect(old, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="locked"):
        StepServer(old)
    blocker.close()
    assert version(old) == 2
    StepServer(old).store.close()
    assert version(old) == SCHEMA_VERSION


def test_a_later_version(old):
    """It is refused: an older program does not know what it would lose."""
    connection = sqlite3.connect(old)
    connection.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    connection.close()
    with pytest.raises(StoreError, match=f"schema version is {SCHEMA_VERSION + 1}"):
        StepServer(old)
